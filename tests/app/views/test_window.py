from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPoint, Qt, QUrl
from PySide6.QtGui import QImage
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractScrollArea,
    QApplication,
    QFileDialog,
    QLabel,
    QLineEdit,
    QWidget,
)

from app.settings import Settings
from app.state.preferences import Preferences
from app.views.theme import DARK, theme
from app.views.window import Window
from tests.app.views.fakes import attachment

CONTROL, SHIFT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier


def files(*names: str) -> QMimeData:
    mime = QMimeData()
    mime.setUrls([QUrl.fromLocalFile(f"/tmp/{name}") for name in names])
    return mime


def middle(window: Window) -> QPoint:
    return window.page.mapTo(window, window.page.rect().center())


def let_go(drop, place: QPoint) -> None:
    drop.enter(place)
    drop.drop(place)


def over_tabs(window: Window) -> QPoint:
    return window.strip.mapTo(window, window.strip.rect().center())


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("a.png", "b.HEIC", "c.jpg"), "Add 3 pictures to Kitchen"),
        (("a.png",), "Add 1 picture to Kitchen"),
        (("a.png", "b.zip"), "Add 1 picture to Kitchen"),
        (("a.mp4",), "Add 1 clip to Kitchen"),
        (("a.wav", "b.MP3"), "Add 2 sounds to Kitchen"),
        (("a.pdf",), "Add 1 document to Kitchen"),
        (("a.png", "b.pdf", "c.mov"), "Add 3 files to Kitchen"),
        (("Holiday",), "Add “Holiday” to Kitchen"),
        (tuple(f"{i}.png" for i in range(240)), "Add the first 100 of 240 files to Kitchen: a message holds 100"),
        (("b.zip",), "Braid cannot read .zip"),
        (("b.zip", "c.docx"), "Braid cannot read .zip, .docx"),
    ],
)
def test_the_veil_says_what_letting_go_will_do(stage, drag, names: tuple[str, ...], said: str) -> None:
    window = stage("Kitchen").window
    drop = drag(window, files(*names))
    assert drop.enter(middle(window))
    assert window._veil.isVisible()
    assert window._veil.accessibleName() == said
    drop.leave()
    assert not window._veil.isVisible()


def test_files_dropped_anywhere_go_to_the_current_chat(stage, drag) -> None:
    made = stage("Kitchen")
    for place in (QPoint(40, 300), middle(made.window), QPoint(made.window.width() - 40, 300)):
        drop = drag(made.window, files("a.png", "b.zip"))
        drop.enter(place)
        assert drop.drop(place)
    assert made.chat.composer.asked == [Path("/tmp/a.png"), Path("/tmp/b.zip")] * 3
    assert not made.window._veil.isVisible()


def test_nothing_between_the_pointer_and_the_window_takes_the_drop_away(stage) -> None:
    window = stage("Kitchen").window
    window.library.current.answer("Words")
    takers = [child for child in window.findChildren(QWidget) if child.acceptDrops()]
    assert takers == []


def test_a_drop_on_the_tabs_opens_a_new_one(stage, drag) -> None:
    made = stage("Kitchen")
    drop = drag(made.window, files("a.png"))
    drop.enter(middle(made.window))
    drop.move(over_tabs(made.window))
    assert made.window._veil.accessibleName() == "Open in a new tab"
    drop.drop(over_tabs(made.window))
    assert len(made.library.tabs) == 2
    assert made.chat is made.library.tabs[1]
    assert made.chat.composer.asked == [Path("/tmp/a.png")]
    assert made.library.tabs[0].composer.asked == []


def test_refused_drops_open_no_tab(stage, drag) -> None:
    made = stage("Kitchen")
    drop = drag(made.window, files("a.zip"))
    drop.enter(over_tabs(made.window))
    drop.drop(over_tabs(made.window))
    assert len(made.library.tabs) == 1


def test_picture_data_text_and_web_addresses(stage, drag, qtbot) -> None:
    made = stage("Kitchen")
    draft, place = made.chat.composer, middle(made.window)
    data = QMimeData()
    data.setImageData(QImage(4, 4, QImage.Format.Format_RGB32))
    with qtbot.waitSignal(draft.changed):
        let_go(drag(made.window, data), place)
    assert QImage.fromData(draft.asked[0]).size().width() == 4
    words = QMimeData()
    words.setText("some words")
    let_go(drag(made.window, words), place)
    assert draft.text == "some words"
    web = QMimeData()
    web.setUrls([QUrl("https://example.org/cat.png")])
    with qtbot.waitSignal(draft.notice) as told:
        let_go(drag(made.window, web), place)
    assert told.args == ["Braid does not fetch from the web: save it first, then drop the file."]


