from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QApplication

from app.views.tab import Tab
from engine.request import Phase

LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def made(stage):
    return stage("Kitchen", "Receipts", "Street")


def tabs(made) -> list[Tab]:
    QApplication.processEvents()
    return list(made.window.strip.row.tabs.values())


def test_a_press_shows_the_chat_and_keeps_it_checked(made, qtbot) -> None:
    second = tabs(made)[1]
    for _ in range(2):
        qtbot.mouseClick(second, LEFT)
        assert made.chat.title == "Receipts"
        assert [tab.isChecked() for tab in tabs(made)] == [False, True, False]


def test_a_tab_says_what_its_chat_does(made) -> None:
    tab = tabs(made)[1]
    tab.chat.act(Phase.PREFILL, "prefill 63 %")
    assert tab.accessibleName() == "Receipts, prefill 63 %"
    tab.chat.unread = True
    tab.chat.act(None, "")
    assert tab.accessibleName() == "Receipts, unread answer"


def test_double_click_renames(made, qtbot) -> None:
    tab = tabs(made)[0]
    qtbot.mouseDClick(tab, LEFT)
    assert tab._editor.selectedText() == "Kitchen"
    qtbot.keyClicks(tab._editor, "Oven door")
    qtbot.keyClick(tab._editor, Qt.Key.Key_Return)
    assert made.library.tabs[0].title == "Oven door"
    assert tab._editor is None
    assert tab.accessibleName() == "Oven door"
    assert made.window.windowTitle() == "Oven door – Braid"


def test_escape_and_an_empty_name_keep_the_title(made, qtbot) -> None:
    tab = tabs(made)[0]
    for key in (Qt.Key.Key_Escape, Qt.Key.Key_Return):
        tab.rename()
        tab._editor.clear()
        qtbot.keyClick(tab._editor, key)
        assert tab._editor is None
        assert made.library.tabs[0].title == "Kitchen"


def test_the_cross_and_the_middle_button_close(made, qtbot) -> None:
    qtbot.mouseClick(tabs(made)[0]._close, LEFT)
    assert [tab.chat.title for tab in tabs(made)] == ["Receipts", "Street"]
    qtbot.mouseClick(tabs(made)[1], Qt.MouseButton.MiddleButton)
    assert [tab.chat.title for tab in tabs(made)] == ["Receipts"]
    assert made.chat.title == "Receipts"


def test_a_tab_is_moved_by_dragging(made, qtbot) -> None:
    first = tabs(made)[0]
    step = tabs(made)[1].x() - first.x()
    qtbot.mousePress(first, LEFT, pos=QPoint(40, 10))
    for x in (60, 40 + step, 40 + step):
        qtbot.mouseMove(first, first.mapFromParent(QPoint(x, 10)))
    qtbot.mouseRelease(first, LEFT, pos=QPoint(40, 10))
    assert [chat.title for chat in made.library.tabs][:2] == ["Receipts", "Kitchen"]
    assert [tab.chat.title for tab in tabs(made)] == [chat.title for chat in made.library.tabs]
    places = [tab.x() for tab in tabs(made)]
    assert places == sorted(places)
    assert not first.moving


def test_arrow_keys_go_from_tab_to_tab(made, qtbot) -> None:
    tabs(made)[0].setFocus()
    qtbot.keyClick(tabs(made)[0], Qt.Key.Key_Left)
    assert made.chat.title == "Street"
    assert tabs(made)[2].hasFocus()
    qtbot.keyClick(tabs(made)[2], Qt.Key.Key_Right)
    assert made.chat.title == "Kitchen"


def test_the_current_tab_stays_in_sight_when_there_are_many(made) -> None:
    for _ in range(20):
        made.library.new_chat()
    row = made.window.strip.row
    for chat in (made.library.tabs[-1], made.library.tabs[0], made.library.tabs[10]):
        made.library.select(chat.id)
        tab = row.tabs[chat.id]
        assert tab.x() >= 0
        assert tab.geometry().right() < row.width()


@pytest.mark.qt_log_ignore("This plugin does not support")
def test_a_tab_stops_its_own_answer_from_its_menu(made, qtbot) -> None:
    chat = made.library.tabs[1]
    chat.begin()
    tab = tabs(made)[1]
    tab.customContextMenuRequested.emit(QPoint(5, 5))
    menu = QApplication.activePopupWidget()
    next(action for action in menu.actions() if action.text() == "Stop answering").trigger()
    menu.close()
    assert (chat.stopped, made.chat.stopped) == (1, 0)
