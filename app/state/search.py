"""Finding chats by what was said in them, while the words are being typed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from PySide6.QtCore import QObject, QTimer, Signal

from app.state.tasks import Tasks
from app.storage.database import StorageError
from app.storage.search import Found

_PAUSE_MS = 120
Look = Callable[[str], Awaitable[list[Found]]]


class Search(QObject):
    """The words that are sought and the chats that hold them.

    Signals:
        changed: `words`, `found` or `error` changed.

    Attributes:
        words: what `found` belongs to; empty while nothing is sought.
        error: why there is nothing to search in, as a sentence.
    """

    changed = Signal()

    def __init__(self, look: Look, tasks: Tasks, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.words = ""
        self.found: tuple[Found, ...] = ()
        self.error = ""
        self._look, self._tasks = look, tasks
        self._task: asyncio.Task[None] | None = None
        self._wanted = ""
        self._pause = QTimer(self, singleShot=True, interval=_PAUSE_MS)
        self._pause.timeout.connect(self._start)

    def seek(self, text: str) -> None:
        """Look for all these words, as soon as typing pauses; what was found before stays until then."""
        wanted = " ".join(text.split())
        if wanted == self._wanted:
            return
        self._wanted = wanted
        if self._task is not None:
            self._task.cancel()
        if wanted:
            self._pause.start()
        else:
            self._pause.stop()
            self._show("", ())

    def _start(self) -> None:
        self._task = self._tasks.start(self._find(self._wanted), "searching")

    async def _find(self, words: str) -> None:
        try:
            found = await self._look(words)
        except StorageError as error:
            self._show(words, (), str(error))
        else:
            self._show(words, tuple(found))

    def _show(self, words: str, found: tuple[Found, ...], error: str = "") -> None:
        self.words, self.found, self.error = words, found, error
        self.changed.emit()
