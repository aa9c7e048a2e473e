from __future__ import annotations

import datetime
import time

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPushButton

from app.state.library import Entry
from app.views.entries import Heading, day
from app.views.model_chip import ModelChip

NOW = datetime.datetime(2026, 3, 10, 12, 0)


def rows(made) -> list[str]:
    entries = made.window.sidebar.chats.entries
    found = [entries.index(row).data(Qt.ItemDataRole.UserRole) for row in range(entries.rowCount())]
    return [f"# {row.title}" if isinstance(row, Heading) else row.title for row in found]


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


def test_search_keeps_titles_with_all_words_and_enter_opens_the_first(made, qtbot) -> None:
    search = made.window.sidebar.search
    qtbot.keyClicks(search, "PLAN kit")
    assert rows(made) == ["# Earlier", "Kitchen plan"]
    qtbot.keyClick(search, Qt.Key.Key_Return)
    assert made.library.calls == [("open", "old2")]
    search.setText("zebra")
    assert rows(made) == []
    assert made.window.sidebar.chats.property("nothing") == "No chat is titled “zebra”"
    qtbot.keyClick(search, Qt.Key.Key_Escape)
    assert len(rows(made)) == 6
    assert made.window.page.composer.field.hasFocus()


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
        ("ready", "Model Pocket: Ready · sees pictures"),
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
