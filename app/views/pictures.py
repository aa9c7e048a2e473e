"""Pictures as a person sent them: rounded thumbnails, numbered when there are several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QPainter, QPainterPath, QPaintEvent, QPen, QPixmap
from PySide6.QtWidgets import QAbstractButton, QSizePolicy, QWidget

from app.views.flow import Flow
from app.views.theme import SMALL_PX, color, ui_font

if TYPE_CHECKING:
    from app.state.attachment import Attachment

SINGLE_PX = 240
TILE_PX = 144
RADIUS = 10


def pixmap(png: bytes) -> QPixmap:
    """A thumbnail's bytes as something Qt paints."""
    made = QPixmap()
    made.loadFromData(png, "PNG")
    return made


def paint_rounded(painter: QPainter, rect: QRectF, picture: QPixmap, radius: float = RADIUS) -> None:
    """Fill ``rect`` with the middle of the picture, round its corners and outline it."""
    painter.setRenderHints(QPainter.RenderHint.Antialiasing | QPainter.RenderHint.SmoothPixmapTransform)
    shape = QPainterPath()
    shape.addRoundedRect(rect, radius, radius)
    if not picture.isNull():
        painter.save()
        painter.setClipPath(shape)
        painter.drawPixmap(rect, picture, _middle(picture, rect))
        painter.restore()
    painter.setPen(QPen(color("text", 0.14), 1))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.drawRoundedRect(rect.adjusted(0.5, 0.5, -0.5, -0.5), radius, radius)


def _middle(picture: QPixmap, rect: QRectF) -> QRectF:
    scale = min(picture.width() / rect.width(), picture.height() / rect.height())
    wide, high = rect.width() * scale, rect.height() * scale
    return QRectF((picture.width() - wide) / 2, (picture.height() - high) / 2, wide, high)


class Picture(QAbstractButton):
    """One sent picture; a click opens it."""

    def __init__(self, attachment: Attachment, number: int, alone: bool, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._pixmap = pixmap(attachment.thumbnail)
        self._number = 0 if alone else number
        self._size = _fit(attachment.width, attachment.height) if alone else QSize(TILE_PX, TILE_PX)
        self.setFixedSize(self._size)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        described = f"{attachment.name}, {attachment.width} × {attachment.height}"
        self.setAccessibleName(f"Picture {number}: {described}")
        self.setToolTip(f"{described}\n{attachment.note}" if attachment.note else described)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        paint_rounded(painter, QRectF(self.rect()), self._pixmap)
        if self._number:
            self._badge(painter)
        if self.hasFocus():
            painter.setPen(QPen(color("accent"), 2))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), RADIUS, RADIUS)

    def _badge(self, painter: QPainter) -> None:
        place = QRectF(8, 8, 20, 20)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(color("surface"))
        painter.drawEllipse(place)
        painter.setPen(color("text"))
        painter.setFont(ui_font(SMALL_PX, strong=True))
        painter.drawText(place, Qt.AlignmentFlag.AlignCenter, str(self._number))


def _fit(width: int, height: int) -> QSize:
    """The size to show a lone picture in: its own shape, at least as large as a thumb, at most 240 px."""
    longest = max(width, height, 1)
    scale = SINGLE_PX / longest
    return QSize(max(64, round(width * scale)), max(64, round(height * scale)))


class Pictures(QWidget):
    """All pictures of one turn, at the right edge of the column.

    Signals:
        opened: the person wants to see the attachment with this id.
    """

    opened = Signal(str)

    def __init__(self, attachments: Sequence[Attachment], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        row = Flow(self, right=True)
        self.stops: list[QWidget] = []
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        for number, attachment in enumerate(attachments, start=1):
            picture = Picture(attachment, number, len(attachments) == 1, self)
            picture.clicked.connect(lambda _=False, id=attachment.id: self.opened.emit(id))
            row.addWidget(picture)
            self.stops.append(picture)