def test_links_are_fetched_where_the_settings_allow_it(stage, drag, qtbot) -> None:
    made = stage("Kitchen")
    draft, place = made.chat.composer, middle(made.window)
    links = QMimeData()
    links.setUrls([QUrl("https://example.org/a cat.png"), QUrl("ftp://example.org/dog.png")])
    with qtbot.waitSignal(draft.notice):
        made.window.page.composer.field.insertFromMimeData(links)
    assert draft.asked == []
    made.window.preferences.choose("engine.allow_remote_media", True)
    dragged = drag(made.window, links)
    dragged.enter(place)
    assert made.window._veil.accessibleName() == "Fetch 1 file from the web into Kitchen"
    dragged.drop(place)
    assert draft.asked == ["https://example.org/a%20cat.png"]
    assert [chip.name for chip in draft.chips] == ["a cat.png"]


def test_keys_open_show_and_close_tabs(stage, qtbot) -> None:
    made = stage("Kitchen", "Street")
    window, library = made.window, made.library
    qtbot.keyClick(window, Qt.Key.Key_2, CONTROL)
    assert library.current is library.tabs[1]
    qtbot.keyClick(window, Qt.Key.Key_1, CONTROL)
    assert library.current is library.tabs[0]
    qtbot.keyClick(window, Qt.Key.Key_Tab, CONTROL)
    assert library.current is library.tabs[1]
    qtbot.keyClick(window, Qt.Key.Key_Backtab, CONTROL | SHIFT)
    assert library.current is library.tabs[0]
    for key in (Qt.Key.Key_N, Qt.Key.Key_T):
        qtbot.keyClick(window, key, CONTROL)
    assert len(library.tabs) == 4
    assert window.page.composer.field.hasFocus()
    qtbot.keyClick(window, Qt.Key.Key_9, CONTROL)
    assert library.current is library.tabs[3]
    for _ in range(4):
        qtbot.keyClick(window, Qt.Key.Key_W, CONTROL)
    assert [chat.title for chat in library.tabs] == ["New chat"]


def test_a_new_chat_is_written_in_at_once(stage, qtbot) -> None:
    made = stage("Kitchen", "Street")
    window = made.window
    for button in (window.strip.add, window.sidebar.new):
        button.setFocus()
        qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
        assert window.page.composer.field.hasFocus()
    next(iter(window.strip.row.tabs.values())).setFocus()
    qtbot.keyClick(window, Qt.Key.Key_T, CONTROL)
    assert window.page.composer.field.hasFocus()
    assert len(made.library.tabs) == 5


def test_the_keyboard_is_in_the_composer_after_the_tabs_of_last_time_came_back(stage) -> None:
    made = stage("New chat")
    library = made.library
    assert made.window.page.composer.field.hasFocus()
    first = library.tabs[0]
    library.new_chat()
    restored = library.tabs[-1]
    library.select(first.id)
    library.tabs.remove(first)
    library.tabs_changed.emit()  # as the state does: the fresh chat goes before another one is current
    library.select(restored.id)
    assert made.window.page.composer.field.hasFocus()


def test_keys_work_while_typing(stage, qtbot) -> None:
    made = stage("Kitchen")
    field = made.window.page.composer.field
    made.chat.begin()
    qtbot.keyClick(field, Qt.Key.Key_Period, CONTROL)
    assert made.chat.stopped == 1
    qtbot.keyClick(field, Qt.Key.Key_K, CONTROL)
    assert made.window.sidebar.search.hasFocus()


def action(window: Window, text: str):
    menus = [menu.menu() for menu in window.menuBar().actions()]
    return next(each for menu in menus for each in menu.actions() if each.text() == text)


def test_the_edit_menu_acts_on_the_field_with_the_keyboard(stage, qtbot) -> None:
    window = stage("Kitchen").window
    field = window.page.composer.field
    field.setPlainText("some words")
    for text in ("Select all", "Cut"):
        action(window, text).trigger()
    assert field.toPlainText() == ""
    action(window, "Undo").trigger()
    assert field.toPlainText() == "some words"
    window.sidebar.search.setFocus()
    action(window, "Paste").trigger()
    assert window.sidebar.search.text() == "some words"


def test_panels_fold_by_key_and_button(stage, qtbot) -> None:
    window = stage("Kitchen").window
    qtbot.keyClick(window, Qt.Key.Key_Backslash, CONTROL)
    assert not window.sidebar.isVisible()
    qtbot.mouseClick(window.strip.sidebar, Qt.MouseButton.LeftButton)
    assert window.sidebar.isVisible()
    qtbot.keyClick(window, Qt.Key.Key_Backslash, CONTROL | SHIFT)
    assert not window.vitals.isVisible()


