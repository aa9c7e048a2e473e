"""Keeps the system from putting Braid to rest while an answer is being made."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject

from app.state.library import Library

Hold = Callable[[str], Callable[[], None]]
"""Takes hold of the system for a reason, in words that system tools show, and returns what lets go."""
_REASON = "Answering"


class Activity(QObject):
    """Holds the system from the start of the first answer to the end of the last one."""

    def __init__(self, library: Library, hold: Hold, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._library, self._hold = library, hold
        self._release: Callable[[], None] | None = None
        self._followed: set[str] = set()
        library.tabs_changed.connect(self._follow)
        self._follow()

    def end(self) -> None:
        """Let go, whatever is being answered."""
        release, self._release = self._release, None
        if release is not None:
            release()

    def _follow(self) -> None:
        for chat in self._library.tabs:
            if chat.id not in self._followed:
                chat.activity_changed.connect(self._look)
        self._followed = {chat.id for chat in self._library.tabs}
        self._look()

    def _look(self) -> None:
        busy = any(chat.answering for chat in self._library.tabs)
        if busy and self._release is None:
            self._release = self._hold(_REASON)
        elif not busy:
            self.end()
