"""The sidebar: find a chat, start one, all of them by day, and which model answers."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import (
    QAbstractListModel,
    QModelIndex,
    QPersistentModelIndex,
    QPoint,
    QRect,
    QRectF,
    QSize,
    Qt,
    QTimer,
    Signal,
)
from PySide6.QtGui import QKeyEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QListView,
    QMenu,
    QPushButton,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)

from app.views import glyph
from app.views.icons import icon
from app.views.model_chip import ModelChip
from app.views.theme import SMALL_PX, UI_PX, color, theme, ui_font

if TYPE_CHECKING:
    from app.state.library import Entry, Library
    from app.state.model import Model

_UNDO_MS = 8000
_ROW_PX, _HEAD_PX = 32, 36
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


class Painter(QStyledItemDelegate):
    """Draws one line of the list."""

    def __init__(self, library: Library, parent: QWidget) -> None:
        super().__init__(parent)
        self._library = library

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        return QSize(0, _HEAD_PX if isinstance(index.data(EntryRole), Heading) else _ROW_PX)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        rect: QRect = option.rect
        state: QStyle.StateFlag = option.state
        painter.save()
        row = index.data(EntryRole)
        if isinstance(row, Heading):
            painter.setFont(ui_font(SMALL_PX, strong=True))
            painter.setPen(color("muted"))
            painter.drawText(rect.adjusted(16, 12, -8, 0), Qt.AlignmentFlag.AlignVCenter, row.title)
        else:
            self._chat(painter, rect, state, row)
        painter.restore()

    def _chat(self, painter: QPainter, rect: QRect, state: QStyle.StateFlag, row: Entry) -> None:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        frame = QRectF(rect).adjusted(8, 1, -8, -1)
        chosen = row.id == self._library.current.id
        painter.setPen(Qt.PenStyle.NoPen)
        if chosen or state & QStyle.StateFlag.State_MouseOver:
            painter.setBrush(color("selection" if chosen else "hover"))
            painter.drawRoundedRect(frame, 6, 6)
        if state & QStyle.StateFlag.State_HasFocus:
            painter.setPen(QPen(color("accent"), 1.5))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(frame.adjusted(1, 1, -1, -1), 6, 6)
        right = self._sign(painter, frame, row)
        painter.setPen(color("text"))
        painter.setFont(ui_font(UI_PX))
        words = frame.adjusted(8, 0, 0, 0)
        words.setRight(right)
        title = painter.fontMetrics().elidedText(row.title, Qt.TextElideMode.ElideRight, int(words.width()))
        painter.drawText(words, Qt.AlignmentFlag.AlignVCenter, title)

    def _sign(self, painter: QPainter, frame: QRectF, row: Entry) -> float:
        """Draw what an open chat is doing; returns where the title must end."""
        chat = next((each for each in self._library.tabs if each.id == row.id), None)
        if chat is None or (chat.phase is None and not chat.unread):
            return frame.right() - 8
        place = QRectF(frame.right() - 18, frame.center().y() - 5, 10, 10)
        if chat.phase is not None:
            glyph.paint(painter, place, chat.phase.value)
        else:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(color("accent"))
            painter.drawEllipse(place.adjusted(1, 1, -1, -1))
        return place.left() - 8


class Chats(QListView):
    """The list itself.

    Signals:
        chosen: open this chat.
        unwanted: delete this chat.
    """

    chosen = Signal(str)
    unwanted = Signal(str)

    def __init__(self, library: Library, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._library = library
        self.entries = Entries(library)
        self.setModel(self.entries)
        self.setItemDelegate(Painter(library, self))
        self.setAccessibleName("Chats")
        self.setMouseTracking(True)
        self.setVerticalScrollMode(QListView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setEditTriggers(QListView.EditTrigger.NoEditTriggers)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.customContextMenuRequested.connect(self._menu)
        self.clicked.connect(self._choose)
        self.activated.connect(self._choose)

    def _choose(self, index: QModelIndex) -> None:
        if (chat_id := self._id(index)) is not None:
            self.chosen.emit(chat_id)

    @staticmethod
    def _id(index: QModelIndex) -> str | None:
        return getattr(index.data(EntryRole), "id", None) if index.isValid() else None

    def _menu(self, place: QPoint) -> None:
        chat_id = self._id(self.indexAt(place))
        if chat_id is None:
            return
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.addAction("Open", lambda: self.chosen.emit(chat_id))
        menu.addSeparator()
        menu.addAction("Delete", lambda: self.unwanted.emit(chat_id))
        menu.popup(self.viewport().mapToGlobal(place))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        chat_id = self._id(self.currentIndex())
        if chat_id is not None and event.key() in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace):
            self.unwanted.emit(chat_id)
        elif chat_id is not None and event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.chosen.emit(chat_id)
        else:
            super().keyPressEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self.entries.rowCount() == 0:
            painter = QPainter(self.viewport())
            painter.setPen(color("muted"))
            painter.setFont(ui_font(UI_PX))
            flags = Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignTop | Qt.TextFlag.TextWordWrap
            painter.drawText(self.viewport().rect().adjusted(16, 24, -16, 0), int(flags), self.property("nothing"))


class UndoBar(QWidget):
    """Says what was deleted and takes it back.

    Signals:
        undone: the person wants it back.
    """

    undone = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._label = QLabel(self)
        self._label.setObjectName("muted")
        button = QPushButton("Undo", self)
        button.setObjectName("link")
        button.clicked.connect(self.undone)
        button.clicked.connect(self.hide)
        row = QHBoxLayout(self)
        row.setContentsMargins(16, 4, 8, 4)
        row.addWidget(self._label, 1)
        row.addWidget(button)
        self._timer = QTimer(self, singleShot=True, interval=_UNDO_MS)
        self._timer.timeout.connect(self.hide)
        self.hide()

    def say(self, title: str) -> None:
        """Offer to take back the deletion of a chat."""
        room = max(60, self.width() - 170)
        short = self._label.fontMetrics().elidedText(title, Qt.TextElideMode.ElideRight, room)
        self._label.setText(f"Deleted “{short}”")
        self.setAccessibleName(f"Deleted {title}")
        self.show()
        self._timer.start()


class Sidebar(QWidget):
    """Everything left of the conversation."""

    def __init__(self, library: Library, model: Model, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("sidebar")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setMinimumWidth(220)
        self.setMaximumWidth(300)
        self._library = library
        self.search = QLineEdit(self)
        self.search.setAccessibleName("Search chats")
        self.search.setPlaceholderText("Search")
        self.search.setClearButtonEnabled(True)
        self.search.setAcceptDrops(False)
        self._sign = self.search.addAction(icon("search"), QLineEdit.ActionPosition.LeadingPosition)
        self.new = QPushButton("New chat", self)
        self.new.setObjectName("flat")
        self.new.setAccessibleName("New chat")
        self.chats = Chats(library, self)
        self._undo = UndoBar(self)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 8, 0, 0)
        column.setSpacing(4)
        for part in (self.search, self.new):
            row = QHBoxLayout()
            row.setContentsMargins(8, 0, 8, 0)
            row.addWidget(part)
            column.addLayout(row)
        for whole in (self.chats, self._undo, ModelChip(model, self)):
            column.addWidget(whole, 1 if whole is self.chats else 0)
        self._connect()
        self._recolour()
        self._explain("")

    def _connect(self) -> None:
        library = self._library
        self.search.textChanged.connect(self.chats.entries.seek)
        self.search.textChanged.connect(self._explain)
        self.search.returnPressed.connect(self._open_first)
        self.new.clicked.connect(library.new_chat)
        self.chats.chosen.connect(library.open)
        self.chats.unwanted.connect(library.delete)
        self._undo.undone.connect(library.undo_delete)
        library.deleted.connect(self._undo.say)
        library.current_changed.connect(lambda: self.chats.viewport().update())
        library.tabs_changed.connect(self._watch)
        theme.changed.connect(self._recolour)
        self._watched: set[str] = set()
        self._watch()

    def _watch(self) -> None:
        """Redraw the list when an open chat's sign changes."""
        for chat in self._library.tabs:
            if chat.id not in self._watched:
                chat.activity_changed.connect(self.chats.viewport().update)
        self._watched = {chat.id for chat in self._library.tabs}

    def _open_first(self) -> None:
        for row in range(self.chats.entries.rowCount()):
            entry = self.chats.entries.index(row).data(EntryRole)
            if not isinstance(entry, Heading):
                self._library.open(entry.id)
                return

    def _explain(self, sought: str) -> None:
        said = f"No chat is titled “{sought.strip()}”" if sought.strip() else "Your chats will be listed here"
        self.chats.setProperty("nothing", said)
        self.chats.viewport().update()

    def _recolour(self) -> None:
        self._sign.setIcon(icon("search"))
        self.new.setIcon(icon("plus"))
