"""A person's turn: a bubble at the right edge of the column, its pictures above the words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QMenu, QWidget

from app.views.message import Message
from app.views.pictures import Pictures
from app.views.question_editor import QuestionEditor
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
    """A person's turn at the right edge of the column, its pictures above the words; they can be changed in place."""

    noun = "wording"

    def __init__(self, turn: Turn, parent: QWidget | None = None) -> None:
        super().__init__(turn, parent, right=True)
        self.setAccessibleName("Your message")
        self._editor: QuestionEditor | None = None
        self._pictures: list[QWidget] = []
        self._edit = self.action("edit", "Edit and send again", self.edit)
        self._fork = self.action("fork", "Fork into a new tab", lambda: self.forked.emit(self.turn.id))
        self._bubble = Bubble(self)
        self.adopt(self._bubble.text)
        if turn.attachments:
            pictures = Pictures(turn.attachments, self)
            pictures.opened.connect(self.viewed)
            self._pictures += pictures.stops
            self.column.addWidget(pictures)
            self.column.addSpacing(8)
        self.column.addWidget(self._bubble, alignment=Qt.AlignmentFlag.AlignRight)
        self.column.addWidget(self.footer)
        self.show_offers()
        self.refresh("")

    def views(self) -> list[TextView]:
        return [self._bubble.text]

    def stops(self) -> list[QWidget]:
        return [*self._pictures, *super().stops()]

    def show_offers(self) -> None:
        self._edit.setVisible(self.offers.edit)
        self._fork.setVisible(self.offers.fork)
        if not self.offers.edit:
            self._leave()

    def fill_menu(self, menu: QMenu) -> None:
        if self.offers.edit:
            menu.addAction("Edit and send again", self.edit)

    def edit(self) -> None:
        """Let the words be changed in place; what is attached stays."""
        if not self.offers.edit or self._editor is not None:
            return
        count = len(self.turn.attachments)
        keeps = "" if not count else "The attachment stays" if count == 1 else f"All {count} attachments stay"
        self._editor = editor = QuestionEditor(self.turn.text, keeps, self)
        self.column.insertWidget(self.column.indexOf(self._bubble), editor)
        editor.sent.connect(self._resend)
        editor.left.connect(self._leave)
        self._bubble.hide()
        self.footer.hide()
        editor.field.setFocus()

    def _resend(self, text: str) -> None:
        changed = text.strip() != self.turn.text.strip()
        if changed and not text.strip() and not self.turn.attachments:
            return
        self._leave()
        if changed:
            self.edited.emit(self.turn.id, text)

    def _leave(self) -> None:
        editor, self._editor = self._editor, None
        if editor is None:
            return
        had_focus = editor.isAncestorOf(self.focusWidget() or self)
        editor.hide()
        editor.deleteLater()
        self._bubble.setVisible(bool(self.turn.text))
        self.footer.show()
        if had_focus:
            self._edit.setFocus()

    def refresh(self, activity: str) -> None:
        text = self.turn.text
        self._bubble.setVisible(bool(text) and self._editor is None)
        self._bubble.text.show_plain(text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]} …")
        cut = f"Shows the first {SHOWN_CHARS:,} of {len(text):,} characters" if len(text) > SHOWN_CHARS else ""
        self.footer.say(activity if self.turn.state == "queued" else cut)

    def fit(self, width: int) -> None:
        """Follow the column's width, px."""
        self._bubble.limit(int(width * _BUBBLE))