def test_vitals_give_way_in_a_narrow_window_and_come_back(stage) -> None:
    made = stage("Kitchen")
    made.window.resize(900, 600)
    QApplication.processEvents()
    assert not made.window.vitals.isVisible()
    assert made.window.width() == 900
    made.window.resize(1200, 800)
    QApplication.processEvents()
    assert made.window.vitals.isVisible()


@pytest.mark.parametrize("size", [(1200, 800), (900, 600), (720, 480)])
def test_two_chats_side_by_side_are_never_cut(stage, size) -> None:
    made = stage("Kitchen", "Street")
    made.window.resize(*size)
    made.window.split()
    for _ in range(5):
        QApplication.processEvents()
    panes = made.window.panes
    centre = panes.parentWidget()
    assert sum(panes.sizes()) <= panes.width() <= centre.width()
    assert centre.mapTo(made.window, centre.rect().topRight()).x() < size[0]
    left, right = (side.geometry() for side in panes._sides)
    assert left.right() < right.left()
    assert right.right() < panes.width()
    made.window.close()
    assert made.settings.sidebar_visible
    assert made.settings.vitals_visible


def test_the_list_of_chats_comes_back_with_the_room(stage) -> None:
    made = stage("Kitchen", "Street")
    made.window.resize(720, 480)
    made.window.split()
    QApplication.processEvents()
    assert not made.window.sidebar.isVisible()
    made.window.split()
    QApplication.processEvents()
    assert made.window.sidebar.isVisible()
    assert not made.window.vitals.isVisible()


def test_everything_fits_at_the_smallest_size(stage) -> None:
    made = stage("Kitchen", "Street")
    made.chat.ask("What is this?", attachment("a.png"), attachment("b.png"), attachment("c.png"))
    made.chat.answer("```python\n" + "x" * 300 + "\n```")
    made.window.resize(900, 600)
    for _ in range(5):
        QApplication.processEvents()
    transcript = made.window.page.transcript
    assert transcript.widget().width() <= transcript.viewport().width()


def test_the_appearance_is_changed_at_once_and_kept(stage) -> None:
    made = stage("Kitchen")
    made.window.dress("dark")
    assert theme.tokens is DARK
    assert made.settings.appearance == "dark"


def test_shape_and_panels_are_written_into_the_settings_on_closing(stage) -> None:
    made = stage("Kitchen")
    made.window.panel_actions[0].setChecked(False)
    made.window.resize(760, 600)
    made.window.close()
    assert not made.settings.sidebar_visible
    assert made.settings.vitals_visible
    restored = Settings.model_validate(made.settings.model_dump())
    again = Window(made.library, made.model, made.vitals, Preferences(restored, made.model, None), made.models)
    assert again.size().width() == 760
    again.deleteLater()


def test_closed_folders_widths_and_the_split_come_back(stage, qtbot) -> None:
    made = stage("Kitchen", "Receipts")
    kitchen, receipts = made.library.tabs
    made.library.file(kitchen.id, "House")
    made.window.sidebar.chats.entries.fold("House")
    made.library.show_beside(receipts.id)
    made.library.select(receipts.id)  # the right one has the keyboard
    made.window._parts.setSizes([220, 740, 240])
    made.window.panes.setSizes([400, 340])
    widths, halves = made.window._parts.sizes(), made.window.panes.sizes()
    made.window.close()
    restored = Settings.model_validate_json(made.settings.model_dump_json())
    made.library.show_beside(None)
    again = Window(made.library, made.model, made.vitals, Preferences(restored, made.model, None), made.models)
    qtbot.addWidget(again)
    again.resize(made.window.size())  # the offscreen screen is smaller
    again.show()
    qtbot.waitUntil(lambda: again.panes.width() > 0)
    made.library.show_beside(kitchen.id)  # as the library does once it has read which tabs were open
    QApplication.processEvents()
    assert again._parts.sizes() == widths
    assert again.panes._places == [kitchen.id, receipts.id]
    assert again.panes.sizes() == pytest.approx(halves, abs=2)
    assert again.sidebar.chats.entries.folded == ("House",)


def test_a_closed_folder_stays_closed_under_another_name(stage) -> None:
    made = stage("Kitchen")
    made.library.file(made.chat.id, "House")
    entries = made.window.sidebar.chats.entries
    entries.fold("House")
    place = entries.row_of_folder("House")
    assert entries.setData(entries.index(place), "Home")
    assert entries.folded == ("Home",)


