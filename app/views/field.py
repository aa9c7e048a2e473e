"""The text field in which a turn is written."""

from __future__ import annotations

from PySide6.QtCore import QMimeData, QRectF, Qt, Signal
from PySide6.QtGui import QFocusEvent, QKeyEvent, QPainter, QPen, QResizeEvent
from PySide6.QtWidgets import QPlainTextEdit, QSizePolicy, QWidget

from app.views import drop
from app.views.theme import TEXT_PX, color, set_font

_LINES = 8
_INVITATIONS = (
    "Ask anything, or drop pictures, clips, documents",
    "Ask, or drop pictures and files",
    "Ask anything",
)
_PAGES = {Qt.Key.Key_PageUp: -1, Qt.Key.Key_PageDown: 1}


class Field(QPlainTextEdit):
    """The text field: Enter sends, Shift+Enter breaks the line, files and pictures may be pasted.

    Signals:
        submitted: Enter was pressed.
        brought: something was pasted that is not plain text, or too long to be typed.
        focused: it got or lost the keyboard.
        paged: scroll the conversation by pages (-1 up, 1 down).
        recalled: the arrow up was pressed in the empty field.
    """

    submitted = Signal()
    brought = Signal(object)
    focused = Signal()
    paged = Signal(int)
    recalled = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._most = _LINES
        self.setAccessibleName("Message")
        set_font(self, TEXT_PX)
        self.setAcceptDrops(False)  # the window takes drops anywhere
        self.setTabChangesFocus(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.viewport().setAutoFillBackground(False)
        self.document().setDocumentMargin(4)
        self.document().documentLayout().documentSizeChanged.connect(self._grow)
        self._grow()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Invite in as many words as stand on one line."""
        super().resizeEvent(event)
        room = self.viewport().width() - 2 * self.document().documentMargin()
        width = self.fontMetrics().horizontalAdvance
        fitting = (text for text in _INVITATIONS if width(text) <= room)
        self.setPlaceholderText(next(fitting, _INVITATIONS[-1]))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if enter and not event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            self.submitted.emit()
        elif event.key() in _PAGES and not event.modifiers():
            self.paged.emit(_PAGES[Qt.Key(event.key())])
        elif event.key() == Qt.Key.Key_Up and not event.modifiers() and self.document().isEmpty():
            self.recalled.emit()
        else:
            super().keyPressEvent(event)

    def canInsertFromMimeData(self, source: QMimeData) -> bool:
        return source.hasUrls() or source.hasImage() or source.hasHtml() or super().canInsertFromMimeData(source)

    def insertFromMimeData(self, source: QMimeData) -> None:
        found = drop.read(source, text_first=True)
        if found.text and not found.long:
            self.insertPlainText(found.text)
        else:
            self.brought.emit(found)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.focused.emit()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.focused.emit()

    def limit(self, lines: int) -> None:
        """Grow to no more than so many lines; the rest is scrolled to."""
        self._most = lines
        self._grow()

    def _grow(self) -> None:
        lines = max(1, min(int(self.document().size().height()), self._most))
        self.setFixedHeight(lines * self.fontMetrics().lineSpacing() + 10)
        all_shown = self.document().size().height() <= self._most
        policy = Qt.ScrollBarPolicy.ScrollBarAlwaysOff if all_shown else Qt.ScrollBarPolicy.ScrollBarAsNeeded
        self.setVerticalScrollBarPolicy(policy)


def paint_outline(widget: QWidget, field: Field) -> None:
    """Draw the surface around a field; its line is the field's focus ring."""
    painter = QPainter(widget)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    lit = field.hasFocus()
    painter.setPen(QPen(color("accent" if lit else "control_line"), 1.5 if lit else 1))
    painter.setBrush(color("raised"))
    painter.drawRoundedRect(QRectF(widget.rect()).adjusted(1, 1, -1, -1), 12, 12)
