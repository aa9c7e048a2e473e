"""Two chats side by side."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtWidgets import QApplication

LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def made(stage):
    return stage("Kitchen", "Receipts", "Street")


def seen(made) -> list[str]:
    """Titles of the pages that are seen, from left to right."""
    QApplication.processEvents()
    panes = made.window.panes
    pages = [page for page in panes._pages.values() if page.isVisible()]
    return [page.conversation.title for page in sorted(pages, key=lambda page: page.mapTo(panes, QPoint(0, 0)).x())]


def chat(made, title: str):
    return next(tab for tab in made.library.tabs if tab.title == title)


def aside(made) -> list[str]:
    return [tab.chat.title for tab in made.window.strip.row.tabs.values() if tab._aside]


def test_a_second_chat_is_shown_at_the_right_and_the_current_one_stays(made) -> None:
    assert seen(made) == ["Kitchen"]
    made.library.show_beside(chat(made, "Street").id)
    assert seen(made) == ["Kitchen", "Street"]
    assert made.chat.title == "Kitchen"
    assert aside(made) == ["Street"]
    assert made.window.split_action.isChecked()
    left, right = made.window.panes.sizes()
    assert abs(left - right) <= 1
    made.window.split()
    assert seen(made) == ["Kitchen"]
    assert aside(made) == []


def test_the_half_with_the_keyboard_is_the_current_one_and_nobody_moves(made, qtbot) -> None:
    made.library.show_beside(chat(made, "Street").id)
    seen(made)
    street = made.window.panes._page(chat(made, "Street").id)
    qtbot.mouseClick(street.composer.field.viewport(), LEFT)
    street.composer.field.setFocus()
    assert made.chat.title == "Street"
    assert street.composer.field.hasFocus()
    assert seen(made) == ["Kitchen", "Street"]
    made.window.other_side()
    assert made.chat.title == "Kitchen"
    assert made.window.page.composer.field.hasFocus()
    assert seen(made) == ["Kitchen", "Street"]


def test_a_tab_that_is_chosen_takes_the_place_of_the_current_one(made) -> None:
    made.library.show_beside(chat(made, "Street").id)
    made.library.select(chat(made, "Receipts").id)
    assert seen(made) == ["Receipts", "Street"]
    made.window.other_side()
    made.library.select(chat(made, "Kitchen").id)
    assert seen(made) == ["Receipts", "Kitchen"]


def test_what_is_dropped_goes_to_the_half_under_the_mouse(made, drag, tmp_path) -> None:
    made.library.show_beside(chat(made, "Street").id)
    seen(made)
    mime = QMimeData()
    mime.setUrls([QUrl.fromLocalFile(str(tmp_path / "oven.png"))])
    half = made.window.panes.rect_of(chat(made, "Street").id).center()
    held = drag(made.window, mime)
    place = made.window.panes.mapTo(made.window, half)
    held.enter(place)
    assert "Street" in made.window._veil._text
    held.drop(place)
    assert made.chat.title == "Street"
    assert len(chat(made, "Street").composer.chips) == 1
    assert len(chat(made, "Kitchen").composer.chips) == 0


def test_a_tab_pulled_over_the_right_half_is_shown_there(made, qtbot) -> None:
    tab = made.window.strip.row.tabs[chat(made, "Receipts").id]
    panes = made.window.panes
    right = panes.mapToGlobal(panes.right_half().center())
    left = panes.mapToGlobal(QPoint(10, 100))
    tab.pulled.emit(tab.chat.id, QPointF(right), False)
    assert made.window._veil.isVisible()
    tab.pulled.emit(tab.chat.id, QPointF(left), False)
    assert not made.window._veil.isVisible()
    tab.pulled.emit(tab.chat.id, QPointF(left), True)
    assert seen(made) == ["Kitchen"]
    tab.pulled.emit(tab.chat.id, QPointF(right), True)
    assert seen(made) == ["Kitchen", "Receipts"]


def test_a_mouse_pulls_a_tab_out_of_the_strip(made, qtbot) -> None:
    tab = made.window.strip.row.tabs[chat(made, "Kitchen").id]
    target = tab.mapFromGlobal(made.window.panes.mapToGlobal(made.window.panes.right_half().center()))
    qtbot.mousePress(tab, LEFT, pos=QPoint(40, 10))
    for step in (QPoint(60, 10), target, target):
        qtbot.mouseMove(tab, step)
    qtbot.mouseRelease(
        tab, LEFT, pos=tab.mapFromGlobal(made.window.panes.mapToGlobal(made.window.panes.right_half().center()))
    )
    assert seen(made)[1] == "Kitchen"
    assert made.library.beside is chat(made, "Kitchen")
