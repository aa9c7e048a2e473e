"""Where a question that was sent is put in other words, in its own place."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QRectF, Qt, Signal
from PySide6.QtGui import QKeyEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.views.field import Field
from app.views.theme import color, set_font


class Words(Field):
    """The text field; Escape leaves it.

    Signals:
        left: Escape was pressed.
    """

    left = Signal()

    def event(self, event: QEvent) -> bool:
        """Take Escape before the window's shortcut does."""
        override = event.type() == QEvent.Type.ShortcutOverride
        if override and isinstance(event, QKeyEvent) and event.key() == Qt.Key.Key_Escape:
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.left.emit()
        else:
            super().keyPressEvent(event)


class QuestionEditor(QWidget):
    """A field with the words, and what to do with them.

    Signals:
        sent: ask in these words.
        left: leave the question as it is.
    """

    sent = Signal(str)
    left = Signal()

    def __init__(self, text: str, keeps: str, parent: QWidget | None = None) -> None:
        """Start with `text`; `keeps` says what stays with the question besides its words."""
        super().__init__(parent)
        self.field = Words(self)
        self.field.setAccessibleName("Question in other words")
        self.field.setPlaceholderText("")
        self.field.setPlainText(text)
        self.field.moveCursor(self.field.textCursor().MoveOperation.End)
        self._hint = QLabel(keeps, self)
        self._hint.setObjectName("muted")
        set_font(self._hint, 12)
        self._cancel, self._send = QPushButton("Cancel", self), QPushButton("Send", self)
        self._send.setObjectName("primary")
        below = QHBoxLayout()
        below.setSpacing(8)
        below.addWidget(self._hint, 1)
        below.addWidget(self._cancel)
        below.addWidget(self._send)
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 10, 12, 10)
        column.setSpacing(8)
        column.addWidget(self.field)
        column.addLayout(below)
        self.field.submitted.connect(self._submit)
        self.field.left.connect(self.left)
        self.field.focused.connect(self.update)
        self.field.brought.connect(
            lambda _: self._hint.setText("Only words can be changed. Add media in a new message")
        )
        self._send.clicked.connect(self._submit)
        self._cancel.clicked.connect(self.left)

    def _submit(self) -> None:
        self.sent.emit(self.field.toPlainText())

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        lit = self.field.hasFocus()
        painter.setPen(QPen(color("accent" if lit else "control_line"), 1.5 if lit else 1))
        painter.setBrush(color("raised"))
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), 12, 12)
