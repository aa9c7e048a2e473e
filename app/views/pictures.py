"""What a person sent: rounded thumbnails, numbered when there are several, and cards for sounds and texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QPainter, QPainterPath, QPaintEvent, QPen, QPixmap
from PySide6.QtWidgets import QAbstractButton, QSizePolicy, QWidget

from app.state.attachment import NOUNS
from app.state.facts import length, pages, weight
from app.views.flow import Flow
from app.views.icons import icon
from app.views.theme import SMALL_PX, UI_PX, color, scaled, theme, ui_font
from app.views.thumbnails import loader

if TYPE_CHECKING:
    from app.state.attachment import Attachment

SINGLE_PX = 240
TILE_PX = 144
RADIUS = 10
_SIGN_PX = 20
_SIGNS = {"video": "play", "audio": "sound", "pdf": "document", "text": "document"}


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
    """One sent attachment; a click opens it. What cannot be pictured is a card with its name."""

    def __init__(self, attachment: Attachment, number: int, alone: bool, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._item, self._pixmap, self._asked = attachment, QPixmap(), False
        self._number = 0 if alone else number
        self._alone = alone
        self._card = attachment.kind in ("audio", "text") or not attachment.thumbnail
        self._detail = detail(attachment)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        described = f"{attachment.name}, {self._detail}" if self._detail else attachment.name
        self.setAccessibleName(f"{NOUNS[attachment.kind].capitalize()} {number}: {described}")
        self.setToolTip(f"{described}\n{attachment.note}" if attachment.note else described)
        theme.changed.connect(self._fit)
        self._fit()

    def _fit(self) -> None:
        if self._card:
            size = QSize(SINGLE_PX, scaled(56))
        elif not self._alone:
            size = QSize(TILE_PX, TILE_PX)
        else:
            size = _shape(self._item.width, self._item.height)
        self.setFixedSize(size)

    def paintEvent(self, event: QPaintEvent) -> None:
        if not (self._asked or self._card):  # only what is seen is taken apart
            self._asked = True
            loader.load(self._item.thumbnail, min(self.width(), self.height()), self._take)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if self._card:
            self._paint_card(painter)
        else:
            paint_rounded(painter, QRectF(self.rect()), self._pixmap)
            self._paint_label(painter)
        if self._number and not self._card:
            self._badge(painter)
        if self.hasFocus():
            painter.setPen(QPen(color("accent"), 2))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), RADIUS, RADIUS)

    def _paint_card(self, painter: QPainter) -> None:
        """A sign, the name, and how long or large it is."""
        painter.setPen(QPen(color("line"), 1))
        painter.setBrush(color("raised"))
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), RADIUS, RADIUS)
        sign = icon(_SIGNS.get(self._item.kind, "document"), "accent", _SIGN_PX)
        sign.paint(painter, 16, (self.height() - _SIGN_PX) // 2, _SIGN_PX, _SIGN_PX)
        left, width, middle = 16 + _SIGN_PX + 12, self.width() - 16 - _SIGN_PX - 24, self.height() / 2
        for text, role, px, top in (
            (self._item.name, "text", UI_PX, middle - scaled(18)),
            (self._detail, "muted", SMALL_PX, middle),
        ):
            painter.setFont(ui_font(px))
            painter.setPen(color(role))
            said = painter.fontMetrics().elidedText(text, Qt.TextElideMode.ElideMiddle, width)
            painter.drawText(QRectF(left, top, width, scaled(18)), Qt.AlignmentFlag.AlignVCenter, said)

    def _paint_label(self, painter: QPainter) -> None:
        """How long a clip is or how many pages a document has, on a strip at the lower edge."""
        if self._item.kind == "image":
            return
        painter.setFont(ui_font(SMALL_PX, strong=True))
        sign, metrics = scaled(12), painter.fontMetrics()
        place = QRectF(0, 0, metrics.horizontalAdvance(self._detail) + sign + 18, scaled(20))
        place.moveBottomLeft(QRectF(self.rect()).bottomLeft() + QPointF(8, -8))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(color("surface"))
        painter.drawRoundedRect(place, place.height() / 2, place.height() / 2)
        made = icon(_SIGNS.get(self._item.kind, "document"), "text", sign)
        made.paint(painter, int(place.left()) + 6, int(place.center().y()) - sign // 2, sign, sign)
        painter.setPen(color("text"))
        painter.drawText(place.adjusted(sign + 10, 0, 0, 0), Qt.AlignmentFlag.AlignVCenter, self._detail)

    def _take(self, picture: QPixmap) -> None:
        self._pixmap = picture
        self.update()

    def _badge(self, painter: QPainter) -> None:
        place = QRectF(8, 8, 20, 20)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(color("surface"))
        painter.drawEllipse(place)
        painter.setPen(color("text"))
        painter.setFont(ui_font(SMALL_PX, strong=True))
        painter.drawText(place, Qt.AlignmentFlag.AlignCenter, str(self._number))


def detail(item: Attachment) -> str:
    """How large, long or thick an attachment is, in a word or two."""
    match item.kind:
        case "image":
            return f"{item.width} × {item.height}"
        case "video" | "audio":
            return length(item.seconds)
    return pages(item) if item.kind == "pdf" else weight(item.size)


def _shape(width: int, height: int) -> QSize:
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
