"""A person's turn: a bubble at the right edge of the column, its pictures above the words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QWidget

from app.views.message import Message
from app.views.pictures import Pictures
from app.views.text import TextView
from app.views.theme import color

if TYPE_CHECKING:
    from app.state.conversation import Turn


_BUBBLE = 0.8
SHOWN_CHARS = 20_000


class Bubble(QWidget):
    """The soft surface around a person's words, as wide as they need."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.text = TextView("Your message", self)
        row = QHBoxLayout(self)
        row.setContentsMargins(16, 12, 16, 8)  # lines 1.5 high leave their room below the words
        row.addWidget(self.text)

    def limit(self, width: int) -> None:
        """Take the width the text needs, at most ``width`` px."""
        self.setFixedWidth(max(48, min(width, self.text.natural_width() + 33)))

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(color("bubble"))
        painter.drawRoundedRect(QRectF(self.rect()), 14, 14)


class Question(Message):
    """A person's turn at the right edge of the column, its pictures above the words."""

    def __init__(self, turn: Turn, parent: QWidget | None = None) -> None:
        super().__init__(turn, parent, right=True)
        self.setAccessibleName("Your message")
        self._bubble = Bubble(self)
        self.adopt(self._bubble.text)
        if turn.attachments:
            self.column.addWidget(Pictures(turn.attachments, self))
            self.column.addSpacing(8)
        self.column.addWidget(self._bubble, alignment=Qt.AlignmentFlag.AlignRight)
        self.column.addWidget(self.footer)
        self.refresh("")

    def views(self) -> list[TextView]:
        return [self._bubble.text]

    def refresh(self, activity: str) -> None:
        text = self.turn.text
        self._bubble.setVisible(bool(text))
        self._bubble.text.show_plain(text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]} …")
        cut = f"Shows the first {SHOWN_CHARS:,} of {len(text):,} characters" if len(text) > SHOWN_CHARS else ""
        self.footer.say(activity if self.turn.state == "queued" else cut)

    def fit(self, width: int) -> None:
        """Follow the column's width, px."""
        self._bubble.limit(int(width * _BUBBLE))
