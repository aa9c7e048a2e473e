"""The list of all chats: their titles, pins and folders."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial

from PySide6.QtCore import QObject, Signal

from app.state.journal import Journal
from app.state.talk import Incoming
from app.storage import conversations as rows


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the list of chats; `updated` is Unix seconds."""

    id: str
    title: str
    updated: float
    pinned: bool = False
    folder: str | None = None


class Shelf(QObject):
    """All chats that are not deleted, and where each stands.

    Signals:
        entries_changed: the list of chats changed.
    """

    entries_changed = Signal()

    def __init__(self, journal: Journal, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._journal = journal
        journal.setParent(self)
        self._entries: dict[str, Entry] = {}

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All chats that are not deleted, newest first."""
        return tuple(sorted(self._entries.values(), key=lambda entry: entry.updated, reverse=True))

    @property
    def folders(self) -> tuple[str, ...]:
        """Names of the folders that hold chats, in alphabetical order."""
        names = {entry.folder for entry in self._entries.values() if entry.folder is not None}
        return tuple(sorted(names, key=str.casefold))

    def entitle(self, id: str, title: str) -> None:
        """Give a chat that is not open another title."""
        if id in self._entries:
            self._journal.write(partial(rows.set_title, conversation_id=id, title=title))
            self._list(replace(self._entries[id], title=title))

    def pin(self, id: str, on: bool) -> None:
        """Keep a chat at the top of the list, or let it go back to its place."""
        if id in self._entries:
            self._place(replace(self._entries[id], pinned=on))

    def file(self, id: str, folder: str | None) -> None:
        """Put a chat into a folder, or take it out with None; a folder exists as long as it holds a chat."""
        if id in self._entries:
            self._place(replace(self._entries[id], folder=(folder or "").strip() or None))

    def rename_folder(self, name: str, to: str | None) -> None:
        """Move all chats of a folder into another one, new or known, or out of it with None."""
        to = (to or "").strip() or None
        for entry in [entry for entry in self._entries.values() if entry.folder == name]:
            self._write_place(replace(entry, folder=to))
        self.entries_changed.emit()

    def admit(self, incoming: Iterable[Incoming]) -> None:
        """Take chats that were written to the library from a file."""
        for each in incoming:
            record = each.record
            self._entries[record.id] = Entry(record.id, record.title, record.updated, each.pinned, each.folder)
        self.entries_changed.emit()

    def place_of(self, id: str) -> tuple[bool, str | None]:
        """Pin and folder of a chat."""
        entry = self._entries.get(id)
        return (entry.pinned, entry.folder) if entry is not None else (False, None)

    def _list(self, entry: Entry) -> None:
        self._entries[entry.id] = entry
        self.entries_changed.emit()

    def _place(self, entry: Entry) -> None:
        self._write_place(entry)
        self.entries_changed.emit()

    def _write_place(self, entry: Entry) -> None:
        self._entries[entry.id] = entry
        place = partial(rows.set_place, conversation_id=entry.id, pinned=entry.pinned, folder=entry.folder)
        self._journal.write(place)
