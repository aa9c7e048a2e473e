"""Animated GIF, WebP, PNG and AVIF files as clips."""

from collections.abc import Callable
from typing import BinaryIO

from PIL import Image

from engine.errors import MediaCancelled, MediaError
from engine.media.clip import Clip, VideoInfo, make_clip
from engine.media.pixels import orientation, to_pixels
from engine.media.raster import DECODER_ERRORS, Raster, damaged, open_raster
from engine.media.sampling import frame_times, pick
from engine.media.source import Located

ANIMATED_FORMATS = ("GIF", "WEBP", "PNG", "AVIF")

# Frames build on each other, so that all of them are decoded: about ten seconds for as many pixels as these.
_MOST_PIXELS = 4_000_000_000
# Browsers show faster frames, and those without a duration, for this long.
_DEFAULT_SECONDS = 0.1
_SHORTEST_SECONDS = 0.011


def read_animation(
    located: Located,
    *,
    fps: float,
    max_frames: int,
    start: float | None,
    end: float | None,
    max_pixels: int,
    should_stop: Callable[[], bool] | None,
) -> Clip:
    """Sample an animation; arguments and errors are those of `read_video`."""
    with located.open() as stream:
        raster = _open(located, stream, max_pixels)
        shown_at, duration = _timetable(raster, located.name, should_stop)
        times = frame_times(duration, fps, max_frames, start, end)
        chosen = list(pick(((time, index) for index, time in enumerate(shown_at)), times))
        frames = []
        for time, index in chosen:
            _check(should_stop)
            raster.image.seek(index)
            frames.append((time, to_pixels(raster.image, max_pixels, orientation(raster.image))))
        info = _info(raster, len(shown_at), duration)
        return make_clip(located.name, info, frames, lost=1 - len(shown_at) / max(raster.frames, len(shown_at)))


def probe_animation(located: Located, should_stop: Callable[[], bool] | None = None) -> VideoInfo:
    """Return what an animation says about itself; errors are those of `probe_video`."""
    with located.open() as stream:
        raster = _open(located, stream, max_pixels=1 << 30)
        shown_at, duration = _timetable(raster, located.name, should_stop)
        return _info(raster, len(shown_at), duration)


def _open(located: Located, stream: BinaryIO, max_pixels: int) -> Raster:
    raster = open_raster(stream, located.name, max_pixels)
    if raster.format not in ANIMATED_FORMATS or raster.frames == 1:
        raise MediaError(f"{located.name} holds a single picture, not a clip. Add it as a picture.")
    width, height = raster.size
    if width * height * raster.frames > _MOST_PIXELS:
        most = _MOST_PIXELS // (width * height)
        raise MediaError(
            f"{located.name} has {raster.frames:,} frames of {width} x {height}, and Braid reads up to {most:,} of "
            "this size. Scale it down or cut out the part you need."
        )
    return raster


def _timetable(raster: Raster, name: str, should_stop: Callable[[], bool] | None) -> tuple[list[float], float]:
    """Return when each readable frame appears and when the last one ends, in seconds."""
    shown_at: list[float] = []
    now = 0.0
    while True:
        _check(should_stop)
        try:
            raster.image.seek(len(shown_at))
            raster.image.load()  # WebP and AVIF know a frame's duration only then
        except DECODER_ERRORS:
            break  # the end, or damage: what came before is used
        shown_at.append(now)
        now += _seconds(raster.image)
    if not shown_at:
        raise damaged(name)
    return shown_at, now


def _seconds(frame: Image.Image) -> float:
    seconds = float(frame.info.get("duration") or 0) / 1000
    return seconds if seconds >= _SHORTEST_SECONDS else _DEFAULT_SECONDS


def _info(raster: Raster, frames: int, duration: float) -> VideoInfo:
    return VideoInfo(duration, frames / duration, raster.size, frames, has_audio=False)


def _check(should_stop: Callable[[], bool] | None) -> None:
    if should_stop is not None and should_stop():
        raise MediaCancelled("Reading the file was cancelled.")
