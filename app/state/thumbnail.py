"""Small pictures that stand for media on the screen: a frame, a page, a waveform, the first lines of a text."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL import Image

SIDE = 512
_WAVE = (384, 128)
_BAR_PX = 4
_VIOLET = (139, 120, 230, 255)  # seen on light and on dark
_GREY = (128, 128, 140, 255)
_LINES = 24
_COLUMNS = 48


def of_pixels(pixels: NDArray[np.uint8]) -> bytes:
    """A picture (height, width, 3) as PNG of at most 512 px."""
    from PIL import Image

    image = Image.fromarray(pixels)
    image.thumbnail((SIDE, SIDE))
    return _png(image)


def png(pixels: NDArray[np.uint8]) -> bytes:
    """A picture (height, width, 3) as PNG in its full size."""
    from PIL import Image

    return _png(Image.fromarray(pixels))


def of_samples(samples: NDArray[np.float32]) -> bytes:
    """The waveform of mono samples (n,): one bar for the loudest moment of each stretch, on a clear ground."""
    import numpy as np
    from PIL import Image, ImageDraw

    width, height = _WAVE
    bars = np.array([abs(part).max(initial=0.0) for part in np.array_split(samples, width // _BAR_PX)])
    peak = max(float(bars.max()), 1e-4)
    image = Image.new("RGBA", _WAVE)
    draw = ImageDraw.Draw(image)
    for number, bar in enumerate(bars / peak):
        half = max(1.0, bar * (height / 2 - 4))
        left = number * _BAR_PX
        draw.rectangle([left, height / 2 - half, left + _BAR_PX - 2, height / 2 + half], fill=_VIOLET)
    return _png(image)


def of_text(text: str) -> bytes:
    """The shape of the first lines of a text: a bar for each word, on a clear ground."""
    from PIL import Image, ImageDraw

    image = Image.new("RGBA", (256, 256))
    draw = ImageDraw.Draw(image)
    for row, line in enumerate(text[: _LINES * _COLUMNS].splitlines()[:_LINES]):
        column = len(line) - len(line.lstrip())
        for word in line.split():
            left, right = 8 + 5 * column, 8 + 5 * min(column + len(word), _COLUMNS)
            if left < right:
                draw.rectangle([left, 8 + 10 * row, right, 12 + 10 * row], fill=_GREY)
            column += len(word) + 1
    return _png(image)


def _png(image: Image.Image) -> bytes:
    buffer = BytesIO()
    image.save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()
