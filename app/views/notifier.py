"""Tells that an answer is ready while another program is in front."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer
from PySide6.QtWidgets import QApplication, QSystemTrayIcon, QWidget

if TYPE_CHECKING:
    from app.settings import Settings
    from app.state.conversation import Conversation
    from app.state.library import Library

_SHOWN_MS = 10_000
_CHARACTERS = 120


class Notifier(QObject):
    """Asks for attention in the dock or task bar, and shows the answer's first words where the system can."""

    def __init__(self, window: QWidget, library: Library, settings: Settings) -> None:
        super().__init__(window)
        self._window, self._library, self._settings = window, library, settings
        self._tray: QSystemTrayIcon | None = None
        self._told = ""
        self._hide = QTimer(self, singleShot=True, interval=_SHOWN_MS)
        self._hide.timeout.connect(self._put_away)
        library.answered.connect(self.tell)

    def tell(self, chat_id: str) -> None:
        """Say that a chat has been answered, unless the person is here or does not want to be told."""
        chat = next((tab for tab in self._library.tabs if tab.id == chat_id), None)
        if chat is None or not self._settings.notifications or QApplication.activeWindow() is not None:
            return
        QApplication.alert(self._window)
        if QSystemTrayIcon.isSystemTrayAvailable() and QSystemTrayIcon.supportsMessages():
            self._told = chat_id
            self._show(chat.title, summary(chat))

    def _show(self, title: str, text: str) -> None:
        """A message needs an icon beside it, which stays no longer than the message."""
        if self._tray is None:
            self._tray = QSystemTrayIcon(self._window.windowIcon(), self)
            self._tray.messageClicked.connect(self._go)
        self._tray.show()
        self._tray.showMessage(title, text, self._window.windowIcon(), _SHOWN_MS)
        self._hide.start()

    def _put_away(self) -> None:
        if self._tray is not None:
            self._tray.hide()

    def _go(self) -> None:
        """Show the chat that was told about."""
        self._library.select(self._told)
        self._window.raise_()
        self._window.activateWindow()


def summary(chat: Conversation) -> str:
    """The first words of the newest answer, or why there is none."""
    answer = next((turn for turn in reversed(chat.turns) if turn.role == "assistant" and turn.state != "live"), None)
    if answer is None:
        return ""
    text = " ".join((answer.error or answer.text).split())
    return text if len(text) <= _CHARACTERS else text[: _CHARACTERS - 1] + "…"
