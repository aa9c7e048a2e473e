"""A model's words as a column of pieces: finished ones stay as they are, and only the last is drawn while it grows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.views import code, latex, markdown
from app.views.pace import SLICE_S
from app.views.text import TextView
from app.views.theme import TEXT_PX

_WINDOW_CHARS = 3000


class Prose(QWidget):
    """Markdown that may be long and may grow; what takes longer than a slice of time is left to `work`.

    Signals:
        pieced: pieces came or went.

    Attributes:
        pieces: of text, from top to bottom.
    """

    pieced = Signal()

    def __init__(
        self,
        name: str,
        adopt: Callable[[TextView], TextView],
        parent: QWidget | None = None,
        *,
        px: int = TEXT_PX,
        ink: str = "text",
    ) -> None:
        super().__init__(parent)
        self.pieces: list[TextView] = []
        self._name, self._adopt, self._px, self._ink = name, adopt, px, ink
        self._text, self._live, self._grew = "", False, False
        self._settled, self._head = 0, ""
        self._sealed: list[markdown.Piece] = []
        self._searched = 0
        self._behind = False
        self._stale: dict[TextView, None] = {}
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(0)

    @property
    def waits(self) -> bool:
        """Whether there is something left to draw."""
        return self._behind or bool(self._stale)

    def show_text(self, text: str, *, live: bool) -> None:
        """Show the words as they are now; ``live``: more will be added to them."""
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")  # as Markdown reads it: all that counts lines agrees
        if text == self._text and live == self._live:
            return
        if not text.startswith(self._text[: self._settled]):
            self._settled, self._head, self._sealed, self._searched = 0, "", [], 0
        self._text, self._live = text, live
        self._grew = self._grew or live
        self._advance(time.perf_counter() + SLICE_S)

    def work(self, until: float) -> None:
        """Draw some of what is left, up to a moment of the performance counter, and at least a piece of it."""
        if self._behind:
            self._advance(until)
        while self._stale:
            self._stale.popitem()[0].restyle()
            if time.perf_counter() > until:
                return

    def restyle(self) -> None:
        """Take the colours and the size of text in force now: at once where it is seen, else later."""
        seen = [piece for piece in self.pieces if not piece.visibleRegion().isEmpty()]
        self._stale = dict.fromkeys(piece for piece in self.pieces if piece not in seen)
        for piece in seen:
            piece.restyle()

    def take(self, formulas: Iterable[latex.Formula]) -> None:
        """Formulas were set: draw them later."""
        wanted = tuple(formulas)
        self._stale.update((piece, None) for piece in self.pieces if any(map(piece.awaits, wanted)))

    def colour(self, block: code.Block) -> None:
        """Pass on that a code block has its colours."""
        for piece in self.pieces:
            piece.colour(block)

    def _advance(self, until: float) -> None:
        """Seal the blocks that are finished and draw the rest, so that the cost does not grow with the answer."""
        span = len(self._text) if self._goes_on_with_code() else _WINDOW_CHARS
        while self._settled + span < len(self._text):
            found = markdown.cut(self._text[self._settled : self._settled + span], self._head)
            if not found.offset:
                span *= 2  # one block is longer than that
                continue
            self._seal(found)
            span = _WINDOW_CHARS
            self._draw([*self._sealed])
            if time.perf_counter() > until:
                self._behind = True
                return
        self._behind = False
        if not self._goes_on_with_code():
            self._seal(markdown.cut(self._text[self._settled :], self._head))
        rest = self._text[self._settled :]
        tail = [markdown.Piece(rest, self._head)] if rest else []
        # What has grown keeps its pieces: nothing is drawn again at the end.
        self._draw([*self._sealed, *tail] if self._grew else markdown.join([*self._sealed, *tail]))

    def _seal(self, found: markdown.Cut) -> None:
        self._sealed = markdown.join([*self._sealed, *found.finished])
        self._settled += found.offset
        self._head = found.head

    def _goes_on_with_code(self) -> bool:
        """Whether the rest is one block of code without its end so far, and not too long to stay one text."""
        if len(self._text) - self._settled > code.MAX_CHARS:
            return False
        searched = max(self._searched, self._settled)
        place = markdown.code_end(self._text, self._settled, searched)
        if place is None:
            self._searched = self._text.rfind("\n", searched) + 1 or searched
        return place is None

    def _draw(self, texts: list[markdown.Piece]) -> None:
        while len(self.pieces) > len(texts):
            piece = self.pieces.pop()
            self._stale.pop(piece, None)
            piece.hide()
            piece.deleteLater()
            self.pieced.emit()
        while len(self.pieces) < len(texts):
            piece = self._adopt(TextView(self._name, self, px=self._px, ink=self._ink))
            self.pieces.append(piece)
            self._column.addWidget(piece)
            self.pieced.emit()
        for number, (piece, text) in enumerate(zip(self.pieces, texts, strict=True)):
            last = number == len(texts) - 1
            before = self.pieces[number - 1] if text.head else None
            piece.adjoin(before, goes_on=not last and bool(texts[number + 1].head))
            piece.show_markdown(text, finished=not (self._live and last))
            piece.caret(self._live and last)
