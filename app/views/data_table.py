"""Tables in an answer: a head that is still being written, and rows that go on in a text of their own."""

from __future__ import annotations

import re

from PySide6.QtGui import QTextDocument, QTextLength, QTextTable

_FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
_HEAD = re.compile(r"(?:\A|\n)(?P<before>[^\n]*\n)?(?P<head>\|[ \t]+\S[^\n]*)(?:\n[ \t]*[|:\- \t]*)?\Z")
_EMPTY_ROW = re.compile(r"(?<=\n)[ \t]*\|[| \t]*\Z")
_BETWEEN_CELLS = re.compile(r"(?<!\\)\|")


def completed(text: str) -> str:
    """Growing Markdown with the second line that its table needs: until it has come, the head would stand as signs.

    A row without a word yet is left out.
    """
    if len(_FENCE.findall(text)) % 2:
        return text
    found = _HEAD.search(text)
    if found is None or (found["before"] or "").lstrip().startswith("|"):
        return _EMPTY_ROW.sub("", text)
    cells = len(_BETWEEN_CELLS.split(found["head"].strip().removeprefix("|").removesuffix("|")))
    return f"{text[: found.end('head')]}\n{'| --- ' * cells}|\n"


def widths(document: QTextDocument) -> list[float]:
    """How wide the columns of the last table are, px; none without a table."""
    tables = _tables(document)
    if not tables:
        return []
    table, layout = tables[-1], document.documentLayout()
    firsts = [table.cellAt(0, column).firstCursorPosition().block() for column in range(table.columns())]
    lefts = [layout.blockBoundingRect(block).left() for block in firsts]
    right = lefts[0] + layout.frameBoundingRect(table).width()
    return [after - before for before, after in zip(lefts, [*lefts[1:], right], strict=True)]


def align(document: QTextDocument, columns: list[float]) -> None:
    """Let the first table have columns of these widths, and stand close to what is above it."""
    tables = _tables(document)
    if not (tables and columns):
        return
    table, form = tables[0], tables[0].format()
    constraints = [QTextLength(QTextLength.Type.FixedLength, width) for width in columns[: table.columns()]]
    if form.columnWidthConstraints() != constraints:
        form.setColumnWidthConstraints(constraints)
        form.setTopMargin(0)
        table.setFormat(form)


def close_up(document: QTextDocument) -> None:
    """Let the last table stand close to what is below it."""
    tables = _tables(document)
    form = tables[-1].format() if tables else None
    if form is not None and form.bottomMargin():
        form.setBottomMargin(0)
        tables[-1].setFormat(form)


def _tables(document: QTextDocument) -> list[QTextTable]:
    return [frame for frame in document.rootFrame().childFrames() if isinstance(frame, QTextTable)]
