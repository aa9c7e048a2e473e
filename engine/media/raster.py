"""Picture files opened by content, size-checked before their pixels are decoded, without Pillow's global switches."""

import struct
import zlib
from dataclasses import dataclass
from typing import BinaryIO

import pillow_heif
from PIL import Image

from engine.errors import MediaError
from engine.media.pixels import HARD_PIXELS, check_size, fit_size
from engine.media.signature import Signature, brands, sniff

# Everything that Pillow's decoders were seen to raise for damaged files.
DECODER_ERRORS = (
    OSError,
    SyntaxError,
    ValueError,
    TypeError,
    LookupError,
    EOFError,
    ArithmeticError,
    RuntimeError,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
)
# Left out on purpose: formats that run other programs (EPS), that any file seems to be (TGA), or that need a plug-in.
_FORMATS = (
    *("JPEG", "PNG", "GIF", "WEBP", "AVIF", "TIFF", "BMP", "ICO", "ICNS"),
    *("JPEG2000", "PPM", "QOI", "PSD"),
)
_HEIF_BRANDS = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs"}
_AVIF_BRANDS = {b"avif", b"avis"}
_HEAD_BYTES = 4096
_JPEG = ("JPEG", "MPO")

Image.init()  # registers the formats; Image.open would do so at its first call


@dataclass(frozen=True, slots=True)
class Raster:
    """An opened picture file.

    Attributes:
        image: Its first frame; the pixels may not have been decoded yet, and then need the open stream.
        format: Pillow's name for the format, such as "JPEG" or "HEIF".
        size: (width, height) as stored, before any scaling.
        frames: Frames, pages or pictures in it; 0 where the later ones cannot be counted because of damage.
    """

    image: Image.Image
    format: str
    size: tuple[int, int]
    frames: int


def open_raster(stream: BinaryIO, name: str, max_pixels: int) -> Raster:
    """Read a picture's header and prepare to decode it.

    JPEGs much larger than `max_pixels` are set to be decoded at 1/2, 1/4 or 1/8.

    Args:
        stream: The file, open until the pixels are decoded.
        name: What to call it in sentences.
        max_pixels: The budget that the picture will be scaled to.

    Raises:
        MediaError: It is no picture, damaged from the start, or larger than can be decoded.
    """
    head = stream.read(_HEAD_BYTES)
    if brands(head) & _HEIF_BRANDS and not brands(head) & _AVIF_BRANDS:
        return _open_heif(stream, name)
    image = _open_pillow(stream, head, name)
    size = image.size
    check_size(name, size, HARD_PIXELS * 4 if image.format in _JPEG else HARD_PIXELS)
    if image.format in _JPEG:
        image.draft(None, fit_size(*size, max_pixels))
        check_size(name, image.size)
    return Raster(image, image.format or "", size, _count(image))


def damaged(name: str) -> MediaError:
    """Return the error for a picture of which nothing can be used."""
    return MediaError(f"{name} is damaged or incomplete and could not be read. Add another copy of it.")


def _open_pillow(stream: BinaryIO, head: bytes, name: str) -> Image.Image:
    """Do what Image.open does, minus its process-wide size warning and the formats not listed here."""
    known = False
    for label in _FORMATS:
        factory, accept = Image.OPEN[label]
        if accept is None or accept(head[:16]) is not True:
            continue
        known = True
        stream.seek(0)
        try:
            return factory(stream, "")
        except DECODER_ERRORS:
            continue  # another format may share the signature
    raise damaged(name) if known else MediaError(_why_no_picture(head, name))


def _why_no_picture(head: bytes, name: str) -> str:
    signature = sniff(head)
    if signature in (None, Signature.PICTURE):
        return f"{name} is not a picture that Braid can read. Save it as PNG or JPEG in another program and add that."
    if signature is Signature.DRAWING:
        return f"{name} holds an SVG drawing, which Braid cannot read. Save it as PNG and add that."
    return f"{name} holds {signature}, not a picture. Add the picture itself."


def _open_heif(stream: BinaryIO, name: str) -> Raster:
    stream.seek(0)
    try:
        # Opened directly: registering the format with Pillow would change it for the whole process.
        file = pillow_heif.open_heif(stream, convert_hdr_to_8bit=True)
        primary = file[file.primary_index]
        check_size(name, primary.size)
        image = primary.to_pillow()
    except DECODER_ERRORS as error:
        raise damaged(name) from error
    return Raster(image, "HEIF", image.size, len(file))


def _count(image: Image.Image) -> int:
    try:
        return int(getattr(image, "n_frames", 1))
    except DECODER_ERRORS:
        return 0
