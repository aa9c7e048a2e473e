from __future__ import annotations

import datetime
import time

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QFileDialog, QLineEdit, QMenu, QPushButton

from app.state.shelf import Entry
from app.storage.search import Found
from app.views.entries import Folder, Heading, day
from app.views.model_chip import ModelChip

NOW = datetime.datetime(2026, 3, 10, 12, 0)


def rows(made) -> list[str]:
    entries = made.window.sidebar.chats.entries
    found = [entries.index(row).data(Qt.ItemDataRole.UserRole) for row in range(entries.rowCount())]
    return [f"# {row.title}" if isinstance(row, (Heading, Folder)) else row.title for row in found]


@pytest.fixture
def made(stage):
    made = stage("Kitchen", "Street")
    week = time.time() - 7 * 86400
    made.library.entries += (Entry("old1", "Garden plan", week), Entry("old2", "Kitchen plan", week - 60))
    made.library.entries_changed.emit()
    return made


@pytest.mark.parametrize(
    ("when", "name"),
    [
        (datetime.datetime(2026, 3, 10, 0, 1), "Today"),
        (datetime.datetime(2026, 3, 11, 9, 0), "Today"),
        (datetime.datetime(2026, 3, 9, 23, 59), "Yesterday"),
        (datetime.datetime(2026, 3, 8, 23, 59), "Earlier"),
    ],
)
def test_days_are_named_by_the_calendar(when: datetime.datetime, name: str) -> None:
    assert day(when.timestamp(), NOW) == name


def test_chats_stand_under_their_days(made) -> None:
    assert rows(made) == ["# Today", "Kitchen", "Street", "# Earlier", "Garden plan", "Kitchen plan"]


def test_a_click_opens_and_delete_deletes_with_undo(made, qtbot) -> None:
    chats = made.window.sidebar.chats
    index = chats.entries.index(chats.entries.row_of("old1"))
    qtbot.mouseClick(chats.viewport(), Qt.MouseButton.LeftButton, pos=chats.visualRect(index).center())
    chats.setCurrentIndex(index)
    qtbot.keyClick(chats, Qt.Key.Key_Delete)
    assert made.library.calls == [("open", "old1"), ("delete", "old1")]
    undo = made.window.sidebar._undo
    assert undo.isVisible()
    assert undo.accessibleName() == "Deleted Garden plan"
    qtbot.mouseClick(undo.findChild(QPushButton), Qt.MouseButton.LeftButton)
    assert made.library.calls[-1] == ("undo",)
    assert not undo.isVisible()


def test_headings_cannot_be_chosen(made, qtbot) -> None:
    chats = made.window.sidebar.chats
    qtbot.mouseClick(chats.viewport(), Qt.MouseButton.LeftButton, pos=chats.visualRect(chats.entries.index(0)).center())
    assert made.library.calls == []


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ("loading", "Model Pocket: Loading weights 63 %"),
        ("failed", "Model Pocket: The folder holds no weights."),
        ("absent", "Model Pocket: No model to answer"),
        ("ready", "Model Pocket: Ready · takes pictures"),
        ("unloaded", "Model Pocket: Unloaded until the next question"),
    ],
)
def test_the_chip_says_how_the_model_is(made, status: str, told: str) -> None:
    model = made.model
    model.status, model.progress, model.stage, model.error = (
        status,
        0.63,
        "Loading weights",
        "The folder holds no weights.",
    )
    model.changed.emit()
    assert made.window.sidebar.findChild(ModelChip).accessibleName() == told


def chats(made):
    return made.window.sidebar.chats


def index_of(made, title: str):
    entries = chats(made).entries
    found = (entries.index(row) for row in range(entries.rowCount()))
    return next(index for index in found if index.data() == title)


def editor_of(made) -> QLineEdit:
    return chats(made).viewport().findChild(QLineEdit)


def menu_at(made, title: str) -> QMenu:
    chats(made).customContextMenuRequested.emit(chats(made).visualRect(index_of(made, title)).center())
    menu = QApplication.activePopupWidget()
    assert isinstance(menu, QMenu)
    return menu


def press(menu: QMenu, *path: str) -> None:
    for text in path:
        action = next(action for action in menu.actions() if action.text() == text)
        inner = action.menu()
        if inner is None:
            action.trigger()
        else:
            menu = inner
    QApplication.activePopupWidget().close()


# --- search


