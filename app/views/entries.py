"""The list of chats as rows: pinned ones, folders and days, or what a search has found."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import (
    QAbstractListModel,
    QModelIndex,
    QPersistentModelIndex,
    Qt,
)

if TYPE_CHECKING:
    from app.state.library import Library
    from app.state.shelf import Entry


Index = QModelIndex | QPersistentModelIndex
EntryRole = Qt.ItemDataRole.UserRole


@dataclass(frozen=True, slots=True)
class Heading:
    """A line that names the chats below it."""

    title: str


@dataclass(frozen=True, slots=True)
class Folder:
    """A line that names a folder and the number of its chats, and shows or hides them."""

    title: str
    count: int
    folded: bool


@dataclass(frozen=True, slots=True)
class Hit:
    """A chat that holds the words sought; `turn_id` and `snippet` say where, unless it is in the title."""

    entry: Entry
    words: tuple[str, ...]
    turn_id: str | None
    snippet: str

    @property
    def id(self) -> str:
        """The chat's."""
        return self.entry.id

    @property
    def title(self) -> str:
        """The chat's."""
        return self.entry.title


if TYPE_CHECKING:
    Line = Entry | Heading | Folder | Hit


def day(updated: float, now: datetime.datetime) -> str:
    """The heading under which a chat of that time stands."""
    days = (now.date() - datetime.datetime.fromtimestamp(updated).date()).days
    return "Today" if days <= 0 else "Yesterday" if days == 1 else "Earlier"


class Entries(QAbstractListModel):
    """Chats as the library has them; titles and folders can be changed in place."""

    def __init__(self, library: Library) -> None:
        super().__init__()
        self._library = library
        self._rows: list[Line] = []
        self._folded: set[str] = set()
        self._held = False
        library.entries_changed.connect(self.refresh)
        library.search.changed.connect(self.refresh)
        self.refresh()

    def hold(self, held: bool) -> None:
        """Leave the rows as they are while one of them is edited."""
        self._held = held
        self.refresh()

    @property
    def folded(self) -> tuple[str, ...]:
        """Folders whose chats are hidden, by name."""
        return tuple(name for name in self._library.folders if name in self._folded)

    @folded.setter
    def folded(self, names: Iterable[str]) -> None:
        self._folded = set(names)
        self.refresh()

    def fold(self, folder: str) -> None:
        """Hide the chats of a folder, or show them again."""
        self._folded ^= {folder}
        self.refresh()

    def refresh(self) -> None:
        """Read the library again."""
        rows = [*(self._found() if self._library.search.words else self._all())]
        if rows != self._rows and not self._held:
            self.beginResetModel()
            self._rows = rows
            self.endResetModel()

    def _found(self) -> Iterator[Line]:
        search = self._library.search
        entries = {entry.id: entry for entry in self._library.entries}
        words = tuple(search.words.split())
        for found in search.found:
            if (entry := entries.get(found.conversation_id)) is not None:
                yield Hit(entry, words, found.turn_id, found.snippet)

    def _all(self) -> Iterator[Line]:
        entries = self._library.entries
        if pinned := [entry for entry in entries if entry.pinned]:
            yield Heading("Pinned")
            yield from pinned
        loose = [entry for entry in entries if not entry.pinned]
        for name in self._library.folders:
            yield from self._folder(name, [entry for entry in loose if entry.folder == name])
        yield from _by_day(entry for entry in loose if entry.folder is None)

    def _folder(self, name: str, inside: list[Entry]) -> Iterator[Line]:
        folded = name in self._folded
        yield Folder(name, len(inside), folded)
        if not folded:
            yield from inside

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's own default, immutable
        return 0 if parent.isValid() else len(self._rows)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        row = self._rows[index.row()]
        if role == EntryRole:
            return row
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return _spoken(row)
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.EditRole, Qt.ItemDataRole.ToolTipRole):
            return row.title
        return None

    def setData(self, index: Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        """Give a chat or a folder another name; an empty one is not taken."""
        row, name = self._rows[index.row()], str(value).strip()
        if role != Qt.ItemDataRole.EditRole or not name or name == row.title:
            return False
        if isinstance(row, Folder):
            self._folded |= {name} if row.folded else set()
            self._library.rename_folder(row.title, name)
        elif not isinstance(row, Heading):
            self._library.rename(row.id, name)
        return True

    def flags(self, index: Index) -> Qt.ItemFlag:
        if isinstance(self._rows[index.row()], Heading):
            return Qt.ItemFlag.NoItemFlags
        return Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsEditable

    def row_of(self, chat_id: str) -> int | None:
        """Where a chat stands, if it is listed."""
        return next((i for i, row in enumerate(self._rows) if getattr(row, "id", None) == chat_id), None)

    def row_of_folder(self, name: str) -> int | None:
        """Where a folder stands, if it is listed."""
        return next((i for i, row in enumerate(self._rows) if isinstance(row, Folder) and row.title == name), None)


def _by_day(entries: Iterable[Entry]) -> Iterator[Line]:
    now = datetime.datetime.now()
    for title, group in groupby(entries, lambda entry: day(entry.updated, now)):
        yield Heading(title)
        yield from group


def _spoken(row: Line) -> str:
    if isinstance(row, Folder):
        return f"Folder {row.title}, {row.count} chat{'' if row.count == 1 else 's'}{', closed' if row.folded else ''}"
    return f"{row.title}: {row.snippet}" if isinstance(row, Hit) and row.snippet else row.title
