"""What can still be read of a picture that was cut off."""

import io
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageFile

from engine.media.raster import DECODER_ERRORS, Raster, open_raster
from engine.media.source import Located

_MARK = (171, 84, 37, 202)  # a colour that no real row is made of from end to end
_MARKED_MODES = {"L": 1, "P": 1, "LA": 2, "RGB": 3, "YCbCr": 3, "RGBA": 4, "CMYK": 4}
# Their decoders write row by row from the top into the image they were given.
_ROW_FORMATS = ("JPEG", "MPO", "PNG", "PPM")
_END_OF_JPEG = b"\xff\xd9"


@dataclass(frozen=True, slots=True)
class Remains:
    """The readable part of a picture.

    Attributes:
        image: The rows that were read, as stored (not turned upright).
        loss: What is wrong with them, such as "only about 42 % of it could be read"; None if the picture is complete.
    """

    image: Image.Image
    loss: str | None


def salvage(located: Located, max_pixels: int) -> Remains | None:
    """Return the rows that decode before the damage; None if there are none.

    Pillow's own switch for this, LOAD_TRUNCATED_IMAGES, is one global for all threads. Instead the decoder is given an
    image filled with a mark, is let run into the damage, and the rows without the mark are kept.
    """
    with located.open() as stream:
        raster = open_raster(stream, located.name, max_pixels)
        rows = _decode_rows(raster)
        if rows:
            part = raster.image.crop((0, 0, raster.image.width, rows))
            return Remains(part, _loss(rows / raster.image.height, raster.format))
    return _coarse(located, max_pixels) if raster.format in ("JPEG", "MPO") else None


def _loss(share: float, image_format: str) -> str | None:
    if share < 1.0:
        return f"only about {max(1, int(share * 100))} % of it could be read"
    # A JPEG whose rows are all there lacks only its end mark; elsewhere a checksum did not match.
    return None if image_format in ("JPEG", "MPO") else "parts of it may be wrong"


def _decode_rows(raster: Raster) -> int:
    image = raster.image
    if raster.format not in _ROW_FORMATS or image.mode not in _MARKED_MODES or image.info.get("interlace"):
        return 0
    assert isinstance(image, ImageFile.ImageFile), "row formats are read from files"
    bands = _MARKED_MODES[image.mode]
    mark = _MARK[:bands]
    image.im = Image.new(image.mode, image.size, mark[0] if bands == 1 else mark).im
    try:
        image.load()
    except DECODER_ERRORS:
        image.tile = []  # keep what was decoded; a further load would start again
    rows = np.asarray(image).reshape(image.height, image.width, bands)
    unread = np.flatnonzero((rows == np.array(mark, np.uint8)).all(axis=(1, 2)))
    return int(unread[0]) if unread.size else image.height


def _coarse(located: Located, max_pixels: int) -> Remains | None:
    """Read a progressive JPEG, whose first passes hold all of the picture, as if it ended where it was cut."""
    with located.open() as stream:
        whole = io.BytesIO(stream.read() + _END_OF_JPEG)
    image = open_raster(whole, located.name, max_pixels).image
    if not image.info.get("progressive"):
        return None
    try:
        image.load()
    except DECODER_ERRORS:
        return None
    return Remains(image, "only a coarse version could be read")