def test_what_was_found_takes_the_place_of_the_list_and_enter_opens_the_first_at_its_turn(made, qtbot) -> None:
    search = made.window.sidebar.search
    qtbot.keyClicks(search, "seal")
    assert made.library.search.asked[-1] == "seal"
    assert len(rows(made)) == 6  # until the search has ended
    made.library.search.find(
        "seal", Found("old2", "t7", "The seal is torn."), Found("gone", "t1", "seal"), Found("old1")
    )
    assert rows(made) == ["Kitchen plan", "Garden plan"]
    spoken = chats(made).entries.index(0).data(Qt.ItemDataRole.AccessibleTextRole)
    assert spoken == "Kitchen plan: The seal is torn."
    qtbot.keyClick(search, Qt.Key.Key_Return)
    assert made.library.calls == [("open", "old2", "t7")]
    qtbot.keyClick(search, Qt.Key.Key_Escape)
    assert len(rows(made)) == 6
    assert made.window.page.composer.field.hasFocus()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("", "Nothing found for “zebra”. Titles and messages of 4 chats were searched."),
        ("Braid's library is not open.", "Braid's library is not open."),
    ],
)
def test_an_empty_result_says_what_was_searched(made, error, said) -> None:
    made.window.sidebar.search.setText("zebra")
    made.library.search.find("zebra", error=error)
    assert rows(made) == []
    assert chats(made).property("nothing") == said


def test_arrow_down_goes_from_the_search_into_the_list(made, qtbot) -> None:
    search = made.window.sidebar.search
    search.setFocus()
    qtbot.keyClick(search, Qt.Key.Key_Down)
    qtbot.waitUntil(chats(made).hasFocus)
    assert chats(made).currentIndex().data() == "Kitchen"


# --- pins, folders and names


def test_pinned_chats_stand_first_then_folders_then_days(made) -> None:
    made.library.pin("old1", True)
    made.library.file("old2", "House")
    made.library.file(made.library.tabs[1].id, "House")
    assert rows(made) == ["# Pinned", "Garden plan", "# House", "Street", "Kitchen plan", "# Today", "Kitchen"]


def test_a_folder_is_closed_and_opened_by_click_and_keys(made, qtbot) -> None:
    made.library.file("old2", "House")
    place = chats(made).visualRect(index_of(made, "House")).center()
    qtbot.mouseClick(chats(made).viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert "Kitchen plan" not in rows(made)
    assert index_of(made, "House").data(Qt.ItemDataRole.AccessibleTextRole) == "Folder House, 1 chat, closed"
    for key, shown in ((Qt.Key.Key_Right, True), (Qt.Key.Key_Left, False), (Qt.Key.Key_Return, True)):
        chats(made).setCurrentIndex(index_of(made, "House"))
        qtbot.keyClick(chats(made), key)
        assert ("Kitchen plan" in rows(made)) is shown


def test_f2_renames_in_place_and_nothing_moves_meanwhile(made, qtbot) -> None:
    chats(made).setCurrentIndex(index_of(made, "Garden plan"))
    qtbot.keyClick(chats(made), Qt.Key.Key_F2)
    editor = editor_of(made)
    assert editor.selectedText() == "Garden plan"
    made.library.entries = made.library.entries[1:]
    made.library.entries_changed.emit()
    assert editor.isVisible()
    qtbot.keyClicks(editor, "Roses")
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: not chats(made).entries._held)
    assert rows(made) == ["# Today", "Street", "# Earlier", "Roses", "Kitchen plan"]


@pytest.mark.parametrize("key", [Qt.Key.Key_Escape, Qt.Key.Key_Return])
def test_escape_and_an_empty_name_leave_the_title(made, qtbot, key) -> None:
    chats(made).rename(index_of(made, "Garden plan"))
    editor_of(made).clear()
    qtbot.keyClick(editor_of(made), key)
    QApplication.processEvents()
    assert "Garden plan" in rows(made)


@pytest.mark.qt_log_ignore("This plugin does not support")
def test_the_menu_pins_moves_exports_and_deletes(made, qtbot, monkeypatch) -> None:
    monkeypatch.setattr(QFileDialog, "open", lambda dialog: None)
    exported = []
    chats(made).exported.connect(exported.append)
    press(menu_at(made, "Garden plan"), "Pin to the top")
    press(menu_at(made, "Garden plan"), "Unpin")
    made.library.file("old2", "House & garden")
    press(menu_at(made, "Garden plan"), "Move to folder", "House && garden")
    assert rows(made)[:3] == ["# House & garden", "Garden plan", "Kitchen plan"]
    press(menu_at(made, "Garden plan"), "Move to folder", "No folder")
    press(menu_at(made, "Garden plan"), "Export …")
    press(menu_at(made, "Garden plan"), "Delete")
    assert exported == ["old1"]
    assert made.library.calls == [("delete", "old1")]
    press(menu_at(made, "House & garden"), "Remove folder, keep its chats")
    assert made.library.folders == ()


@pytest.mark.qt_log_ignore("This plugin does not support")
def test_a_new_folder_is_named_in_place(made, qtbot) -> None:
    made.library.file("old2", "New folder")
    menu = menu_at(made, "Garden plan")
    moves = next(action.menu() for action in menu.actions() if action.menu() is not None)
    moves.actions()[-1].trigger()
    menu.close()
    editor = editor_of(made)
    assert editor.text() == "New folder 2"
    qtbot.keyClicks(editor, "Roses")
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    QApplication.processEvents()
    assert made.library.folders == ("New folder", "Roses")
