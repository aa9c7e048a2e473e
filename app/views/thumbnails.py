"""Thumbnails taken apart beside the GUI thread: a screen full of photographs would hold it up for long."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from weakref import WeakMethod

from PySide6.QtCore import QObject, QThreadPool, Signal
from PySide6.QtGui import QImage, QPixmap
from shiboken6 import isValid

_AT_ONCE_BYTES = 8_000
_SHARPNESS = 2  # pixels of the screen for each of ours, at most


class Loader(QObject):
    """Turns PNG bytes into pictures of the size that is drawn; small ones at once, others in the thread pool."""

    _ready = Signal(int, QImage)

    def __init__(self) -> None:
        super().__init__()
        self._numbers = itertools.count()
        self._wanted: dict[int, WeakMethod[Callable[[QPixmap], None]]] = {}
        self._ready.connect(self._hand_over)

    def load(self, png: bytes, side: int, use: Callable[[QPixmap], None]) -> None:
        """Hand the picture to `use`, a method of a widget, unless that has gone meanwhile.

        Args:
            png: the thumbnail.
            side: the shorter side as it is drawn, in px.
            use: takes the pixmap, now or later.
        """
        if len(png) <= _AT_ONCE_BYTES:
            use(QPixmap.fromImage(_take_apart(png, side)))
            return
        number = next(self._numbers)
        self._wanted[number] = WeakMethod(use)
        QThreadPool.globalInstance().start(lambda: self._ready.emit(number, _take_apart(png, side)))

    def _hand_over(self, number: int, image: QImage) -> None:
        use = self._wanted.pop(number)()
        if use is not None and isValid(use.__self__):  # type: ignore[attr-defined]  # bound, as WeakMethod demands
            use(QPixmap.fromImage(image))


def _take_apart(png: bytes, side: int) -> QImage:
    """By Pillow, which leaves Python free meanwhile; Qt's own reader does not."""
    from io import BytesIO

    from PIL import Image

    if not png:
        return QImage()
    wanted = side * _SHARPNESS
    with Image.open(BytesIO(png)) as image:
        scale = wanted / min(image.size)
        if scale < 1:
            image.load()
            small = image.resize((round(image.width * scale), round(image.height * scale)), reducing_gap=2.0)
        else:
            small = image
        pixels = small.convert("RGBA")
    size = pixels.size
    return QImage(pixels.tobytes(), *size, 4 * size[0], QImage.Format.Format_RGBA8888).copy()


loader = Loader()
