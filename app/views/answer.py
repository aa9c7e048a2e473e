"""A model's turn: Markdown that grows while it is written, what it cost, or why it failed."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QMenu, QPushButton, QWidget

from app.views import code, latex
from app.views.facts import facts_line, facts_sheet
from app.views.message import Message
from app.views.prose import Prose
from app.views.text import TextView
from app.views.theme import color, set_font
from app.views.thinking import Thinking

if TYPE_CHECKING:
    from app.state.conversation import Turn


_ENDINGS = {"stopped": "Stopped", "cut": "Interrupted"}


class Trouble(QWidget):
    """Why an answer failed, and the way out."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.text = TextView("What went wrong", self)
        set_font(self.text, 13)
        self.again = QPushButton("Try again", self)
        row = QHBoxLayout(self)
        row.setContentsMargins(16, 12, 12, 10)
        row.setSpacing(16)
        row.addWidget(self.text, 1, Qt.AlignmentFlag.AlignVCenter)
        row.addWidget(self.again)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(color("error", 0.4))
        painter.setBrush(color("error_surface"))
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 8, 8)


class Answer(Message):
    """A model's answer. While it is written, only what is not finished yet is drawn again."""

    def __init__(self, turn: Turn, parent: QWidget | None = None) -> None:
        super().__init__(turn, parent, right=False)
        self.setAccessibleName("Answer")
        self._thinking: Thinking | None = None
        self._prose = Prose("Answer text", self.adopt, self)
        self._prose.pieced.connect(self._chain)
        self._trouble: Trouble | None = None
        self._resume = QPushButton("Continue", self)
        self._resume.setObjectName("link")
        self._resume.setAccessibleName("Continue the answer")
        self._resume.clicked.connect(lambda: self.resumed.emit(self.turn.id))
        self.footer.lead(self._resume)
        self._again = self.action("retry", "Answer again", lambda: self.retry.emit(self.turn.id))
        self._fork = self.action("fork", "Fork into a new tab", lambda: self.forked.emit(self.turn.id))
        self.column.addWidget(self._prose)
        self.column.addWidget(self.footer)
        self.show_offers()
        self.refresh("")

    def views(self) -> list[TextView]:
        thoughts = self._thinking.prose.pieces if self._thinking else []
        return [*thoughts, *self._prose.pieces]

    def stops(self) -> list[QWidget]:
        trouble: list[QWidget] = [self._trouble.text, self._trouble.again] if self._trouble else []
        thoughts = self._thinking.stops() if self._thinking else []
        return [*thoughts, *self._prose.pieces, *trouble, self._resume, *self.footer.stops()]

    def refresh(self, activity: str) -> None:
        live = self.turn.state in ("live", "queued")
        self._show_thoughts(live=live and not self.turn.text)
        self._prose.show_text(self.turn.text, live=live)
        self._explain()
        facts = self.turn.facts
        self.footer.say(self._line(activity if live else ""), facts_sheet(facts) if facts and not live else "")

    @property
    def waits(self) -> bool:
        return any(prose.waits for prose in self._proses())

    def work(self, until: float) -> None:
        for prose in self._proses():
            if prose.waits:
                prose.work(until)
                return

    def restyle(self) -> None:
        for prose in self._proses():
            prose.restyle()
        if self._trouble is not None:
            self._trouble.text.restyle()

    def colour(self, block: code.Block) -> None:
        for prose in self._proses():
            prose.colour(block)

    def take(self, formulas: frozenset[latex.Formula]) -> None:
        for prose in self._proses():
            prose.take(formulas)

    def _proses(self) -> list[Prose]:
        return [self._prose, *([self._thinking.prose] if self._thinking else [])]

    def _show_thoughts(self, *, live: bool) -> None:
        if self._thinking is None and self.turn.reasoning:
            self._thinking = Thinking(self.adopt, self)
            self._thinking.changed.connect(self._chain)
            self._thinking.changed.connect(self.working)
            self.column.insertWidget(0, self._thinking)
            self._chain()
        if self._thinking is not None:
            facts = self.turn.facts
            self._thinking.show_thoughts(self.turn.reasoning, facts.thinking_s if facts else None, live=live)

    def show_offers(self) -> None:
        self._resume.setVisible(self.offers.resume)
        self._again.setVisible(self.offers.again)
        self._fork.setVisible(self.offers.fork)
        if self._trouble is not None:
            self._trouble.again.setVisible(self.offers.again)

    def fill_menu(self, menu: QMenu) -> None:
        if self.offers.resume:
            menu.addAction("Continue the answer", lambda: self.resumed.emit(self.turn.id))
        if self.offers.again:
            menu.addAction("Answer again", lambda: self.retry.emit(self.turn.id))

    def _chain(self) -> None:
        for before, after in itertools.pairwise(self.stops()):
            QWidget.setTabOrder(before, after)

    def _explain(self) -> None:
        failed = self.turn.state == "failed"
        if failed and self._trouble is None:
            self._trouble = Trouble(self)
            self._trouble.again.clicked.connect(lambda: self.retry.emit(self.turn.id))
            self._trouble.again.setVisible(self.offers.again)
            self.column.insertWidget(self.column.count() - 1, self._trouble)
            self._chain()
        if self._trouble is not None:
            self._trouble.setVisible(failed)
            self._trouble.text.show_plain(self.turn.error or "")

    def _line(self, activity: str) -> str:
        turn = self.turn
        if turn.state in ("live", "queued"):
            return activity[:1].upper() + activity[1:]
        facts = facts_line(turn.facts) if turn.facts and turn.facts.completion_tokens else ""
        ended = (turn.state in _ENDINGS and turn.error) or _ENDINGS.get(turn.state, "")
        said = "Reached the length limit" if turn.at_limit else ended
        return " · ".join(part for part in (said, facts) if part)
