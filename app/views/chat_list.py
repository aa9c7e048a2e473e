"""The list of chats in the sidebar: drawn row by row, opened by a click, deleted by a key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import (
    QModelIndex,
    QPoint,
    QRect,
    QRectF,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import QKeyEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import (
    QListView,
    QMenu,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from app.views import glyph
from app.views.entries import Entries, EntryRole, Heading, Index
from app.views.theme import SMALL_PX, UI_PX, color, ui_font

if TYPE_CHECKING:
    from app.state.library import Entry, Library


_ROW_PX, _HEAD_PX = 32, 36


class RowPainter(QStyledItemDelegate):
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
        self.setItemDelegate(RowPainter(library, self))
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
