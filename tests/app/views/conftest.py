"""A window on made-up conversations, and hands to drag with."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from PySide6.QtCore import QEvent, QMimeData, QPoint, QPointF, Qt, QThreadPool
from PySide6.QtGui import QDragEnterEvent, QDragLeaveEvent, QDragMoveEvent, QDropEvent
from PySide6.QtWidgets import QApplication, QWidget

from app.settings import Settings
from app.state.preferences import Preferences
from app.views.theme import theme
from app.views.window import Window
from tests.app.views.fakes import Chats, Figures, Shelf


class Stage:
    """A shown window and the fakes behind it."""

    def __init__(self, *titles: str) -> None:
        self.library, self.vitals = Chats(*titles), Figures()
        self.model = self.library.model
        self.settings = Settings(appearance="light")
        self.preferences = Preferences(self.settings, self.model, None)  # type: ignore[arg-type]
        self.models = Shelf(self.model)
        self.window = Window(self.library, self.model, self.vitals, self.preferences, self.models)  # type: ignore[arg-type]
        self.window.resize(1200, 800)
        self.window.show()
        self.window.warm_up()

    @property
    def chat(self):
        """The conversation that is shown."""
        return self.library.current


@pytest.fixture
def stage(qapp: QApplication, qtbot) -> Iterator[Callable[..., Stage]]:
    """Make a stage with these tabs; its window is closed and its threads are done when the test ends."""
    made: list[Stage] = []

    def build(*titles: str) -> Stage:
        made.append(Stage(*titles))
        made[-1].window.activateWindow()
        qtbot.waitUntil(made[-1].window.isActiveWindow)
        return made[-1]

    yield build
    QThreadPool.globalInstance().waitForDone()
    for each in made:
        each.window.close()
        each.window.deleteLater()
        each.library.deleteLater()  # else its timers run until Python frees it, which may be on any thread
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    theme.resize(100)
    theme.apply("light")


class Drag:
    """A drag over a window, step by step."""

    def __init__(self, target: QWidget, mime: QMimeData) -> None:
        self.target, self.mime = target, mime

    def _send(self, kind: type, place: QPoint):
        event = kind(
            QPointF(place),
            Qt.DropAction.CopyAction,
            self.mime,
            Qt.MouseButton.LeftButton,
            Qt.KeyboardModifier.NoModifier,
        )
        QApplication.sendEvent(self.target, event)
        return event

    def enter(self, place: QPoint) -> bool:
        enter = QDragEnterEvent(
            place, Qt.DropAction.CopyAction, self.mime, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
        )
        QApplication.sendEvent(self.target, enter)
        return enter.isAccepted()

    def move(self, place: QPoint) -> None:
        QApplication.sendEvent(
            self.target,
            QDragMoveEvent(
                place, Qt.DropAction.CopyAction, self.mime, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
            ),
        )

    def leave(self) -> None:
        QApplication.sendEvent(self.target, QDragLeaveEvent())

    def drop(self, place: QPoint) -> bool:
        return bool(self._send(QDropEvent, place).isAccepted())


@pytest.fixture
def drag() -> type[Drag]:
    return Drag
