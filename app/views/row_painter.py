"""How one line of the list of chats is drawn and edited."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from PySide6.QtCore import QAbstractItemModel, QPointF, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPen, QPolygonF, QTextCharFormat, QTextLayout
from PySide6.QtWidgets import QLineEdit, QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from app.views import glyph
from app.views.entries import EntryRole, Folder, Heading, Hit, Index
from app.views.theme import SMALL_PX, UI_PX, color, ui_font

if TYPE_CHECKING:
    from app.state.library import Library
    from app.state.shelf import Entry

_ROW_PX, _HEAD_PX, _HIT_PX = 32, 36, 52
_FOLDER_INSET = 14


class RowPainter(QStyledItemDelegate):
    """Draws chats, headings, folders and finds, and lets names be changed in their place."""

    def __init__(self, library: Library, parent: QWidget) -> None:
        super().__init__(parent)
        self._library = library

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        row = index.data(EntryRole)
        found = isinstance(row, Hit) and row.snippet
        return QSize(0, _HEAD_PX if isinstance(row, Heading) else _HIT_PX if found else _ROW_PX)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        rect: QRect = option.rect
        state: QStyle.StateFlag = option.state
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        row = index.data(EntryRole)
        if isinstance(row, Heading):
            painter.setFont(ui_font(SMALL_PX, strong=True))
            painter.setPen(color("muted"))
            painter.drawText(rect.adjusted(16, 12, -8, 0), Qt.AlignmentFlag.AlignVCenter, row.title)
        else:
            frame = QRectF(rect).adjusted(8, 1, -8, -1)
            self._surface(painter, frame, state, chosen=getattr(row, "id", None) == self._library.current.id)
            if isinstance(row, Folder):
                self._folder(painter, frame, row)
            elif isinstance(row, Hit):
                self._hit(painter, frame, row)
            else:
                self._chat(painter, frame, row)
        painter.restore()

    def _surface(self, painter: QPainter, frame: QRectF, state: QStyle.StateFlag, *, chosen: bool) -> None:
        painter.setPen(Qt.PenStyle.NoPen)
        if chosen or state & QStyle.StateFlag.State_MouseOver:
            painter.setBrush(color("selection" if chosen else "hover"))
            painter.drawRoundedRect(frame, 6, 6)
        if state & QStyle.StateFlag.State_HasFocus:
            painter.setPen(QPen(color("accent"), 1.5))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(frame.adjusted(1, 1, -1, -1), 6, 6)

    def _folder(self, painter: QPainter, frame: QRectF, row: Folder) -> None:
        middle = QPointF(frame.left() + 11, frame.center().y())
        across = QPolygonF([QPointF(-2, -4), QPointF(2, 0), QPointF(-2, 4)])
        down = QPolygonF([QPointF(-4, -2), QPointF(0, 2), QPointF(4, -2)])
        painter.setPen(QPen(color("muted"), 1.4))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawPolyline((across if row.folded else down).translated(middle))
        painter.setFont(ui_font(SMALL_PX))
        count = str(row.count)
        wide = painter.fontMetrics().horizontalAdvance(count)
        place = frame.adjusted(0, 0, -8, 0)
        painter.setPen(color("muted"))
        painter.drawText(place, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight, count)
        _words(painter, frame.adjusted(22, 0, -16 - wide, 0), row.title, strong=True)

    def _chat(self, painter: QPainter, frame: QRectF, row: Entry) -> None:
        inset = _FOLDER_INSET if row.folder is not None and not row.pinned else 0
        words = frame.adjusted(8 + inset, 0, 0, 0)
        words.setRight(self._sign(painter, frame, row.id))
        _words(painter, words, row.title)

    def _hit(self, painter: QPainter, frame: QRectF, row: Hit) -> None:
        top = frame.adjusted(8, 4 if row.snippet else 0, 0, -frame.height() / 2 if row.snippet else 0)
        top.setRight(self._sign(painter, top.adjusted(0, 0, 0, 0), row.id))
        _words(painter, top, row.title, found=row.words)
        if row.snippet:
            below = QRectF(top.left(), frame.center().y(), frame.right() - 8 - top.left(), frame.height() / 2 - 4)
            _words(painter, below, row.snippet, found=row.words, px=12, role="muted")

    def _sign(self, painter: QPainter, frame: QRectF, chat_id: str) -> float:
        """Draw what an open chat is doing; returns where the title must end."""
        chat = next((each for each in self._library.tabs if each.id == chat_id), None)
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

    # Editing

    def createEditor(self, parent: QWidget, option: QStyleOptionViewItem, index: Index) -> QWidget:
        editor = QLineEdit(parent)
        kind = "folder" if isinstance(index.data(EntryRole), Folder) else "chat"
        editor.setAccessibleName(f"Name of the {kind}")
        editor.setAcceptDrops(False)
        return editor

    def setEditorData(self, editor: QWidget, index: Index) -> None:
        if isinstance(editor, QLineEdit) and not editor.isModified():
            editor.setText(index.data(Qt.ItemDataRole.EditRole))
            editor.selectAll()

    def setModelData(self, editor: QWidget, model: QAbstractItemModel, index: Index) -> None:
        if isinstance(editor, QLineEdit):
            model.setData(index, editor.text())

    def updateEditorGeometry(self, editor: QWidget, option: QStyleOptionViewItem, index: Index) -> None:
        rect: QRect = option.rect
        editor.setGeometry(rect.adjusted(8, 0, -8, 0))


def _words(
    painter: QPainter,
    place: QRectF,
    text: str,
    *,
    found: tuple[str, ...] = (),
    px: int = UI_PX,
    role: str = "text",
    strong: bool = False,
) -> None:
    """One line of text, cut to its place; words that were sought stand out."""
    font = ui_font(px, strong=strong)
    painter.setFont(font)
    text = painter.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, int(place.width()))
    layout = QTextLayout(text, font)
    marks = [(match.start(), match.end() - match.start()) for word in found for match in _matches(word, text)]
    layout.setFormats([_mark(start, length) for start, length in sorted(marks)])
    layout.beginLayout()
    line = layout.createLine()
    line.setLineWidth(place.width() + 1000)
    layout.endLayout()
    painter.setPen(color(role))
    layout.draw(painter, QPointF(place.left(), place.center().y() - line.height() / 2))


def _matches(word: str, text: str) -> list[re.Match[str]]:
    return list(re.finditer(re.escape(word), text, re.IGNORECASE))


def _mark(start: int, length: int) -> QTextLayout.FormatRange:
    made = QTextLayout.FormatRange()
    made.start, made.length = start, length
    look = QTextCharFormat()
    look.setForeground(color("accent"))
    look.setFontWeight(600)
    made.format = look
    return made
