"""From whatever a picture file holds to upright 8-bit RGB within a pixel budget."""

import math

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from engine.errors import MediaError

Pixels = NDArray[np.uint8]

# The most pixels decoded at once: about a gigabyte at its peak with transparency.
HARD_PIXELS = 1 << 27

_ORIENTATION_TAG = 0x0112
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_DEEP_MODES = ("I", "F")
_WIDE_MODES = ("I;16", "I;16B", "I;16L", "I;16N")
_ALPHA_MODES = ("RGBA", "LA", "PA", "RGBa", "La")


def fit_size(width: int, height: int, max_pixels: int) -> tuple[int, int]:
    """Return the largest size of the same shape with at most `max_pixels` pixels and sides of at least 1."""
    if width * height <= max_pixels:
        return width, height
    scale = math.sqrt(max_pixels / (width * height))
    short = max(1, int(min(width, height) * scale))
    long = max(1, min(int(max(width, height) * scale), max_pixels // short))
    return (short, long) if width <= height else (long, short)


def check_size(name: str, size: tuple[int, int], limit: int = HARD_PIXELS) -> None:
    """Refuse by the header's numbers what would not fit in memory once decoded.

    Raises:
        MediaError: Width times height is over `limit`.
    """
    width, height = size
    if width * height > limit:
        raise MediaError(
            f"{name} is too large: {width} x {height} is {width * height / 1e6:.0f} million pixels, and Braid reads "
            f"up to {limit / 1e6:.0f} million. Scale it down or cut out the part you need."
        )


def orientation(image: Image.Image) -> int:
    """Return the EXIF orientation, 1 to 8; 1 where there is none or its block is unreadable."""
    try:
        value = image.getexif().get(_ORIENTATION_TAG, 1)
    except (OSError, SyntaxError, ValueError, LookupError, TypeError):
        return 1  # a broken EXIF block says nothing about the picture itself
    return value if value in _TURNS else 1


def to_pixels(image: Image.Image, max_pixels: int, turn: int = 1) -> Pixels:
    """Return a decoded image as upright RGB.

    Args:
        image: Any mode; its pixels are loaded.
        max_pixels: Larger pictures are scaled down to it.
        turn: The EXIF orientation still to be applied, 1 to 8.

    Returns:
        (H, W, 3) uint8, C-contiguous and read-only.
    """
    rgb = _to_rgb(image)
    rgb = rgb.resize(fit_size(*rgb.size, max_pixels), Image.Resampling.LANCZOS, reducing_gap=3.0)
    if turn in _TURNS:
        rgb = rgb.transpose(_TURNS[turn])
    return freeze(np.asarray(rgb))


def freeze(pixels: Pixels) -> Pixels:
    """Return the same pixels C-contiguous and read-only."""
    pixels = np.ascontiguousarray(pixels)
    pixels.setflags(write=False)
    return pixels


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode in _WIDE_MODES or image.mode in _DEEP_MODES:
        return Image.fromarray(_to_grey(np.asarray(image))).convert("RGB")
    if image.mode in _ALPHA_MODES or "transparency" in image.info:
        return _on_white(image)
    return image if image.mode == "RGB" else image.convert("RGB")


def _on_white(image: Image.Image) -> Image.Image:
    """Composite on white: hidden colours under alpha 0 must not reach the model."""
    rgba = image.convert("LA").convert("RGBA") if image.mode == "La" else image.convert("RGBA")
    canvas = Image.new("RGB", rgba.size, "white")
    canvas.paste(rgba, mask=rgba.getchannel("A"))
    return canvas


def _to_grey(values: NDArray[np.generic]) -> Pixels:
    """Scale deep grey values to 8 bits by the range that they are stored for.

    16-bit files are 0..65535 by definition. For 32-bit and float data the range is a convention: 0..1, 0..255 or
    0..65535 where the values fit one of them, else their own lowest to highest value.
    """
    if values.dtype.itemsize == 2:
        return (values.astype(np.uint16) >> 8).astype(np.uint8)
    numbers = np.nan_to_num(values.astype(np.float32), nan=0.0, posinf=0.0, neginf=0.0)
    low, high = float(numbers.min()), float(numbers.max())
    tops = [top for top in ((1.0,) if values.dtype.kind == "f" else ()) + (255.0, 65535.0) if low >= 0 and high <= top]
    bottom, top = (0.0, tops[0]) if tops else (low, high)
    grey: Pixels = np.rint((numbers - bottom) * (255.0 / max(top - bottom, 1e-30))).astype(np.uint8)
    return grey
