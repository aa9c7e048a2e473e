"""A piece of a message: rich text as tall as its content, selectable, with painted code surfaces and caret."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QRectF, Qt, QTimer, QUrl
from PySide6.QtGui import (
    QDesktopServices,
    QFocusEvent,
    QGuiApplication,
    QPainter,
    QPaintEvent,
    QPen,
    QTextBlockFormat,
    QTextCursor,
    QTextOption,
    QTextTable,
    QWheelEvent,
)
from PySide6.QtWidgets import QFrame, QSizePolicy, QTextBrowser, QWidget

from app.views import code, markdown
from app.views.theme import TEXT_PX, color, line_height, set_font, tokens

_OPENED = ("http", "https", "mailto")
_PULSE_MS = 500
_LINES_MEASURED, _CHARS_MEASURED = 200, 400


class TextView(QTextBrowser):
    """Text without scroll bars; its height follows the document."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(name)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        set_font(self, TEXT_PX)
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
        self._pulse = QTimer(self, interval=_PULSE_MS)
        self._pulse.timeout.connect(self._beat)
        self._shown: tuple[str, bool] | None = None
        self._blocks: tuple[code.Block, ...] = ()

    def show_plain(self, text: str) -> None:
        """Show a person's words exactly as they were typed."""
        if self._shown != (text, False):
            self._shown = (text, False)
            self.setPlainText(text)
            whole = QTextCursor(self.document())
            whole.select(QTextCursor.SelectionType.Document)
            spaced = QTextBlockFormat()
            spaced.setLineHeight(line_height(self.font()), QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
            whole.mergeBlockFormat(spaced)

    def show_markdown(self, text: str) -> None:
        """Show a model's words."""
        before, self._shown = self._shown, (text, True)
        if before == self._shown:
            return
        growth = markdown.code_growth(before[0], text) if before and before[1] else None
        if growth:
            self._grow(*growth)
        else:
            self._render()

    def restyle(self) -> None:
        """Draw again in the colours in force now."""
        if self._shown and self._shown[1]:
            self._render()
        else:
            self.viewport().update()

    def colour(self, block: code.Block) -> None:
        """Colours of a code block arrived; draw again if it is one of ours."""
        if block in self._blocks:
            self._render()

    def caret(self, on: bool) -> None:
        """Show the caret of an answer that is being written behind the last word."""
        if on != self._pulse.isActive():
            self._pulse.start() if on else self._pulse.stop()
            self._ink = 1.0
            self.viewport().update()

    def natural_width(self) -> int:
        """The width at which no line of the text wraps, px."""
        metrics = self.fontMetrics()
        lines = self.toPlainText().split("\n", _LINES_MEASURED)
        return max(metrics.horizontalAdvance(line[:_CHARS_MEASURED]) for line in lines) + 2

    def _render(self) -> None:
        if not self._shown:
            return
        rendered = markdown.render(self._shown[0], tokens())
        self._blocks = rendered.blocks
        self.document().setDefaultStyleSheet(markdown.style(tokens(), self.font()))
        self.setHtml(rendered.html.rstrip())  # a line break at the end would be drawn as a space
        self._close_up()

    def _grow(self, block: code.Block, added: str) -> None:
        """Append to the one code block there is: drawing a long one anew for each output would cost too much."""
        self._blocks = (block,)
        table = next(frame for frame in self.document().rootFrame().childFrames() if isinstance(frame, QTextTable))
        table.cellAt(0, 0).lastCursorPosition().insertText(added)

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
            QGuiApplication.clipboard().setText(self._blocks[int(link.path())].text)
        elif link.scheme() in _OPENED:
            QDesktopServices.openUrl(link)

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._blocks:
            self._paint_surfaces(event)
        super().paintEvent(event)
        painter = QPainter(self.viewport())
        if self._pulse.isActive():
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
        layout = self.document().documentLayout()
        for frame in self.document().rootFrame().childFrames():
            if isinstance(frame, QTextTable) and frame.columns() == 1:
                # Qt reports a table's place moved by its first cell's padding, and its size with its margins.
                inset, margins = markdown.CODE_PX, markdown.CODE_TOP_PX + markdown.CODE_BOTTOM_PX
                place = layout.frameBoundingRect(frame).translated(-inset, -inset).adjusted(0, 0, 0, -margins)
                if place.intersects(QRectF(event.rect())):
                    painter.drawRoundedRect(place.adjusted(0.5, 0.5, -0.5, -0.5), 8, 8)

    def focusInEvent(self, event: QFocusEvent) -> None:
        self._tabbed = event.reason() in (Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason)
        super().focusInEvent(event)

    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()  # the transcript scrolls, not a piece of it

    def loadResource(self, kind: int, name: QUrl | str) -> Any:
        return None  # an answer must not make the app read or fetch anything
