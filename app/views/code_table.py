"""Code in a text document: each block is a one-column table, which can grow and take colours without a new layout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QTextCharFormat, QTextCursor, QTextDocument, QTextLayout, QTextTable

from app.views import markdown

if TYPE_CHECKING:
    from app.views.code import Spans
    from app.views.theme import Tokens


def tables(document: QTextDocument) -> list[QTextTable]:
    """The code of a document, from top to bottom."""
    frames = document.rootFrame().childFrames()
    return [frame for frame in frames if isinstance(frame, QTextTable) and frame.columns() == 1]


def append(table: QTextTable, text: str) -> None:
    """Let the code grow."""
    _end(table).insertText(text)


def tint(table: QTextTable, spans: Spans, tokens: Tokens) -> None:
    """Colour the code, which stands in the cell below its bar."""
    text = "".join(piece for _, piece in spans)
    document, start = table.document(), _end(table).position() - len(text.encode("utf-16-le")) // 2
    place = start
    formats: dict[int, list[QTextLayout.FormatRange]] = {}
    for name, piece in spans:
        for line in piece.splitlines(keepends=True) if name else [piece]:
            length = len(line.encode("utf-16-le")) // 2  # how Qt counts characters
            if name:
                block = document.findBlock(place)
                ink = QTextCharFormat()
                ink.setForeground(QColor(getattr(tokens, name)))
                made = QTextLayout.FormatRange()
                made.start, made.length, made.format = place - block.position(), length, ink
                formats.setdefault(block.position(), []).append(made)
            place += length
    for at, ranges in formats.items():
        document.findBlock(at).layout().setFormats(ranges)
    document.markContentsDirty(start, place - start)


def close_up(table: QTextTable) -> None:
    """Let the code reach down to what is below it, where it goes on."""
    cell = table.cellAt(0, 0)
    form = cell.format().toTableCellFormat()
    form.setBottomPadding(0)
    cell.setFormat(form)
    table.document().markContentsDirty(table.firstPosition(), table.lastPosition() - table.firstPosition())


def surface(table: QTextTable, *, above: bool = False, below: bool = False) -> QRectF:
    """Where the surface behind the code lies, px; it reaches out where the code begins or goes on in another text."""
    # Qt reports a table's place moved by its first cell's padding, and its size with its margins.
    inset, top = markdown.CODE_PX, 0 if above else markdown.CODE_PX
    margins = (0 if above else markdown.CODE_TOP_PX) + (0 if below else markdown.CODE_BOTTOM_PX)
    place = table.document().documentLayout().frameBoundingRect(table).translated(-inset, -top)
    return place.adjusted(0, -inset if above else 0, 0, (inset if below else 0) - margins)


def _end(table: QTextTable) -> QTextCursor:
    return table.cellAt(0, 0).lastCursorPosition()
