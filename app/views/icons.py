"""Line icons from resources/icons, drawn sharp in the colour asked for."""

from __future__ import annotations

from functools import lru_cache

from PySide6.QtCore import QByteArray, QRectF, Qt
from PySide6.QtGui import QIcon, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer

from app.views.theme import RESOURCES, tokens

_SCALES = (1, 2, 3)


def icon(name: str, role: str = "muted", size: int = 16) -> QIcon:
    """The icon in a token's colour; make it again when the theme changes."""
    return _icon(name, getattr(tokens(), role), size)


@lru_cache(maxsize=256)
def _icon(name: str, colour: str, size: int) -> QIcon:
    made = QIcon()
    for scale in _SCALES:
        made.addPixmap(_pixmap(name, colour, size, scale))
    return made


def _pixmap(name: str, colour: str, size: int, scale: int) -> QPixmap:
    pixmap = QPixmap(size * scale, size * scale)
    pixmap.setDevicePixelRatio(scale)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    QSvgRenderer(QByteArray(_source(name).replace("currentColor", colour).encode())).render(
        painter, QRectF(0, 0, size, size)
    )
    painter.end()
    return pixmap


@lru_cache(maxsize=64)
def _source(name: str) -> str:
    return (RESOURCES / "icons" / f"{name}.svg").read_text(encoding="utf-8")
