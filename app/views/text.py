"""A piece of a message: rich text as tall as its content, selectable, with painted code surfaces and caret."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QMimeData, QRectF, Qt, QTimer, QUrl
from PySide6.QtGui import (
    QDesktopServices,
    QFocusEvent,
    QGuiApplication,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
    QTextBlockFormat,
    QTextCursor,
    QTextOption,
    QWheelEvent,
)
from PySide6.QtWidgets import QFrame, QSizePolicy, QTextBrowser, QWidget

from app.views import code, code_table, data_table, latex, markdown, motion
from app.views.theme import COLUMN_PX, TEXT_PX, color, line_height, set_font, tokens

_OPENED = ("http", "https", "mailto")
_PULSE_MS = 500
_LINES_MEASURED, _CHARS_MEASURED = 200, 400
_OBJECT = "\ufffc"
"""What stands for a picture in the text of a document."""


class TextView(QTextBrowser):
    """Text without scroll bars; its height follows the document."""

    def __init__(self, name: str, parent: QWidget | None = None, *, px: int = TEXT_PX, ink: str = "text") -> None:
        super().__init__(parent)
        self._ink_name = ink
        self.setAccessibleName(name)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        set_font(self, px)
        self.setOpenLinks(False)
        self.setAcceptDrops(False)
        self.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        self.setUndoRedoEnabled(False)
        self.viewport().setAutoFillBackground(False)
        document = self.document()
        document.setDocumentMargin(0)
        document.setIndentWidth(24)
        document.documentLayout().documentSizeChanged.connect(self._fit)
        self.anchorClicked.connect(self._open)
        self._tabbed = False
        self._ink = 1.0
        self._live = False
        self._pulse = QTimer(self, interval=_PULSE_MS)
        self._pulse.timeout.connect(self._beat)
        self._shown: str | markdown.Piece | None = None
        self._before: TextView | None = None
        self.after: TextView | None = None
        self._goes_on = False
        self._finished = True
        self._rendered = markdown.Rendered("", ())

    @property
    def inside_code(self) -> bool:
        """Whether it begins with further lines of code."""
        return isinstance(self._shown, markdown.Piece) and self._shown.inside_code

    def show_plain(self, text: str) -> None:
        """Show a person's words exactly as they were typed."""
        if self._shown != text:
            self._shown = text
            self.setPlainText(text)
            self._space()

    def _space(self) -> None:
        whole = QTextCursor(self.document())
        whole.select(QTextCursor.SelectionType.Document)
        spaced = QTextBlockFormat()
        spaced.setLineHeight(line_height(self.font()), QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
        whole.mergeBlockFormat(spaced)

    def show_markdown(self, piece: markdown.Piece, *, finished: bool = True) -> None:
        """Show a model's words; ``finished``: nothing will be added to them."""
        before, self._shown = self._shown, piece
        settles, self._finished = finished and not self._finished, finished
        if before == piece and not (settles and _looked_ahead(piece)):
            return
        growth = markdown.code_growth(before, piece, self.blocks) if isinstance(before, markdown.Piece) else None
        if growth:
            self._grow(growth)
        else:
            self._render()

    def adjoin(self, before: TextView | None, *, goes_on: bool) -> None:
        """Tell which text the table or code at the start comes from, and whether that at the end goes on."""
        stale = before is not self._before or (self._goes_on and not goes_on)
        if before is not self._before:
            if self._before is not None:
                self._before.document().documentLayout().documentSizeChanged.disconnect(self._align)
            if before is not None:
                before.document().documentLayout().documentSizeChanged.connect(self._align)
        if before is not None:
            before.after = self
        if goes_on and not self._goes_on:
            self._reach_down()
        elif not goes_on:
            self.after = None
        self._before, self._goes_on = before, goes_on
        if stale:
            self._render()

    def _align(self) -> None:
        if self._before is not None and not self.inside_code:
            data_table.align(self.document(), data_table.widths(self._before.document()))

    def restyle(self) -> None:
        """Draw again in the colours and the size of text in force now."""
        if isinstance(self._shown, markdown.Piece):
            self._render()
        else:
            self._space()
            self.viewport().update()

    def colour(self, block: code.Block) -> None:
        """Colours of a code block arrived; take them if it is one of ours."""
        if block not in self._rendered.blocks:
            return
        spans, found = code.highlighter.spans(block), code_table.tables(self.document())
        if spans and len(found) == len(self._rendered.blocks):
            for table, mine in zip(found, self._rendered.blocks, strict=True):
                if mine == block:
                    code_table.tint(table, spans, tokens())

    def awaits(self, formula: latex.Formula) -> bool:
        """Whether this formula stands in the text as its source so far."""
        return any(drawn.picture is None and drawn.formula == formula for drawn in self._rendered.formulas)

    def caret(self, on: bool) -> None:
        """Show the caret of an answer that is being written behind the last word."""
        if on != self._live:
            self._live = on
            self._pulse.start() if on and not motion.reduced() else self._pulse.stop()
            self._ink = 1.0
            self.viewport().update()

    def natural_width(self) -> int:
        """The width at which no line of the text wraps, px."""
        metrics = self.fontMetrics()
        lines = self.toPlainText().split("\n", _LINES_MEASURED)
        return max(metrics.horizontalAdvance(line[:_CHARS_MEASURED]) for line in lines) + 2

    def _render(self) -> None:
        if not isinstance(self._shown, markdown.Piece):
            return
        room = self.viewport().width() if self.isVisible() else COLUMN_PX
        look = markdown.Look(self.font(), self._ink_name, room)
        self._rendered = markdown.render(self._shown, tokens(), look, finished=self._finished)
        self.document().setDefaultStyleSheet(markdown.style(tokens(), self.font(), self._ink_name))
        self.setHtml(self._rendered.html.rstrip())  # a line break at the end would be drawn as a space
        self._close_up()
        if self._goes_on:
            self._reach_down()
        self._align()

    def _reach_down(self) -> None:
        """Leave no room under the table or the code at the end, which goes on in the next text."""
        data_table.close_up(self.document())
        if self._rendered.blocks and (found := code_table.tables(self.document())):
            code_table.close_up(found[-1])

    def _grow(self, growth: markdown.Growth) -> None:
        """Append to the one code block there is: drawing a long one anew for each output would cost too much."""
        self._rendered = markdown.Rendered("", (growth.block,))
        table = code_table.tables(self.document())[0]
        if growth.added:
            code_table.append(table, growth.added)
        if growth.closed and not self.inside_code and (spans := code.highlighter.spans(growth.block)):
            code_table.tint(table, spans, tokens())

    def _close_up(self) -> None:
        """Flatten the empty line that Qt keeps under a table at the end."""
        last = QTextCursor(self.document())
        last.movePosition(QTextCursor.MoveOperation.End)
        if not last.block().text() and last.block().previous().isValid():
            flat = last.blockFormat()
            flat.setLineHeight(1, QTextBlockFormat.LineHeightTypes.FixedHeight.value)
            last.setBlockFormat(flat)

    def _fit(self) -> None:
        height = max(int(self.document().size().height() + 0.999), 1)
        if height != self.height():
            self.setFixedHeight(height)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._align()
        width = self.viewport().width()
        pictures = [drawn.picture for drawn in self._rendered.formulas if drawn.picture is not None]
        if any(made.width > width for made in pictures) and width > 0:
            QTimer.singleShot(0, self, self._render)  # formulas shrink to the column

    def _beat(self) -> None:
        if self.isVisible():
            self._ink = 1.3 - self._ink
            self.viewport().update(self._caret_rect().toAlignedRect())

    def _caret_rect(self) -> QRectF:
        end = QTextCursor(self.document())
        end.movePosition(QTextCursor.MoveOperation.End)
        place = self.cursorRect(end)
        return QRectF(place.right() + 2, place.top() + 1, 7, max(place.height() - 2, 12))

    def _open(self, link: QUrl) -> None:
        if link.scheme() == "copy":
            QGuiApplication.clipboard().setText(self._code(int(link.path())))
        elif link.scheme() in _OPENED:
            QDesktopServices.openUrl(link)

    @property
    def blocks(self) -> tuple[code.Block, ...]:
        """The code that is shown, from top to bottom."""
        return self._rendered.blocks

    def _code(self, number: int) -> str:
        """A block of code as a whole, however many texts it goes on in."""
        parts, view = [self.blocks[number].text], self
        last = number == len(self.blocks) - 1
        while last and view.after is not None and view.after.inside_code:
            view = view.after
            parts.append(view.blocks[0].text)
            last = len(view.blocks) == 1
        return "\n".join(parts)

    def createMimeDataFromSelection(self) -> QMimeData:
        """What is copied: formulas as their source between their signs."""
        cursor = self.textCursor()
        if _OBJECT not in cursor.selectedText():
            return super().createMimeDataFromSelection()
        start, end = sorted((cursor.anchor(), cursor.position()))
        before = QTextCursor(self.document())
        before.setPosition(start, QTextCursor.MoveMode.KeepAnchor)
        pictures = [drawn for drawn in self._rendered.formulas if drawn.picture is not None]
        mine = iter(pictures[before.selectedText().count(_OBJECT) :])
        cursor.setPosition(start)
        cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
        words = cursor.selectedText().replace("\u2029", "\n").replace("\u2028", "\n")
        mime = QMimeData()
        mime.setText("".join(_source(next(mine)) if sign == _OBJECT else sign for sign in words))
        return mime

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._rendered.blocks:
            self._paint_surfaces(event)
        super().paintEvent(event)
        painter = QPainter(self.viewport())
        if self._live:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(color("accent", self._ink))
            painter.drawRoundedRect(self._caret_rect(), 1.5, 1.5)
        if self.hasFocus() and self._tabbed:
            painter.setPen(QPen(color("accent"), 1))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(QRectF(self.viewport().rect()).adjusted(0.5, 0.5, -0.5, -0.5), 6, 6)

    def _paint_surfaces(self, event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(color("line"), 1))
        painter.setBrush(color("code"))
        found = code_table.tables(self.document())
        for table in found:
            above = self.inside_code and table == found[0]
            below = self._goes_on and table == found[-1]
            place = code_table.surface(table, above=above, below=below)
            if place.intersects(QRectF(event.rect())):
                painter.drawRoundedRect(place.adjusted(0.5, 0.5, -0.5, -0.5), 8, 8)

    def focusInEvent(self, event: QFocusEvent) -> None:
        self._tabbed = event.reason() in (Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason)
        super().focusInEvent(event)

    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()  # the transcript scrolls, not a piece of it

    def loadResource(self, kind: int, name: QUrl | str) -> Any:
        """Formulas only: an answer must not make the app read or fetch anything."""
        link = QUrl(name)
        if link.scheme() != "formula" or not link.path().isdecimal():
            return None
        number = int(link.path())
        found = self._rendered.formulas[number].picture if number < len(self._rendered.formulas) else None
        return None if found is None else found.image(self.devicePixelRatioF())


def _looked_ahead(piece: markdown.Piece) -> bool:
    """Whether it may look another way once nothing more can come: with a formula, or what seemed to become a table."""
    source = piece.head + piece.text
    return any(sign in source for sign in ("$", "\\(", "\\[")) or data_table.completed(source) != source


def _source(drawn: markdown.Drawn) -> str:
    closing = {"\\(": "\\)", "\\[": "\\]"}.get(drawn.markup, drawn.markup)
    return f"{drawn.markup}{drawn.formula.source}{closing}"