@pytest.mark.qt_log_ignore("This plugin does not support")
def test_files_are_picked_without_blocking(stage, monkeypatch) -> None:
    made = stage("Kitchen")
    monkeypatch.setattr(QFileDialog, "exec", None)
    made.window.pick()
    dialog = made.window.findChild(QFileDialog)
    assert dialog.isVisible()
    dialog.filesSelected.emit(["/tmp/a.png"])
    dialog.close()
    assert made.chat.composer.asked == [Path("/tmp/a.png")]


def full(made) -> Window:
    """The window with every kind of part on it."""
    made.chat.ask("What is this?", attachment("a.png"))
    made.chat.answer("Words\n\n```python\nx = 1\n```")
    made.chat.end(made.chat.begin(), "failed", "It failed. Try again.")
    made.chat.composer.add_files([Path("b.png")])
    made.chat.composer.notice.emit("A notice.")
    made.library.delete(made.library.entries[-1].id)
    made.library.new_chat()
    made.library.select(made.library.tabs[0].id)
    QApplication.processEvents()
    return made.window


def test_every_control_has_a_name(stage) -> None:
    window = full(stage("Kitchen", "Street"))
    controls = [
        child
        for child in window.findChildren(QWidget)
        if isinstance(child, QAbstractButton | QLineEdit | QAbstractScrollArea)
        and child.focusPolicy() != Qt.FocusPolicy.NoFocus
    ]
    assert len(controls) > 15
    named = {
        child: child.accessibleName() or (child.text() if isinstance(child, QAbstractButton) else "")
        for child in controls
    }
    assert [child for child, name in named.items() if not name] == []


def test_no_text_is_smaller_than_eleven_pixels(stage) -> None:
    window = full(stage("Kitchen", "Street"))
    small = [
        child
        for child in window.findChildren(QWidget)
        if child.font().pixelSize() < 11
        and isinstance(child, QLabel | QAbstractButton | QLineEdit | QAbstractScrollArea)
    ]
    assert small == []


def test_tab_reaches_composer_buttons_tabs_and_sidebar(stage, qtbot) -> None:
    window = full(stage("Kitchen", "Street"))
    window.page.composer.field.setFocus()
    seen = []
    for _ in range(60):
        focused = QApplication.focusWidget()
        seen.append(focused)
        QApplication.processEvents()
        qtbot.keyClick(focused, Qt.Key.Key_Tab)
    names = [child.accessibleName() for child in seen]
    for wanted in (
        "Message",
        "Add files",
        "Take a screenshot",
        "Search titles and messages",
        "New chat",
        "Chats",
        "Copy message",
        "Answer again",
    ):
        assert wanted in names, [(type(c).__name__, c.accessibleName()) for c in seen]
    messages = [names.index(name) for name in ("Your message", "Answer text", "Answer again", "Message")]
    again = names.index("Message", 1)
    assert sorted(messages[:3]) == messages[:3]
    assert names[again - 3 : again] == ["Dismiss", "b.png: Reading …", "Remove b.png"], [
        (type(c).__name__, c.accessibleName()) for c in seen
    ]


def test_the_first_paint_imports_no_renderer() -> None:
    source = """
import os, sys
os.environ["QT_QPA_PLATFORM"] = "offscreen"
from PySide6.QtWidgets import QApplication
app = QApplication([])
from app.settings import Settings
from app.state.preferences import Preferences
from app.views.window import Window
from tests.app.views.fakes import Chats, Figures, LoadedModel, Shelf
before = set(sys.modules)
model = LoadedModel()
window = Window(Chats("Kitchen"), model, Figures(), Preferences(Settings(), model, None), Shelf(model))
window.show()
window.grab()
late = ("markdown_it", "pygments", "qtawesome", "mlx", "numpy")
print(sorted(name for name in late if name in set(sys.modules) - before))
"""
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


def test_the_keyboard_writes_to_the_next_chat_when_a_tab_is_closed(stage, qtbot) -> None:
    made = stage("Kitchen", "Street")
    window = made.window
    window.page.composer.field.setFocus()
    qtbot.keyClick(window, Qt.Key.Key_W, Qt.KeyboardModifier.ControlModifier)
    qtbot.waitUntil(lambda: len(window.library.tabs) == 1)
    assert window.page.composer.field.hasFocus()


@pytest.mark.qt_log_ignore("This plugin does not support")
def test_a_window_in_the_dock_comes_out_to_the_front_as_large_as_it_was(stage, qtbot) -> None:
    window = stage("Kitchen").window
    window.showMaximized()
    window.showMinimized()
    window.present()
    qtbot.waitUntil(window.isActiveWindow)
    assert not window.isMinimized()
    assert window.isMaximized()
    assert window.isVisible()
