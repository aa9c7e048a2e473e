"""Colours for finished code blocks: lexed once, off the GUI thread, kept by content."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from html import escape
from typing import Any

from PySide6.QtCore import QObject, QThreadPool, Signal

from app.views.theme import Tokens

MAX_CHARS = 10_000
_KEPT = 256
Spans = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced piece of code."""

    language: str
    text: str


class Highlighter(QObject):
    """Lexes code in the thread pool, because 4,000 characters take some 30 ms.

    Signals:
        ready: a block that was drawn plain has its colours now.
    """

    ready = Signal(Block)
    _lexed = Signal(Block, tuple)

    def __init__(self) -> None:
        super().__init__()
        self._spans: OrderedDict[Block, Spans] = OrderedDict()
        self._pending: set[Block] = set()
        self._lexed.connect(self._keep)

    def spans(self, block: Block) -> Spans | None:
        """The block as (token name, text) pieces, or None while it is being lexed or cannot be."""
        found = self._spans.get(block)
        if found is not None:
            self._spans.move_to_end(block)
        elif block.language and len(block.text) <= MAX_CHARS and block not in self._pending:
            self._pending.add(block)
            QThreadPool.globalInstance().start(lambda: self._lexed.emit(block, _lex(block)))
        return found

    def _keep(self, block: Block, spans: Spans) -> None:
        self._pending.discard(block)
        self._spans[block] = spans
        while len(self._spans) > _KEPT:
            self._spans.popitem(last=False)
        if spans:
            self.ready.emit(block)


highlighter = Highlighter()


def html(block: Block, tokens: Tokens) -> str:
    """The block's text as escaped HTML, in colour when its spans are known."""
    spans = highlighter.spans(block)
    if not spans:
        return escape(block.text)
    return "".join(_coloured(name, text, tokens) for name, text in spans)


def _coloured(name: str, text: str, tokens: Tokens) -> str:
    return f'<span style="color:{getattr(tokens, name)}">{escape(text)}</span>' if name else escape(text)


def warm_up() -> None:
    """Import the lexers' machinery."""
    _lex(Block("python", "pass"))


def _lex(block: Block) -> Spans:
    """Pieces of a block; empty for a language nobody knows."""
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        lexer = get_lexer_by_name(block.language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return ()
    merged: list[tuple[str, str]] = []
    for kind, text in lexer.get_tokens(block.text):
        name = _name(kind)
        if merged and merged[-1][0] == name:
            merged[-1] = (name, merged[-1][1] + text)
        else:
            merged.append((name, text))
    return tuple(merged)


def _name(kind: Any) -> str:
    """Which of our colours a Pygments token type gets."""
    from pygments.token import Token

    families = (
        (Token.Comment, "muted"),
        (Token.Keyword, "keyword"),
        (Token.Operator.Word, "keyword"),
        (Token.Literal.String, "string"),
        (Token.Literal.Number, "number"),
        (Token.Name.Function, "function"),
        (Token.Name.Class, "function"),
        (Token.Name.Tag, "keyword"),
        (Token.Name.Builtin, "function"),
    )
    return next((name for family, name in families if kind in family), "")
