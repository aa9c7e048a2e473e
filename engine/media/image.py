"""A picture as the model will see it: upright RGB pixels, read from whatever was dropped."""

import os
from dataclasses import dataclass

from PIL import Image

from engine.errors import MediaError
from engine.media.pixels import Pixels, check_size, freeze, orientation, to_pixels
from engine.media.raster import DECODER_ERRORS, Raster, damaged, open_raster
from engine.media.salvage import salvage
from engine.media.source import Located, locate

ImageSource = str | os.PathLike[str] | bytes | Image.Image

# Models look at no more than this; a larger picture only costs memory on its way to them.
DEFAULT_MAX_PIXELS = 4096 * 4096

_SEVERAL = {"TIFF": "first page of", "HEIF": "main picture of"}
_ONE_PICTURE = ("MPO", "ICO", "ICNS", "PSD")  # their further frames are depth maps, sizes and layers of the same one


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """One decoded picture.

    Attributes:
        pixels: (H, W, 3) uint8 RGB, upright, C-contiguous, read-only.
        name: What to call it in sentences.
        source_size: (width, height) upright, as it was before any scaling.
        note: What a person should know about how it was read, such as "first frame of 12"; None if nothing.
    """

    pixels: Pixels
    name: str
    source_size: tuple[int, int]
    note: str | None = None


def read_image(
    source: ImageSource,
    *,
    name: str | None = None,
    max_pixels: int = DEFAULT_MAX_PIXELS,
    allow_truncated: bool = False,
) -> Picture:
    """Decode a picture completely.

    The content decides the format, not the name. EXIF turns are applied, transparency is composited on white, deep
    grey is scaled to 8 bits, animations give their first frame. Safe to call from several threads.

    Args:
        source: A path, a `data:` URL, the file's bytes, or a Pillow image (which is not changed).
        name: What to call it; None takes the file's name.
        max_pixels: Larger pictures are scaled down to it, and the note says so.
        allow_truncated: Return the readable part of a damaged picture, with a note, instead of refusing it.

    Raises:
        MediaError: It cannot be read; `partial` is set where `allow_truncated` would help.
    """
    if isinstance(source, Image.Image):
        return _from_pillow(source, name, max_pixels)
    located = locate(source, name=name)
    with located.open() as stream:
        raster = open_raster(stream, located.name, max_pixels)
        try:
            raster.image.load()
        except DECODER_ERRORS as error:
            return _from_remains(raster, located, max_pixels, allow_truncated, error)
        return _finish(raster, raster.image, located.name, max_pixels, _frame_notes(raster))


def _from_pillow(image: Image.Image, name: str | None, max_pixels: int) -> Picture:
    name = name or os.path.basename(os.fsdecode(getattr(image, "filename", ""))) or "Pasted picture"
    check_size(name, image.size)
    try:
        image.load()
    except DECODER_ERRORS as error:
        raise damaged(name) from error
    return _finish(Raster(image, image.format or "", image.size, 1), image, name, max_pixels, [])


def _from_remains(
    raster: Raster, located: Located, max_pixels: int, allow_truncated: bool, error: Exception
) -> Picture:
    remains = salvage(located, max_pixels)
    if remains is None:
        raise damaged(located.name) from error
    if remains.loss and not allow_truncated:
        sentence = f"{located.name} is damaged: {remains.loss}. Send it anyway, or remove it."
        raise MediaError(sentence, partial=True) from error
    notes = [f"damaged: {remains.loss}"] if remains.loss else []
    return _finish(raster, remains.image, located.name, max_pixels, notes + _frame_notes(raster))


def _finish(raster: Raster, image: Image.Image, name: str, max_pixels: int, notes: list[str]) -> Picture:
    turn = orientation(raster.image)
    # TIFF is turned by its decoder, so its stored size may lie on its side.
    width, height = raster.size if raster.format in ("JPEG", "MPO") else raster.image.size
    if turn >= 5:
        width, height = height, width
    try:
        pixels = to_pixels(image, max_pixels, turn)
    except DECODER_ERRORS as error:
        raise MediaError(f"{name} uses colours that Braid cannot read. Save it as PNG and add that.") from error
    if width * height > max_pixels:
        notes = [*notes, f"scaled down from {width} x {height} to fit the pixel budget"]
    return Picture(freeze(pixels), name, (width, height), "; ".join(notes) or None)


def _frame_notes(raster: Raster) -> list[str]:
    if raster.frames == 1 or raster.format in _ONE_PICTURE:
        return []
    if raster.frames == 0:
        return ["first frame; the later ones are damaged"]
    return [f"{_SEVERAL.get(raster.format, 'first frame of')} {raster.frames}"]
