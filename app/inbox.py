"""Files that come to the running app from outside, kept until somebody can take them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import QObject, QTimer
from PySide6.QtGui import QFileOpenEvent


class Inbox(QObject):
    """Files that were dropped on the Dock's icon, opened with Braid in the Finder, or brought by a later start.

    The system tells of each in an event of its own, and the first ones may come before anybody can take them. What
    came together is handed on together, in order.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._files: list[Path] = []
        self._take: Callable[[Sequence[Path]], None] | None = None

    def put(self, event: QFileOpenEvent) -> bool:
        """Keep the event's file; False for an address that is no file."""
        if not event.file():
            return False
        self.bring([Path(event.file())])
        return True

    def bring(self, files: Sequence[Path]) -> None:
        """Keep files, and hand them on with the next turn of the loop."""
        if not self._files:
            QTimer.singleShot(0, self, self._hand_on)
        self._files += files

    def open_with(self, take: Callable[[Sequence[Path]], None]) -> None:
        """Hand what has come so far, and all that follows, to `take`."""
        self._take = take
        self._hand_on()

    def _hand_on(self) -> None:
        if self._take is not None and self._files:
            files, self._files = self._files, []
            self._take(files)
