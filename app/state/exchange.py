"""Chats out of the library into files, and out of files into the library."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from PySide6.QtCore import QObject, Signal

from app.state.attachment import Attachment
from app.state.branch import Tree
from app.state.journal import Journal
from app.state.reading import Reading, Refused, read_data
from app.state.talk import ExchangeError, Incoming
from app.state.tasks import Tasks
from app.state.turn import Turn
from app.storage import conversations as rows
from app.storage.conversations import StoredConversation
from app.storage.database import Database, StorageError
from app.storage.media import MediaStore

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_AT_ONCE = 20
"""Chats in one transaction: answers that stream meanwhile are written between them."""
Places = Callable[[str], tuple[bool, str | None]]
"""Pin and folder of a chat."""


class Exchange(QObject):
    """Exports and imports, beside everything else that goes on.

    Signals:
        told: how it ended, in a sentence.
        arrived: chats were added to the library.
    """

    told = Signal(str)
    arrived = Signal(list)

    def __init__(
        self,
        database: Database,
        journal: Journal,
        media: MediaStore,
        pool: Executor,
        places: Places,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._database, self._journal, self._media, self._pool = database, journal, media, pool
        self._places = places
        self._tasks = Tasks()

    def export(self, ids: Sequence[str], path: Path) -> None:
        """Write chats to a file: one as Markdown where its name ends so, any number as an archive."""
        self._tasks.start(self._tell(self._export(ids, path)), f"exporting {path.name}")

    def take(self, path: Path) -> None:
        """Add the chats of an export to the library."""
        self._tasks.start(self._tell(self._take(path)), f"importing {path.name}")

    async def close(self) -> None:
        """End what is going on; files are complete or not there."""
        await self._tasks.close()

    async def _tell(self, work: Coroutine[Any, Any, str]) -> None:
        """Do it and say how it ended."""
        try:
            sentence = await work
        except (ExchangeError, StorageError) as error:
            sentence = str(error)
        except OSError as error:
            _log.warning("Exporting failed: %s", error)
            sentence = "The file could not be written. Check the folder's permissions and the space on its disk."
        self.told.emit(sentence)

    async def _export(self, ids: Sequence[str], path: Path) -> str:
        await self._journal.flush()
        found = [await self._database.run(partial(rows.load_conversation, conversation_id=id)) for id in ids]
        chats = [chat for chat in found if chat is not None and chat.turns]
        if not chats:
            raise ExchangeError("There is nothing to export yet.")
        if path.suffix.lower() == ".md":
            await self._in_pool(_write_markdown, path, chats[0], self._media)
        else:
            placed = [(chat, *self._places(chat.record.id)) for chat in chats]
            await self._in_pool(_write_archive, path, placed, self._media.folder)
        return f"{_chats(len(chats))} exported to {path.name}."

    async def _take(self, path: Path) -> str:
        incoming = await self._in_pool(_read, path, self._keep)
        await self._put(incoming)
        self.arrived.emit(incoming)
        left_out = sum(each.left_out for each in incoming)
        return f"{_chats(len(incoming))} imported.{_lacking(left_out)}"

    async def _put(self, incoming: Sequence[Incoming]) -> None:
        """Write all of them, or none."""
        try:
            for start in range(0, len(incoming), _AT_ONCE):
                await self._database.run(partial(_put_all, incoming=incoming[start : start + _AT_ONCE]))
        except StorageError:
            await self._database.run(partial(_remove_all, incoming=incoming))
            raise

    def _keep(self, data: bytes, name: str) -> Attachment | None:
        """On a pool thread."""
        try:
            return read_data(data, name, Reading(self._media))
        except Refused:
            return None

    async def _in_pool(self, work: Callable[..., _T], *arguments: object) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)


# What reads and writes files is imported on the pool's thread, when it is needed first.


def _read(path: Path, keep: Callable[[bytes, str], Attachment | None]) -> list[Incoming]:
    from app.state.import_ import read

    return read(path, keep)


def _write_archive(path: Path, chats: Sequence[tuple[StoredConversation, bool, str | None]], media: Path) -> None:
    from app.state import archive

    archive.write(path, chats, media)


def _write_markdown(path: Path, chat: StoredConversation, media: MediaStore) -> None:
    from app.state.export import write_markdown

    tree = Tree()
    tree.fill(Turn.restore(turn, media) for turn in chat.turns if turn.state != "queued")
    turns = tree.through(tree.get(chat.record.active_leaf) or tree.newest())
    write_markdown(path, chat.record.title, chat.record.system_prompt, turns)


def _put_all(connection: sqlite3.Connection, incoming: Sequence[Incoming]) -> None:
    for each in incoming:
        rows.put_conversation(connection, each.record)
        rows.set_place(connection, each.record.id, pinned=each.pinned, folder=each.folder)
        for turn in each.turns:
            rows.put_turn(connection, turn)


def _remove_all(connection: sqlite3.Connection, incoming: Sequence[Incoming]) -> None:
    for each in incoming:
        rows.remove_conversation(connection, each.record.id)


def _chats(count: int) -> str:
    return "1 chat was" if count == 1 else f"{count} chats were"


def _lacking(count: int) -> str:
    if not count:
        return ""
    what, verb = ("1 attachment was", "it is") if count == 1 else (f"{count} attachments were", "they are")
    return f" {what} left out: {verb} not in the file, damaged or too large."
