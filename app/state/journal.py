"""Everything the app writes to its library: in order, together, and not lost to a passing fault."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Sequence

from PySide6.QtCore import QObject, QTimer, Signal

from app.state.tasks import Tasks
from app.storage.database import Database, StorageError

_log = logging.getLogger(__name__)
_SOON_MS = 1000
_RETRY_MS = 5000
Write = Callable[[sqlite3.Connection], None]


class Journal(QObject):
    """Collects writes and commits them on the storage thread, one transaction at a time.

    What cannot be written because the disk is full, the file locked or the like stays here and is tried again.

    Signals:
        failed: one sentence when writing starts to fail; not again until it has worked once.
    """

    failed = Signal(str)

    def __init__(self, database: Database, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._database = database
        self._tasks = Tasks()
        self._lock = asyncio.Lock()
        self._ordered: list[Write] = []
        self._latest: dict[str, Write] = {}
        self._failing = False
        self._begun = False
        self._abandoned = False
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self._start)

    def begin(self) -> None:
        """Start committing; before that, writes only gather, so that what the last run left can be read first."""
        self._begun = True
        self._timer.start(0)

    def write(self, work: Write) -> None:
        """Commit `work` as soon as the storage thread is free, after all that was handed in before."""
        if self._abandoned:
            return
        self._order_latest()
        self._ordered.append(work)
        if self._begun and not self._failing:
            self._timer.start(0)

    def write_soon(self, key: str, work: Write) -> None:
        """Commit `work` within a second; until then, later work under the same key replaces it."""
        if self._abandoned:
            return
        self._latest[key] = work
        if self._begun and not self._timer.isActive():
            self._timer.start(_SOON_MS)

    def abandon(self) -> None:
        """Take no more writes: the library could not be opened, and this session lives in memory only."""
        self._abandoned = True
        self._timer.stop()
        self._ordered, self._latest = [], {}

    async def flush(self) -> None:
        """Commit everything that was handed in.

        Raises:
            StorageError: it cannot be written and is kept for the next try.
        """
        async with self._lock:
            self._timer.stop()
            self._order_latest()
            while batch := self._ordered:
                self._ordered = []
                await self._commit(batch)

    def _order_latest(self) -> None:
        self._ordered += self._latest.values()
        self._latest = {}

    def _start(self) -> None:
        self._tasks.start(self._flush_or_tell(), "saving")

    async def _flush_or_tell(self) -> None:
        try:
            await self.flush()
        except StorageError as error:
            if not self._failing:
                _log.warning("The library cannot be written: %s", error)
                self.failed.emit(str(error))
            self._failing = True
            self._timer.start(_RETRY_MS)
        else:
            self._failing = False

    async def _commit(self, batch: Sequence[Write]) -> None:
        try:
            await self._database.run(lambda connection: [work(connection) for work in batch])
        except StorageError:
            self._ordered = [*batch, *self._ordered]
            raise
        except Exception:  # noqa: BLE001 - one wrong write must not take its neighbours with it
            if len(batch) == 1:
                _log.exception("A write to the library was dropped")
                return
            for work in batch:
                await self._commit([work])
