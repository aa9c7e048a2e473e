"""All conversations: which exist, which are open as tabs, and which one is shown."""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from app.settings import Generation
from app.state.attachment import Attachment
from app.state.clock import Clock
from app.state.composer import Desk
from app.state.conversation import Conversation
from app.state.exchange import Exchange
from app.state.journal import Journal
from app.state.model import Model
from app.state.pulse import Pulse
from app.state.room import Room
from app.state.search import Search
from app.state.shelf import Entry, Shelf
from app.state.tasks import Tasks
from app.state.turn import Turn
from app.storage import conversations as rows
from app.storage.database import Database, StorageError
from app.storage.media import MediaStore
from app.storage.search import Found, search

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

_log = logging.getLogger(__name__)
_READERS = 2


@dataclass(frozen=True, slots=True)
class _Opened:
    """A conversation as read from disk, thumbnails included."""

    stored: rows.StoredConversation
    turns: tuple[Turn, ...]
    draft: tuple[Attachment, ...]


class Library(Shelf):
    """All conversations and the open tabs.

    Signals:
        tabs_changed: tabs were opened, closed or moved.
        current_changed: id of the tab that is shown now and has the keyboard.
        beside_changed: another tab, or none, is shown beside it.
        answered: id of the open chat in which an answer has come to its end by itself.
        deleted: title of the chat that was deleted and can be brought back.
    """

    tabs_changed = Signal()
    current_changed = Signal(str)
    beside_changed = Signal()
    answered = Signal(str)
    deleted = Signal(str)

    def __init__(
        self, folder: Path, model: Model, generation: Callable[[], Generation], parent: QObject | None = None
    ) -> None:
        """Show one fresh chat at once; `restore` brings back what `folder` holds."""
        self._database = Database(folder / "library.sqlite")
        super().__init__(Journal(self._database), parent)
        self._media = MediaStore(folder / "media")
        self._pool = ThreadPoolExecutor(_READERS, thread_name_prefix="library")
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="media")
        self._downloads = ThreadPoolExecutor(_READERS, thread_name_prefix="download")
        self._tasks = Tasks()
        self._journal.failed.connect(self.tell)
        desk = Desk(self._media, self._readers, self._journal, self._tasks, self._downloads)
        self._room = Room(model, desk, Pulse(model, self), generation, Clock())
        self.search = Search(self._look, self._tasks, self)
        self.exchange = Exchange(self._database, self._journal, self._media, self._pool, self.place_of, self)
        self.exchange.told.connect(self.tell)
        self.exchange.arrived.connect(self.admit)
        self._trash: list[tuple[Entry, bool]] = []
        self._closing: dict[str, asyncio.Task[None]] = {}
        self._wanted: str | None = None
        self.current = self._fresh()
        self.current.shown = True
        self.beside: Conversation | None = None
        self.tabs: list[Conversation] = [self.current]

    # --- the list of chats

    def rename(self, id: str, title: str) -> None:
        """Give a chat of the list another title; an empty one changes nothing."""
        title = title.strip()
        if (conversation := self._tab(id)) is not None and title:
            conversation.rename(title)
        elif title:
            self.entitle(id, title)

    def delete(self, id: str) -> None:
        """Delete one chat, and close its tab; others are untouched."""
        was_open = self._tab(id) is not None
        if was_open:
            self._close_tab(id)
        entry = self._entries.pop(id, None)
        if entry is None:
            return
        self._journal.write(partial(rows.set_deleted, conversation_id=id, when=time.time()))
        self._trash.append((entry, was_open))
        self.entries_changed.emit()
        self.deleted.emit(entry.title)

    def undo_delete(self) -> None:
        """Bring the chat that was deleted last back, as a tab if it was one."""
        if not self._trash:
            return
        entry, was_open = self._trash.pop()
        self._journal.write(partial(rows.set_deleted, conversation_id=entry.id, when=None))
        self._entries[entry.id] = entry
        self.entries_changed.emit()
        if was_open:
            self.open(entry.id)

    # --- tabs

    def new_chat(self) -> Conversation:
        """Open a fresh chat in a new tab and show it."""
        conversation = self._fresh()
        self.tabs.append(conversation)
        self.tabs_changed.emit()
        self.select(conversation.id)
        return conversation

    def open(self, id: str, turn_id: str | None = None) -> None:
        """Show a chat of the list, at one of its turns: in its tab, or in a new one as soon as it was read."""
        self._wanted = id
        if (conversation := self._tab(id)) is not None:
            self.select(id)
            conversation.reveal(turn_id)
        elif id in self._entries:
            self._tasks.start(self._open(id, turn_id), f"opening {id}")

    def close_tab(self, id: str) -> None:
        """Close one tab and abort its answer only; closing the last one opens a fresh chat."""
        conversation = self._tab(id)
        if conversation is None:
            return
        if conversation.kept and not conversation.turns and conversation.composer.empty:
            self._entries.pop(id, None)
            self._journal.write(partial(rows.remove_if_empty, conversation_id=id))
            self.entries_changed.emit()
        self._close_tab(id)

    def select(self, id: str) -> None:
        """Show the tab with this chat."""
        conversation = self._tab(id)
        if conversation is None:
            return
        self._wanted = id
        if conversation is self.beside:
            self.beside = self.current
        else:
            self.current.shown = False
        self.current = conversation
        conversation.shown = True
        conversation.mark_read()
        self._keep_tabs()
        self.current_changed.emit(id)

    def show_beside(self, id: str | None) -> None:
        """Show a second tab beside the current one; None shows one alone again.

        The current tab itself goes aside for its neighbour, or for a fresh chat where it is the only one.
        """
        if self.beside is not None:
            self.beside.shown, self.beside = False, None
        conversation = self._tab(id or "")
        if conversation is not None:
            if conversation is self.current:
                self._make_way()
            self.beside = conversation
            conversation.shown = True
            conversation.mark_read()
        self._keep_tabs()
        self.beside_changed.emit()

    def _make_way(self) -> None:
        """Let the neighbour of the current tab be the current one."""
        place = self.tabs.index(self.current)
        if len(self.tabs) == 1:
            self.new_chat()
        else:
            self.select(self.tabs[place - 1 if place else 1].id)

    def move_tab(self, from_index: int, to_index: int) -> None:
        """Give a tab another place."""
        self.tabs.insert(to_index, self.tabs.pop(from_index))
        self._keep_tabs()
        self.tabs_changed.emit()

    # --- life

    def tell(self, sentence: str) -> None:
        """Show one sentence above the composer of the current chat."""
        self.current.composer.notice.emit(sentence)

    async def restore(self) -> None:
        """Open the files and bring back the list, the tabs and their drafts; without them the app still works."""
        try:
            await self._database.open()
            entries, tabs = await self._database.run(partial(_take_stock, now=self._room.clock.now()))
            opened = [await self._read(id) for id in tabs.ids]
        except StorageError as error:
            _log.warning("The library cannot be opened: %s", error)
            self._journal.abandon()
            self.tell(str(error))
            return
        self._journal.begin()
        self._entries = {entry.id: entry for entry in entries} | self._entries
        self.entries_changed.emit()
        self._show_restored([self._restored(item) for item in opened if item is not None], tabs)
        self._tasks.start(self._collect_media(), "tidying the media folder")

    async def end_answers(self) -> None:
        """End every answer, keeping what there is of it, and write it down."""
        await asyncio.gather(*(conversation.close("cut") for conversation in self.tabs))
        await self._flush()

    async def close(self, patience_s: float | None = None) -> bool:
        """Write what is left and close the files; the last call.

        Args:
            patience_s: how long to wait for a file that is being read, which a slow disk can draw out; None: till then.

        Returns:
            Whether all has ended; if not, a file is still being read, and ending the process loses nothing of it.
        """
        await self.exchange.close()
        await self._tasks.close()
        await self._flush()
        await self._database.close()
        self._pool.shutdown(cancel_futures=True)  # what is being exported is written to its end
        closing = ThreadPoolExecutor(1, thread_name_prefix="closing")
        done, _ = await asyncio.wait([asyncio.wrap_future(closing.submit(self._end_readers))], timeout=patience_s)
        closing.shutdown(wait=bool(done))
        return bool(done)

    def _end_readers(self) -> None:
        for pool in (self._readers, self._downloads):
            pool.shutdown(cancel_futures=True)

    # --- inside

    def _tab(self, id: str) -> Conversation | None:
        return next((conversation for conversation in self.tabs if conversation.id == id), None)

    def _fresh(self, record: rows.ConversationRecord | None = None) -> Conversation:
        conversation = Conversation(self._room, record)
        conversation.stored.connect(partial(self._stored, conversation))
        conversation.forking.connect(partial(self._fork, conversation))
        conversation.answered.connect(partial(self.answered.emit, conversation.id))
        return conversation

    def _fork(self, origin: Conversation, turn_id: str) -> None:
        """Open a copy of an open chat, up to one of its turns, in a tab of its own."""
        record, turns = origin.branch_off(turn_id)
        conversation = self._fresh(record)
        self.tabs.insert(self.tabs.index(origin) + 1, conversation)
        conversation.begin_with(turns)
        self.file(conversation.id, self._entries[origin.id].folder)
        self.tabs_changed.emit()
        self.select(conversation.id)

    def _restored(self, opened: _Opened) -> Conversation:
        conversation = self._fresh(opened.stored.record)
        conversation.restore(opened.turns, (opened.stored.draft.text, opened.draft))
        return conversation

    def _show_restored(self, restored: list[Conversation], tabs: rows.Tabs) -> None:
        """Put restored tabs first; the chat that was shown meanwhile stays if something was typed into it."""
        if not restored:
            return
        touched = self.current if self.current.kept else None
        self.tabs[:] = [*restored, *(tab for tab in self.tabs if tab.kept or tab is not self.current)]
        self.tabs_changed.emit()
        if touched is None:
            self.select(tabs.current if tabs.current and self._tab(tabs.current) else restored[0].id)
            if tabs.beside not in (None, self.current.id):
                self.show_beside(tabs.beside)
        else:
            self._keep_tabs()

    def _stored(self, conversation: Conversation) -> None:
        known = self._entries.get(conversation.id)
        entry = Entry(conversation.id, conversation.title, conversation.updated)
        if known is not None:
            entry = replace(entry, pinned=known.pinned, folder=known.folder)
        if self._tab(conversation.id) is None or entry == known:
            return
        if known is None:
            self._keep_tabs()
        self._list(entry)

    def _close_tab(self, id: str) -> None:
        index = next(i for i, tab in enumerate(self.tabs) if tab.id == id)
        conversation = self.tabs.pop(index)
        conversation.shown = False
        other, self.beside = self.beside, None if conversation in (self.current, self.beside) else self.beside
        self._closing[id] = self._tasks.start(self._end(conversation), f"closing {id}")
        if not self.tabs:
            self.tabs.append(self._fresh())
        self.tabs_changed.emit()
        if conversation is self.current:
            self.select(other.id if other is not None else self.tabs[min(index, len(self.tabs) - 1)].id)
        else:
            self._keep_tabs()
        if other is not self.beside:
            self.beside_changed.emit()

    async def _end(self, conversation: Conversation) -> None:
        await conversation.close()
        self._closing.pop(conversation.id, None)
        conversation.deleteLater()  # what is connected to it would keep it for ever

    def _keep_tabs(self) -> None:
        ids = tuple(conversation.id for conversation in self.tabs)
        tabs = rows.Tabs(ids, self.current.id, None if self.beside is None else self.beside.id)
        self._journal.write_soon("tabs", partial(rows.put_tabs, tabs=tabs))

    async def _open(self, id: str, turn_id: str | None) -> None:
        if id in self._closing:
            await asyncio.wait([self._closing[id]])
        try:
            await self._journal.flush()
            opened = await self._read(id)
        except StorageError as error:
            self.tell(str(error))
            return
        if opened is None or self._tab(id) is not None or id not in self._entries:
            return  # opened twice, or deleted meanwhile
        conversation = self._restored(opened)
        if self.current.kept:
            self.tabs.append(conversation)
        else:
            self.tabs[self.tabs.index(self.current)] = conversation
        self._keep_tabs()
        self.tabs_changed.emit()
        if self._wanted == id or self._tab(self.current.id) is None:
            self.select(id)
            conversation.reveal(turn_id)

    async def _read(self, id: str) -> _Opened | None:
        stored = await self._database.run(partial(rows.load_conversation, conversation_id=id))
        if stored is None:
            return None
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, _with_media, stored, self._media)

    async def _look(self, words: str) -> list[Found]:
        await self._journal.flush()
        return await self._database.run(partial(search, text=words))

    async def _collect_media(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            in_use = await self._database.run(rows.media_in_use)
            await loop.run_in_executor(self._pool, self._media.collect, in_use)
        except (StorageError, OSError):
            _log.info("The media folder could not be tidied", exc_info=True)  # nothing is lost: the next start tries

    async def _flush(self) -> None:
        try:
            await self._journal.flush()
        except StorageError:
            _log.exception("The last changes could not be saved")


def _take_stock(connection: sqlite3.Connection, now: float) -> tuple[list[Entry], rows.Tabs]:
    rows.cut_live_turns(connection)
    rows.purge_deleted(connection)
    rows.bring_back(connection, now)
    return [Entry(*row) for row in rows.list_conversations(connection)], rows.load_tabs(connection)


def _with_media(stored: rows.StoredConversation, media: MediaStore) -> _Opened:
    turns = tuple(Turn.restore(turn, media) for turn in stored.turns)
    return _Opened(stored, turns, tuple(Attachment.restore(item, media) for item in stored.draft.attachments))
