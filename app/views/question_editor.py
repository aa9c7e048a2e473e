"""Where a question that was sent is put in other words, in its own place."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QKeyEvent, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.views.escape import claims_escape
from app.views.field import Field, paint_outline
from app.views.theme import set_font


class Words(Field):
    """The text field; Escape leaves it.

    Signals:
        left: Escape was pressed.
    """

    left = Signal()

    def event(self, event: QEvent) -> bool:
        """Take Escape before the window's shortcut does."""
        return claims_escape(event) or super().event(event)

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
        paint_outline(self, self.field)
