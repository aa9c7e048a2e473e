"""Every window: a name for every control, no text that is too small, none that is out of reach of Tab."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import time
from collections.abc import Callable
from pathlib import Path

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

import app.views
from app.state.options import PAGES, of_page
from app.state.preview import Look, Still
from app.state.turn import AnswerFacts, Turn
from app.state.vitals import CacheFigures, MtpFigures, Sample, StreamFigures
from app.state.words import Page
from app.storage.search import Found
from app.views import menus
from app.views.answer import Answer
from app.views.pictures import Picture
from app.views.question import Question
from app.views.tab import Tab
from app.views.theme import theme
from engine.request import Phase
from tests.app.views.conftest import Stage
from tests.app.views.fakes import POCKET, Transfer, attachment, entry

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")
NOT_STANDING = {"Veil"}
"""It lies over the window while something is dragged, and holds nothing."""
CONTROLS = (QAbstractButton, QLineEdit, QAbstractScrollArea, QAbstractSlider, QAbstractSpinBox, QComboBox)


def wait(ready: Callable[[], object]) -> None:
    """Let Qt's loop turn until something is there."""
    until = time.monotonic() + 5
    while not ready() and time.monotonic() < until:
        QApplication.processEvents()
    assert ready()


def chats(stage: Stage) -> None:
    """Every kind of message."""
    chat, window = stage.chat, stage.window
    kinds = ("image", "video", "audio", "pdf", "text")
    chat.ask("Look", *(attachment(f"a.{kind}", kind=kind) for kind in kinds))
    facts = AnswerFacts(3, 4.0, 0.1, 10, 0, "stop", thinking_s=2.0)
    chat.add(Turn(role="assistant", text="Words $x$\n\n```python\nx = 1\n```", reasoning="Hm.", facts=facts))
    chat.end(chat.begin(), "failed", "It failed. Try again.")
    QApplication.processEvents()
    for answer in window.findChildren(Answer):
        if answer._thinking is not None:
            answer._thinking.head.setChecked(True)


def picture(stage: Stage) -> None:
    stage.chat.ask("Look", attachment("a.png"), attachment("b.png"))
    QApplication.processEvents()
    stage.window.findChildren(Picture)[0].click()


def closer(kind: str) -> Callable[[Stage], None]:
    """A closer look at an attachment of a draft."""

    def look(stage: Stage) -> None:
        stage.model.take("image", "video", "audio")
        draft = stage.chat.composer
        draft.attach(attachment("a", kind=kind, seconds=8.0, pages=4), attachment("b.png"))
        draft.preview.open(draft.chips[0].id)
        draft.see(Look(tuple(Still(f"{i}", 4, 3, bytes(36)) for i in range(3)), "words"))

    return look


def draft(stage: Stage) -> None:
    """Messages that wait, one of them being changed, a file in the way and a sentence."""
    chat = stage.chat
    chat.ask("one")
    chat.begin("two")
    for text in ("three", "four"):
        chat.add(Turn(text=text, state="queued"))
    chat.act(Phase.GENERATION, "41 tok/s")
    chat.composer.add_files([Path("torn.jpg")])
    chat.composer.finish(chat.composer.chips[0].id, None, "torn.jpg is damaged.", partial=True)
    chat.composer.notice.emit("A sentence.")
    QApplication.processEvents()
    stage.window.page.composer.queue.rows[chat.turns[2].id]._edit()


def question(stage: Stage) -> None:
    """A question that is asked in other words, with variants."""
    asked, answered = Turn(text="one"), Turn(role="assistant", text="two")
    stage.chat.positions = {asked.id: (1, 2), answered.id: (2, 2)}
    for turn in (asked, answered):
        stage.chat.add(turn)
    QApplication.processEvents()
    stage.window.findChildren(Question)[0].edit()


def sidebar(stage: Stage) -> None:
    """What a search has found, a chat that was deleted, a title being changed, a second chat beside."""
    stage.library.show_beside(stage.library.tabs[1].id)
    stage.library.delete(stage.library.entries[0].id)
    stage.window.sidebar.search.setText("zebra")
    stage.library.search.find("zebra", Found(stage.library.tabs[1].id, None, "a zebra"))
    stage.window.rename_tab()


def panel(stage: Stage) -> None:
    """All figures."""
    stage.vitals.latest = Sample(
        118.4, 2, 1, 6_900_000_000, 130_000_000, 9_100_000_000, 16_000_000_000, "metal", 0.1, 3.2, 1180.0,
        streams=(StreamFigures("a", "Kitchen", 41.27, (40.0, 41.0)),),
        prefix=CacheFigures(1_240_000_000, 4_000_000_000, 12, 0.964, 182_345),
        vision=CacheFigures(312_000_000, 500_000_000, 1, 0.5),
        ssd=CacheFigures(4_000_000_000, 10_000_000_000, 230, None, 41_000),
        mtp=MtpFigures(0.823, 1.807, None),
    )  # fmt: skip
    stage.vitals.sampled.emit()


def models(stage: Stage) -> None:
    """Models of every sort, a download, a failure."""
    stage.models.entries = (POCKET, entry(), entry("Torn", problem="It is not complete.", missing=["b"]))
    stage.models.downloads = (Transfer("owner/name", done=1, total=2),)
    stage.model.status, stage.model.error, stage.model.can_fall_back = "failed", "It is gone.", True
    stage.window.open_models()
    wait(lambda: len(stage.window._picker.rows) == 4)
    stage.models.notice.emit("A sentence.")


def page(name: Page) -> Callable[[Stage], None]:
    """One page of the settings."""

    def open_it(stage: Stage) -> None:
        stage.window.open_settings()
        dialog = stage.window._dialog
        dialog.show_page(name)
        wait(lambda: len(dialog.pages[name].rows) == len(of_page(name)))

    return open_it


WINDOWS: dict[str, Callable[[Stage], object]] = {
    "chats": chats,
    "a new chat": lambda stage: stage.library.new_chat(),
    "a picture": picture,
    **{f"a closer look: {kind}": closer(kind) for kind in ("image", "video", "audio", "pdf", "text")},
    "a draft": draft,
    "a question": question,
    "the list": sidebar,
    "figures": panel,
    **{f"settings: {name}": page(name) for name in PAGES},
    "a chat's settings": lambda stage: stage.window.open_chat_settings(),
    "models": models,
    "about": lambda stage: menus._open_about(stage.window),
    "keys": lambda stage: menus._open_shortcuts(stage.window),
}


def seen(stage: Stage, which: str) -> list[QWidget]:
    """All that is seen once a window was opened."""
    WINDOWS[which](stage)
    QApplication.processEvents()
    return [stage.window, *(child for child in stage.window.findChildren(QWidget) if child.isVisible())]


@pytest.fixture(params=WINDOWS)
def widgets(request: pytest.FixtureRequest, stage) -> list[QWidget]:
    return seen(stage("Kitchen", "Street"), request.param)


def classes() -> set[type[QWidget]]:
    """All widgets of the program."""
    names = [module.name for module in pkgutil.iter_modules(app.views.__path__)]
    modules = [importlib.import_module(f"app.views.{name}") for name in names]
    found = {each for module in modules for each in vars(module).values() if inspect.isclass(each)}
    return {each for each in found if issubclass(each, QWidget) and each.__module__.startswith("app.views.")}


def test_no_widget_is_left_out_here(stage) -> None:
    met: set[type] = set()
    for which in WINDOWS:
        for widget in seen(stage("Kitchen", "Street"), which):
            met.update(type(widget).__mro__)
    assert {each.__qualname__ for each in classes() - met} == NOT_STANDING


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
