"""The SQLite file of the library, used by one thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from app.storage.schema import MIGRATIONS, Version

_T = TypeVar("_T")
Work = Callable[[sqlite3.Connection], _T]
"""What runs on the storage thread inside one transaction."""

_BUSY_MS = 2000
_BUSY = "Another program uses Braid's library, so chats are not being saved. Close it: Braid keeps trying."
_DAMAGED = "Braid's library {path} is damaged. Move it away to start with an empty one, or bring back a backup."
_DENIED = "Braid may not use its library {path}, so chats are not being saved. Check the folder's permissions."
_KNOWN = {
    sqlite3.SQLITE_FULL: "The disk is full, so chats are not being saved. Free some space: Braid keeps trying.",
    sqlite3.SQLITE_IOERR: "The disk with Braid's library fails, so chats are not being saved. Check the disk.",
    sqlite3.SQLITE_BUSY: _BUSY,
    sqlite3.SQLITE_LOCKED: _BUSY,
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_READONLY: _DENIED,
    sqlite3.SQLITE_CANTOPEN: _DENIED,
    sqlite3.SQLITE_PERM: _DENIED,
}


class StorageError(Exception):
    """The library cannot be used for a reason outside this program; `str(error)` is a sentence for people."""


class Database:
    """One library file; every method may be called from the event loop's thread only.

    The connection lives on one storage thread: no SQL and no fsync runs anywhere else, and work runs in call order.
    """

    def __init__(self, path: Path) -> None:
        """Remember where the file is; nothing is opened yet."""
        self._path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="storage")
        self._connection: sqlite3.Connection | None = None

    async def open(self) -> None:
        """Open or create the file and bring it to the current version.

        Raises:
            StorageError: it cannot be opened, is damaged, or was written by a newer Braid.
        """
        await asyncio.wrap_future(self._thread.submit(self._open))

    def run(self, work: Work[_T]) -> Awaitable[_T]:
        """Queue `work` now, to run as one transaction; the result is awaited.

        Raises:
            StorageError: when awaited, for a full disk, a locked or damaged file and the like.
        """
        return asyncio.wrap_future(self._thread.submit(self._transact, work))

    async def close(self) -> None:
        """Finish what is queued and close the file; once is enough, twice is harmless."""
        with contextlib.suppress(RuntimeError):  # the thread has ended: closed before
            await asyncio.wrap_future(self._thread.submit(self._close))
        self._thread.shutdown(wait=True)

    def _open(self) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(_DENIED.format(path=self._path)) from error
        with self._told():
            connection = sqlite3.connect(self._path, isolation_level=None)
            try:
                connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
                self._refuse_newer(connection)  # first: a file that is not ours to read stays as it is
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = NORMAL")
                connection.execute("PRAGMA foreign_keys = ON")
                _migrate(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection

    def _refuse_newer(self, connection: sqlite3.Connection) -> None:
        if _version(connection).major > MIGRATIONS[-1][0].major:
            raise StorageError(
                f"Braid's library {self._path} was written by a newer Braid and is left untouched. "
                "Chats are not being saved: update Braid to use it."
            )

    def _transact(self, work: Work[_T]) -> _T:
        if self._connection is None:
            raise StorageError("Braid's library is not open, so chats are not being saved.")
        with self._told():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                result = work(self._connection)
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
            return result

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Turn what is not this program's fault into a sentence; a mistake in our SQL stays an `sqlite3.Error`."""
        try:
            yield
        except sqlite3.Error as error:
            sentence = _KNOWN.get(getattr(error, "sqlite_errorcode", 0) & 0xFF)
            if sentence is None:
                raise
            raise StorageError(sentence.format(path=self._path)) from error


def _version(connection: sqlite3.Connection) -> Version:
    return Version.unpack(connection.execute("PRAGMA user_version").fetchone()[0])


def _migrate(connection: sqlite3.Connection) -> None:
    found = _version(connection)
    for version, script in MIGRATIONS:
        if version > found:
            connection.executescript(f"BEGIN IMMEDIATE; {script} PRAGMA user_version = {version.packed}; COMMIT;")
