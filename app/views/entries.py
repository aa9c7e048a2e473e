"""The list of chats as rows: titles that match what is sought, under headings by day."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import (
    QAbstractListModel,
    QModelIndex,
    QPersistentModelIndex,
    Qt,
)

if TYPE_CHECKING:
    from app.state.library import Entry, Library


Index = QModelIndex | QPersistentModelIndex
EntryRole = Qt.ItemDataRole.UserRole


@dataclass(frozen=True, slots=True)
class Heading:
    """A line that names the days below it."""

    title: str


def day(updated: float, now: datetime.datetime) -> str:
    """The heading under which a chat of that time stands."""
    days = (now.date() - datetime.datetime.fromtimestamp(updated).date()).days
    return "Today" if days <= 0 else "Yesterday" if days == 1 else "Earlier"


class Entries(QAbstractListModel):
    """Chats whose titles contain the words sought, under headings by day."""

    def __init__(self, library: Library) -> None:
        super().__init__()
        self._library = library
        self._sought: tuple[str, ...] = ()
        self._rows: list[Entry | Heading] = []
        library.entries_changed.connect(self.refresh)
        self.refresh()

    def seek(self, words: str) -> None:
        """Keep only titles that contain every word."""
        self._sought = tuple(words.casefold().split())
        self.refresh()

    def refresh(self) -> None:
        """Read the library again."""
        rows: list[Entry | Heading] = []
        now = datetime.datetime.now()
        for entry in self._library.entries:
            if all(word in entry.title.casefold() for word in self._sought):
                title = day(entry.updated, now)
                if not rows or title != self._day_above(rows, now):
                    rows.append(Heading(title))
                rows.append(entry)
        if rows != self._rows:
            self.beginResetModel()
            self._rows = rows
            self.endResetModel()

    @staticmethod
    def _day_above(rows: list[Entry | Heading], now: datetime.datetime) -> str:
        last = rows[-1]
        return last.title if isinstance(last, Heading) else day(last.updated, now)

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's own default, immutable
        return 0 if parent.isValid() else len(self._rows)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        row = self._rows[index.row()]
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole, Qt.ItemDataRole.ToolTipRole):
            return row.title
        return row if role == EntryRole else None

    def flags(self, index: Index) -> Qt.ItemFlag:
        if isinstance(self._rows[index.row()], Heading):
            return Qt.ItemFlag.NoItemFlags
        return Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable

    def row_of(self, chat_id: str) -> int | None:
        """Where a chat stands, if it is listed."""
        return next((i for i, row in enumerate(self._rows) if getattr(row, "id", None) == chat_id), None)
