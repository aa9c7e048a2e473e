"""One attachment in the composer: thumbnail, name, what it costs or what is wrong, and a way to remove it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent, QPixmap
from PySide6.QtWidgets import QHBoxLayout, QWidget

from app.views.buttons import IconButton
from app.views.icons import icon
from app.views.pictures import paint_rounded, pixmap
from app.views.theme import SMALL_PX, UI_PX, color, ui_font

if TYPE_CHECKING:
    from app.state.composer import Chip

_SIZE = QSize(224, 56)


class ChipView(QWidget):
    """A chip.

    Signals:
        removed: the person took it out (its id).
    """

    removed = Signal(str)

    def __init__(self, chip: Chip, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFixedSize(_SIZE)
        self._chip = chip
        self.remove = IconButton("close", f"Remove {chip.name}", self)
        self.remove.setIconSize(QSize(12, 12))
        self.remove.clicked.connect(lambda: self.removed.emit(self._chip.id))
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 8, 0)
        row.addStretch(1)
        row.addWidget(self.remove)
        self._pixmap = QPixmap()
        self.show_chip(chip)

    @property
    def failed(self) -> bool:
        """Whether what is drawn could not be read."""
        return self._chip.state == "failed"

    def show_chip(self, chip: Chip) -> None:
        """Draw the chip as it is now."""
        self._chip = chip
        if chip.attachment is not None and self._pixmap.isNull():
            self._pixmap = pixmap(chip.attachment.thumbnail)
        self.setAccessibleName(f"{chip.name}: {self._facts()}")
        note = chip.attachment.note if chip.attachment else None
        self.setToolTip("\n".join(part for part in (chip.name, note or self._facts()) if part))
        self.update()

    def _facts(self) -> str:
        if self._chip.state == "reading":
            return "Reading …"
        if self._chip.attachment is None:
            return self._chip.error or "Could not be read"
        found = self._chip.attachment
        cost = f" · {found.tokens} tokens" if found.tokens is not None else ""
        return f"{found.width} × {found.height}{cost}"

    def paintEvent(self, event: QPaintEvent) -> None:
        failed = self._chip.state == "failed"
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(color("error", 0.5) if failed else color("line"))
        painter.setBrush(color("error_surface" if failed else "side"))
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 10, 10)
        square = QRectF(8, 8, 40, 40)
        if self._pixmap.isNull():
            icon("warning" if failed else "image", "error" if failed else "muted").paint(
                painter, square.adjusted(12, 12, -12, -12).toRect()
            )
        else:
            paint_rounded(painter, square, self._pixmap, 6)
        self._words(painter, failed)

    def _words(self, painter: QPainter, failed: bool) -> None:
        room = self.width() - 56 - 36
        for font, name, text, top in (
            (ui_font(UI_PX), "text", self._chip.name, 10),
            (ui_font(SMALL_PX), "error" if failed else "muted", self._facts(), 29),
        ):
            painter.setFont(font)
            painter.setPen(color(name))
            shown = painter.fontMetrics().elidedText(
                text, Qt.TextElideMode.ElideMiddle if top == 10 else Qt.TextElideMode.ElideRight, room
            )
            painter.drawText(QRectF(56, top, room, 18), Qt.AlignmentFlag.AlignVCenter, shown)
