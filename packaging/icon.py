"""The app's icon in the formats that systems want, drawn from resources/icons/braid.svg."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import contents
from PIL import Image
from PySide6.QtCore import QBuffer, QByteArray, QIODevice, Qt
from PySide6.QtGui import QImage, QPainter
from PySide6.QtSvg import QSvgRenderer

SOURCE = contents.ROOT / "resources" / "icons" / "braid.svg"
SIDES = (16, 32, 64, 128, 256, 512, 1024)


def png(side: int) -> bytes:
    """The icon as PNG, `side` pixels square, transparent around the tile."""
    image = QImage(side, side, QImage.Format.Format_ARGB32_Premultiplied)
    image.fill(Qt.GlobalColor.transparent)
    painter = QPainter(image)
    QSvgRenderer(str(SOURCE)).render(painter)
    painter.end()
    data = QByteArray()
    buffer = QBuffer(data)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    image.save(buffer, "PNG")  # type: ignore[call-overload] - the stubs want the format as bytes, Qt takes only text
    return bytes(data.data())


def icns(path: Path) -> Path:
    """Write all sizes into one .icns file and return its path."""
    drawn = [Image.open(BytesIO(png(side))) for side in SIDES]
    drawn[-1].save(path, format="ICNS", append_images=drawn[:-1])
    return path
