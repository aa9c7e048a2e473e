"""One attachment in the composer: thumbnail, name, what it costs or what is wrong, and a way to remove it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QFocusEvent, QFontMetrics, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen, QPixmap
from PySide6.QtWidgets import QApplication, QHBoxLayout, QWidget

from app.views.buttons import IconButton
from app.views.icons import icon
from app.views.pictures import paint_rounded
from app.views.theme import SMALL_PX, UI_PX, color, scaled, theme, ui_font
from app.views.thumbnails import loader

if TYPE_CHECKING:
    from app.state.composer import Chip

ICONS = {"image": "image", "video": "clip", "audio": "sound", "pdf": "document", "text": "document"}
_HEIGHT_PX = 56
_WIDTHS_PX = (176, 288)
_TEXT_RIGHT_PX = 36
_STEPS = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}


class ChipView(QWidget):
    """A chip; Enter looks closer, Delete removes, the arrows with Alt move it.

    Signals, each with the chip's id:
        removed: the person took it out.
        opened: the person wants to look closer.
        stepped: the person moves it with the keyboard (-1 to the front, 1 to the end).
        dragged: the pointer carries it (where, in the parent's pixels).
        dropped: it is let go.
    """

    removed = Signal(str)
    opened = Signal(str)
    stepped = Signal(str, int)
    dragged = Signal(str, QPoint)
    dropped = Signal(str)

    def __init__(self, chip: Chip, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._chip = chip
        self._facts, self._unfit, self._opened = "", "", False
        self._pressed: QPoint | None = None
        self._carried = self._asked = False
        self._pixmap = QPixmap()
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.remove = IconButton("close", f"Remove {chip.name}", self)
        self.remove.setIconSize(QSize(12, 12))
        self.remove.clicked.connect(lambda: self.removed.emit(self._chip.id))
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 8, 0)
        row.addStretch(1)
        row.addWidget(self.remove)
        theme.changed.connect(self._fit)
        self._fit()

    def _fit(self) -> None:
        """As wide as the words need, within limits."""
        height = scaled(_HEIGHT_PX)
        words = max(
            QFontMetrics(ui_font(UI_PX)).horizontalAdvance(self._chip.name),
            QFontMetrics(ui_font(SMALL_PX)).horizontalAdvance(self._words()),
        )
        least, most = (scaled(px) for px in _WIDTHS_PX)
        self.setFixedSize(max(least, min(words + height + _TEXT_RIGHT_PX + 4, most)), height)
        self.update()

    @property
    def failed(self) -> bool:
        """Whether what is drawn could not be read."""
        return self._chip.state == "failed"

    def show_chip(self, chip: Chip, facts: str, unfit: str) -> None:
        """Draw the chip as it is now; `unfit` says why the model cannot read it."""
        self._chip, self._facts, self._unfit = chip, facts, unfit
        self.setAccessibleName(f"{chip.name}: {self._words()}")
        note = chip.attachment.note if chip.attachment else None
        lines = (chip.name, note, unfit, self._words() if not unfit else facts)
        self.setToolTip("\n".join(line for line in lines if line))
        self._fit()

    def mark(self, *, opened: bool) -> None:
        """Draw it as the one that is looked at closer, or not."""
        if opened != self._opened:
            self._opened = opened
            self.update()

    def _words(self) -> str:
        if self._chip.state == "reading":
            return "Reading …"
        if self._chip.attachment is None:
            return self._chip.error or "Could not be read"
        if self._unfit:
            return self._unfit
        tokens = self._chip.attachment.tokens
        return self._facts if tokens is None else f"{self._facts} · {tokens:,} tok"

    def _picture(self) -> QPixmap:
        """The thumbnail; asked for when the chip is first drawn with it."""
        if not self._asked and self._chip.attachment is not None:
            self._asked = True
            loader.load(self._chip.attachment.thumbnail, self.height(), self._take)
        return self._pixmap

    def _take(self, picture: QPixmap) -> None:
        self._pixmap = picture
        self.update()

    # Drawing

    def paintEvent(self, event: QPaintEvent) -> None:
        tone = "error" if self.failed else "warning" if self._unfit else ""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        line = color(tone, 0.5) if tone else color("accent" if self._opened else "line")
        painter.setPen(QPen(color("accent"), 2) if self.hasFocus() else line)
        painter.setBrush(color(f"{tone}_surface" if tone else "hover" if self._carried else "side"))
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), 10, 10)
        side = self.height() - 16
        square = QRectF(8, 8, side, side)
        picture, kind = self._picture(), self._chip.attachment.kind if self._chip.attachment else "image"
        if picture.isNull():
            inset = (side - 16) / 2
            icon("warning" if self.failed else ICONS[kind], tone or "muted").paint(
                painter, square.adjusted(inset, inset, -inset, -inset).toRect()
            )
        else:
            paint_rounded(painter, square, picture, 6)
            self._badge(painter, square, kind)
        self._write(painter, tone)

    def _badge(self, painter: QPainter, square: QRectF, kind: str) -> None:
        """Say by a sign which kind it is, where the picture alone does not."""
        if kind == "image":
            return
        place = QRectF(square.right() - 15, square.bottom() - 15, 18, 18)
        painter.setPen(color("line"))
        painter.setBrush(color("raised"))
        painter.drawRoundedRect(place, 5, 5)
        icon(ICONS[kind], "text").paint(painter, place.adjusted(3, 3, -3, -3).toRect())

    def _write(self, painter: QPainter, tone: str) -> None:
        left, room = self.height(), self.width() - self.height() - _TEXT_RIGHT_PX
        half = self.height() / 2
        for font, ink, text, top, elide in (
            (ui_font(UI_PX), "text", self._chip.name, half - scaled(18), Qt.TextElideMode.ElideMiddle),
            (ui_font(SMALL_PX), tone or "muted", self._words(), half + 1, Qt.TextElideMode.ElideRight),
        ):
            painter.setFont(font)
            painter.setPen(color(ink))
            shown = painter.fontMetrics().elidedText(text, elide, room)
            painter.drawText(QRectF(left, top, room, scaled(18)), Qt.AlignmentFlag.AlignVCenter, shown)

    # Keys and pointer

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key, alt = Qt.Key(event.key()), bool(event.modifiers() & Qt.KeyboardModifier.AltModifier)
        if key in _STEPS and alt:
            self.stepped.emit(self._chip.id, _STEPS[key])
        elif key in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace):
            self.removed.emit(self._chip.id)
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space):
            self.opened.emit(self._chip.id)
        else:
            super().keyPressEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self._pressed = event.position().toPoint()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._pressed is None:
            return
        moved = event.position().toPoint() - self._pressed
        if not self._carried and moved.manhattanLength() >= QApplication.startDragDistance():
            self._carried = True
            self.raise_()
            self.update()
        if self._carried:
            self.move(self.pos() + moved)
            self.dragged.emit(self._chip.id, self.mapToParent(event.position().toPoint()))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        pressed, self._pressed = self._pressed, None
        if self._carried:
            self._carried = False
            self.dropped.emit(self._chip.id)
        elif pressed is not None and self.rect().contains(event.position().toPoint()):
            self.opened.emit(self._chip.id)
        self.update()

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.update()
