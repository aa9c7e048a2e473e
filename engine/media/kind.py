"""Which reader a file is for, told by its content."""

from typing import Literal

from engine.errors import MediaError
from engine.media.animation import ANIMATED_FORMATS
from engine.media.container import open_container, picture_stream, sound_stream
from engine.media.raster import open_raster
from engine.media.signature import Signature, sniff
from engine.media.source import Located, Source, locate

Kind = Literal["image", "video", "audio", "pdf"]


def kind_of(source: Source, *, name: str | None = None) -> Kind | None:
    """Return which reader to use; None where none fits.

    An animation is a video only if it has more than one frame, and an MP4 or similar file only if it has pictures. A
    damaged file keeps its kind, so that its reader can say what is wrong.

    Raises:
        MediaError: The source cannot be opened at all.
    """
    located = locate(source, name=name, noun="file")
    match sniff(located.head()):
        case Signature.PICTURE:
            return "video" if _is_animated(located) else "image"
        case Signature.CLIP:
            return "video"
        case Signature.CONTAINER:
            return "audio" if _is_only_sound(located) else "video"
        case Signature.SOUND:
            return "audio"
        case Signature.PDF:
            return "pdf"
        case _:
            return None


def _is_animated(located: Located) -> bool:
    try:
        with located.open() as stream:
            raster = open_raster(stream, located.name, max_pixels=1)
            return raster.format in ANIMATED_FORMATS and raster.frames > 1
    except MediaError:
        return False


def _is_only_sound(located: Located) -> bool:
    try:
        with open_container(located, "clip") as container:
            return picture_stream(container) is None and sound_stream(container) is not None
    except MediaError:
        return located.head(4) == b"OggS"
