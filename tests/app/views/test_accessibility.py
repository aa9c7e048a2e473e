"""Every window: a name for every control, no text that is too small, none that is out of reach of Tab."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QFontInfo
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractScrollArea,
    QAbstractSlider,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QLabel,
    QLineEdit,
    QMenuBar,
    QScrollBar,
    QWidget,
)

from app.state.turn import AnswerFacts, Turn
from app.views import menus
from app.views.answer import Answer
from app.views.pictures import Picture
from app.views.tab import Tab
from app.views.theme import theme
from app.views.window import Window
from tests.app.views.fakes import attachment

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")
CONTROLS = (QAbstractButton, QLineEdit, QAbstractScrollArea, QAbstractSlider, QAbstractSpinBox, QComboBox)


def chats(window: Window) -> None:
    """Every kind of message."""
    chat = window.library.current
    kinds = ("image", "video", "audio", "pdf", "text")
    chat.ask("Look", *(attachment(f"a.{kind}", kind=kind) for kind in kinds))
    facts = AnswerFacts(3, 4.0, 0.1, 10, 0, "stop", thinking_s=2.0)
    chat.add(Turn(role="assistant", text="Words $x$\n\n```python\nx = 1\n```", reasoning="Hm.", facts=facts))
    chat.end(chat.begin(), "failed", "It failed. Try again.")
    QApplication.processEvents()
    for answer in window.findChildren(Answer):
        if answer._thinking is not None:
            answer._thinking.head.setChecked(True)


def picture(window: Window) -> None:
    window.library.current.ask("Look", attachment("a.png"), attachment("b.png"))
    QApplication.processEvents()
    window.findChildren(Picture)[0].click()


WINDOWS: dict[str, Callable[[Window], object]] = {
    "chats": chats,
    "a new chat": lambda window: window.library.new_chat(),
    "a picture": picture,
    "settings": Window.open_settings,
    "a chat's settings": Window.open_chat_settings,
    "models": Window.open_models,
    "about": menus._open_about,
    "keys": menus._open_shortcuts,
}


@pytest.fixture(params=WINDOWS)
def widgets(request: pytest.FixtureRequest, stage, qtbot) -> list[QWidget]:
    """All that is seen once a window was opened."""
    window = stage("Kitchen", "Street").window
    WINDOWS[request.param](window)
    QApplication.processEvents()
    return [window, *(child for child in window.findChildren(QWidget) if child.isVisible())]


def inner(widget: QWidget) -> bool:
    """Parts of another control, which has the name and the keys for it: a tab is closed by a key of its own."""
    parts = (QComboBox, QAbstractSpinBox, QLineEdit, QMenuBar, Tab)
    return isinstance(widget, QScrollBar) or isinstance(widget.parentWidget(), parts)


def name(widget: QWidget) -> str:
    own = widget.text() if isinstance(widget, QAbstractButton) else ""
    return widget.accessibleName() or own


def test_every_control_has_a_name(widgets: list[QWidget]) -> None:
    controls = [
        widget
        for widget in widgets
        if isinstance(widget, CONTROLS) and widget.focusPolicy() != Qt.FocusPolicy.NoFocus and not inner(widget)
    ]
    assert len(controls) > 5
    assert [widget for widget in controls if not name(widget).strip()] == []


def test_every_button_can_be_reached_with_tab(widgets: list[QWidget]) -> None:
    buttons = [widget for widget in widgets if isinstance(widget, QAbstractButton) and not inner(widget)]
    out_of_reach = [b for b in buttons if b.isEnabled() and not b.focusPolicy() & Qt.FocusPolicy.TabFocus]
    assert [(type(button).__name__, name(button)) for button in out_of_reach] == []


@pytest.mark.parametrize("scale", [80, 150])
def test_text_is_never_too_small_and_follows_the_size_that_was_chosen(widgets: list[QWidget], scale: int) -> None:
    said = [widget for widget in widgets if isinstance(widget, (QLabel, *CONTROLS)) and name_or_text(widget)]
    before = {widget: QFontInfo(widget.font()).pixelSize() for widget in said}
    theme.resize(scale)
    QApplication.processEvents()
    after = {widget: QFontInfo(widget.font()).pixelSize() for widget in said}
    assert min(after.values()) >= 11
    fixed = [widget for widget in said if scale > 100 and after[widget] <= before[widget]]
    assert [(type(widget).__name__, name_or_text(widget), after[widget]) for widget in fixed] == []


def name_or_text(widget: QWidget) -> str:
    return widget.text() if isinstance(widget, QLabel) else name(widget)
