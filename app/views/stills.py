"""A row of small pictures with a label under each: frames of a clip, pages of a document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QImage, QPainter, QPaintEvent
from PySide6.QtWidgets import QFrame, QScrollArea, QWidget

from app.views.theme import SMALL_PX, color, scaled, ui_font

if TYPE_CHECKING:
    from app.state.preview import Still

_GAP_PX = 8


class _Row(QWidget):
    """Draws only the pictures that are seen."""

    def __init__(self, height: int, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._height = height
        self.stills: tuple[Still, ...] = ()
        self._lefts: list[int] = []

    def show_stills(self, stills: Sequence[Still]) -> None:
        self.stills = tuple(stills)
        self._lefts = [0]
        for still in stills:
            self._lefts.append(self._lefts[-1] + self._wide(still) + _GAP_PX)
        self.setFixedSize(self.sizeHint())
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(max(0, self._lefts[-1] - _GAP_PX) if self._lefts else 0, self._height + scaled(18))

    def _wide(self, still: Still) -> int:
        return max(24, round(still.width * self._height / max(still.height, 1)))

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
        painter.setFont(ui_font(SMALL_PX))
        seen = event.rect()
        for still, left in zip(self.stills, self._lefts, strict=False):
            wide = self._wide(still)
            if left > seen.right() or left + wide < seen.left():
                continue
            place = QRectF(left, 0, wide, self._height)
            rgb = QImage(still.rgb, still.width, still.height, 3 * still.width, QImage.Format.Format_RGB888)
            painter.drawImage(place, rgb)
            painter.setPen(color("text", 0.14))
            painter.drawRect(place.adjusted(0.5, 0.5, -0.5, -0.5))
            painter.setPen(color("muted"))
            below = QRectF(left - 8, self._height + 2, wide + 16, scaled(16))
            painter.drawText(below, Qt.AlignmentFlag.AlignCenter, still.label)


class Stills(QScrollArea):
    """Such a row, scrolled sideways."""

    def __init__(self, name: str, height: int, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._row = _Row(height, self)
        self.setAccessibleName(name)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.viewport().setAutoFillBackground(False)
        self.setWidget(self._row)
        self._row.setAutoFillBackground(False)
        self.setFixedHeight(height + scaled(18) + 14)

    @property
    def labels(self) -> tuple[str, ...]:
        """What stands under the pictures."""
        return tuple(still.label for still in self._row.stills)

    def show_stills(self, stills: Sequence[Still]) -> None:
        """Show these."""
        self._row.show_stills(stills)
        described = f"{stills[0].label} to {stills[-1].label}" if stills else "none"
        self.setAccessibleDescription(f"{len(stills)}: {described}")
