"""One turn in the transcript: a person's bubble or a model's answer with its facts and actions."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QPoint, QRectF, Qt, QTimer, Signal
from PySide6.QtGui import QEnterEvent, QGuiApplication, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QMenu, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from app.views import code, markdown
from app.views.buttons import QuietButton
from app.views.pictures import Pictures
from app.views.text import TextView
from app.views.theme import color, ui_font

if TYPE_CHECKING:
    from app.state.conversation import AnswerFacts, Turn

_COPIED_MS = 1500
_BUBBLE = 0.8
SHOWN_CHARS = 20_000


def facts_line(facts: AnswerFacts) -> str:
    """What an answer cost, in words and units."""
    parts = [f"{facts.completion_tokens} token{'' if facts.completion_tokens == 1 else 's'}"]
    if facts.tokens_per_second is not None:
        parts.append(f"{_figures(facts.tokens_per_second)} tok/s")
    if facts.ttft_s is not None:
        parts.append(f"{_figures(facts.ttft_s)} s to first token")
    if facts.cached_tokens:
        reused = round(100 * facts.cached_tokens / facts.prompt_tokens)
        parts.append(f"{reused} % of {facts.prompt_tokens} prompt tokens reused")
    elif facts.prompt_tokens:
        parts.append(f"{facts.prompt_tokens} prompt tokens")
    return " · ".join(parts)


def _figures(value: float) -> str:
    """At most three significant digits, never an exponent."""
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"


class Footer(QWidget):
    """The line under a message: what it cost or what is happening, and its actions."""

    def __init__(self, parent: QWidget | None = None, *, right: bool = False) -> None:
        super().__init__(parent)
        self.setFixedHeight(28)
        self.label = QLabel(self)
        self.label.setObjectName("muted")
        self.label.setFont(ui_font(12))
        self.label.setTextFormat(Qt.TextFormat.PlainText)
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.setSpacing(4)
        self.buttons: list[QuietButton] = []
        self._row.addWidget(self.label, 1)
        self.label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        if right:
            self.label.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)

    def add(self, button: QuietButton) -> None:
        """Append an action."""
        self.buttons.append(button)
        self._row.addWidget(button)

    def say(self, text: str) -> None:
        """Show one line; nothing is laid out again when it has not changed."""
        if text != self.label.text():
            self.label.setText(text)

    def show_ink(self, shown: bool) -> None:
        """Draw the actions or leave their places empty."""
        for button in self.buttons:
            button.show_ink(shown)


class Message(QWidget):
    """What both kinds share: text views, actions on hover and in the context menu.

    Signals:
        retry: the person wants this answer made again (its turn's id).
    """

    retry = Signal(str)

    def __init__(self, turn: Turn, parent: QWidget | None = None, *, right: bool) -> None:
        super().__init__(parent)
        self.turn = turn
        self.column = QVBoxLayout(self)
        self.column.setContentsMargins(0, 0, 0, 0)
        self.column.setSpacing(0)
        self.footer = Footer(self, right=right)
        self._copy = QuietButton("copy", "Copy message", self)
        self._copy.clicked.connect(self.copy_text)
        self.footer.add(self._copy)

    def copy_text(self) -> None:
        """Put the turn's text on the clipboard and say so for a moment."""
        QGuiApplication.clipboard().setText(self.turn.text)
        self._copy.picture("check", "accent")
        QTimer.singleShot(_COPIED_MS, self._copy, lambda: self._copy.picture("copy", "muted"))

    def views(self) -> list[TextView]:
        """The pieces of text, from top to bottom."""
        raise NotImplementedError

    def stops(self) -> list[QWidget]:
        """What Tab visits, in order."""
        return [*self.views(), *self.footer.buttons]

    def refresh(self, activity: str) -> None:
        """Draw the turn as it is now; ``activity`` says what the engine does for it."""
        raise NotImplementedError

    def restyle(self) -> None:
        """Draw again in the colours in force now."""
        for view in self.views():
            view.restyle()

    def colour(self, block: code.Block) -> None:
        """Pass on that a code block has its colours."""
        for view in self.views():
            view.colour(block)

    def menu_at(self, view: TextView, place: QPoint) -> None:
        """Open the context menu."""
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        if view.textCursor().hasSelection():
            menu.addAction("Copy selection", view.copy)
        menu.addAction("Copy message", self.copy_text)
        menu.addAction("Select all", view.selectAll)
        self.fill_menu(menu)
        menu.popup(view.viewport().mapToGlobal(place))

    def fill_menu(self, menu: QMenu) -> None:
        """Add what only this kind of message offers."""

    def adopt(self, view: TextView) -> TextView:
        """Give a new piece of text our context menu."""
        view.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        view.customContextMenuRequested.connect(lambda place: self.menu_at(view, place))
        return view

    def enterEvent(self, event: QEnterEvent) -> None:
        self.footer.show_ink(True)
        super().enterEvent(event)

    def leaveEvent(self, event: QEvent) -> None:
        self.footer.show_ink(False)
        super().leaveEvent(event)


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


class UserMessage(Message):
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


class Trouble(QWidget):
    """Why an answer failed, and the way out."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.text = TextView("What went wrong", self)
        self.text.setFont(ui_font(13))
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


_ENDINGS = {"stopped": "Stopped", "cut": "Cut at the length limit"}


class AssistantMessage(Message):
    """A model's answer. While it is written, only what is not finished yet is drawn again."""

    def __init__(self, turn: Turn, parent: QWidget | None = None) -> None:
        super().__init__(turn, parent, right=False)
        self.setAccessibleName("Answer")
        self._pieces: list[TextView] = []
        self._settled = 0
        self._sealed: list[str] = []
        self._trouble: Trouble | None = None
        self._newest = True
        self._again = QuietButton("retry", "Answer again", self)
        self._again.clicked.connect(lambda: self.retry.emit(self.turn.id))
        self.footer.add(self._again)
        self.column.addWidget(self.footer)
        self.refresh("")

    def views(self) -> list[TextView]:
        return self._pieces

    def stops(self) -> list[QWidget]:
        trouble: list[QWidget] = [self._trouble.text, self._trouble.again] if self._trouble else []
        return [*self._pieces, *trouble, *self.footer.buttons]

    def refresh(self, activity: str) -> None:
        live = self.turn.state in ("live", "queued")
        if live:
            self._grow()
        else:
            self._show([*markdown.segments(self.turn.text)] if self.turn.text else [])
        for piece in self._pieces:
            piece.caret(live and piece is self._pieces[-1])
        self._explain()
        self._offer()
        self.footer.say(self._line(activity if live else ""))

    def newest(self, newest: bool) -> None:
        """Only the newest answer can be made again."""
        self._newest = newest
        self._offer()

    def _offer(self) -> None:
        again = self._newest and self.turn.state not in ("live", "queued")
        self._again.setVisible(again)
        if self._trouble is not None:
            self._trouble.again.setVisible(again)

    def fill_menu(self, menu: QMenu) -> None:
        if not self._again.isHidden():
            menu.addAction("Answer again", lambda: self.retry.emit(self.turn.id))

    def _grow(self) -> None:
        """Seal the blocks that are finished and draw the rest, so that the cost does not grow with the answer."""
        if self._settled > len(self.turn.text):
            self._settled, self._sealed = 0, []
        found = markdown.cut(self.turn.text[self._settled :])
        self._sealed = markdown.join([*self._sealed, *found.finished])
        self._settled += found.offset
        self._show([*self._sealed, self.turn.text[self._settled :]])

    def _show(self, texts: list[str]) -> None:
        while len(self._pieces) > len(texts):
            piece = self._pieces.pop()
            piece.hide()
            piece.deleteLater()
        while len(self._pieces) < len(texts):
            piece = self.adopt(TextView("Answer text", self))
            self._pieces.append(piece)
            self.column.insertWidget(len(self._pieces) - 1, piece)
            self._chain()
        for piece, text in zip(self._pieces, texts, strict=True):
            piece.show_markdown(text)

    def _chain(self) -> None:
        for before, after in itertools.pairwise(self.stops()):
            QWidget.setTabOrder(before, after)

    def _explain(self) -> None:
        failed = self.turn.state == "failed"
        if failed and self._trouble is None:
            self._trouble = Trouble(self)
            self._trouble.again.clicked.connect(lambda: self.retry.emit(self.turn.id))
            self.column.insertWidget(self.column.count() - 1, self._trouble)
            self._chain()
        if self._trouble is not None:
            self._trouble.setVisible(failed)
            self._trouble.text.show_plain(self.turn.error or "")

    def _line(self, activity: str) -> str:
        facts = facts_line(self.turn.facts) if self.turn.facts and self.turn.facts.completion_tokens else ""
        said = _ENDINGS.get(self.turn.state, activity[:1].upper() + activity[1:])
        return " · ".join(part for part in (said, facts) if part)
