"""The media of a request: read and cut for the model."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from engine.errors import MediaError
from engine.known_media import KnownMedia
from engine.media.audio import DEFAULT_MAX_SECONDS, read_audio
from engine.media.clip import Clip
from engine.media.document import choose_pages, read_pdf
from engine.media.fingerprint import fingerprint
from engine.media.image import Picture, read_image
from engine.media.sampling import frame_times
from engine.media.source import identity
from engine.media.video import DEFAULT_MAX_PIXELS as FRAME_PIXELS
from engine.media.video import read_video
from engine.messages import Fetch, MediaKind, MediaSource, Page

NO_PATCHES: NDArray[np.float32] = np.empty(0, np.float32)
_SAME_TIME_S = 1e-4
"""Containers round times to their clock."""


@dataclass(frozen=True, slots=True)
class MediaShape:
    """What decides how many tokens a piece of media takes.

    Attributes:
        width: upright pixels; 0 for sound.
        height: upright pixels; 0 for sound.
        times: seconds of each frame of a clip.
        samples: of a sound, at 16 kHz.
    """

    kind: MediaKind
    width: int = 0
    height: int = 0
    times: tuple[float, ...] = ()
    samples: int = 0


@dataclass(frozen=True, slots=True)
class Layout:
    """How a piece of media stands in a prompt.

    Attributes:
        text: what replaces the template's placeholder; every pad token in it becomes a run of pads.
        runs: tokens of each run, in order.
        at_once: most patches that go through the tower together; longer media are encoded in parts.
        grid: (t, h, w) in patches; zeros where the model's positions do not depend on it.
    """

    text: str
    runs: tuple[int, ...]
    at_once: int
    grid: tuple[int, int, int] = (0, 0, 0)


@dataclass(frozen=True, slots=True)
class Placed:
    """A piece of media laid out, and what its tower reads.

    Attributes:
        key: fingerprint of its upright pixels (or samples), of frame times and of the processor's geometry.
        patches: float32, as the model's family cuts it; empty where it was not read.
        mask: which frames of a sound are real; None where all are.
        read: reads it again, or for the first time where it was known and therefore left unread; None where it has no
            name by which it is found again.
    """

    kind: MediaKind
    layout: Layout
    key: str
    patches: NDArray[np.float32]
    mask: NDArray[np.bool_] | None = None
    read: Callable[[], Placed] | None = None


@dataclass(frozen=True, slots=True)
class PageOf:
    """A page of a document, from 0, still to be drawn."""

    document: Any
    number: int
    name: str | None = None


Known = tuple[Layout, str]
"""Layout and key of media that were read before."""


class MediaModel(Protocol):
    """What reading media asks of a model.

    Attributes:
        geometry: names the processor's settings; part of every cache key.
        max_frames: most frames the model takes of one clip; None: no limit of its own.
        max_sound_s: longest sound it hears, in seconds; None: no limit of its own.
    """

    geometry: str
    max_frames: int | None
    max_sound_s: float | None

    def lay_out(self, shape: MediaShape) -> Layout:
        """Tokens and grid for media of this shape; exact, without touching pixels."""

    def cut(self, kind: MediaKind, media: NDArray[Any]) -> tuple[NDArray[np.float32], NDArray[np.bool_] | None]:
        """What the tower reads, and which frames of a sound are real.

        Args:
            kind: which of them it is.
            media: a picture ``(height, width, 3)``, frames ``(n, height, width, 3)``, both uint8, or mono samples
                ``(n,)`` float32 at 16 kHz.
        """


class MediaReader(Protocol):
    """Turns sources into laid-out media: ``Reader`` reads them, ``engine.forecast.Ruler`` only measures them.

    Attributes:
        fetch: gets what is on the web; None: nothing may be fetched, and addresses are refused.
    """

    @property
    def fetch(self) -> Fetch | None:
        """What gets files from the web."""

    def place(self, model: MediaModel, source: MediaSource) -> Placed:
        """Lay one source out for the model."""

    def pages(self, document: Any, pages: range | None, name: str | None = None) -> list[Page]:
        """Pages of a PDF document as picture sources."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads pictures, clips, sounds and documents for a model; NumPy, Pillow, PyAV and PDFium only.

    Attributes:
        fps: frames sampled per second of a clip that asks for no other rate.
        max_frames: most frames of one clip.
        should_stop: asked while a long file is read; True gives up.
        fetch: gets what is on the web; None: nothing may be fetched, and addresses are refused.
        known: what was read before, which is then laid out without being read again.
    """

    fps: float = 2.0
    max_frames: int = 128
    should_stop: Callable[[], bool] | None = None
    fetch: Fetch | None = None
    known: KnownMedia[Known] | None = None

    def place(self, model: MediaModel, source: MediaSource) -> Placed:
        """Read one source and cut it for the model, unless it is known.

        Raises:
            MediaError: it cannot be read.
            MediaCancelled: ``should_stop`` returned True.
        """
        name = None if self.known is None else self._name(model, source)
        if self.known is None or name is None:
            return self._read(model, source)
        read = partial(self._read_as, name, self.known, model, source)
        found = self.known.get(name)
        return replace(read() if found is None else Placed(source.kind, *found, NO_PATCHES), read=read)

    def _read_as(self, name: Hashable, known: KnownMedia[Known], model: MediaModel, source: MediaSource) -> Placed:
        """Read a source and note what it holds, unless it is another one by the time it was read."""
        placed = self._read(model, source)
        if self._name(model, source) == name:
            known.put(name, (placed.layout, placed.key))
        return placed

    def _name(self, model: MediaModel, source: MediaSource) -> Hashable | None:
        """Everything that decides how a source is laid out; None where that cannot be told without reading it."""
        page = source.source if isinstance(source.source, PageOf) else None
        content = identity(source.source if page is None else page.document)
        if content is None:
            return None
        number = None if page is None else page.number
        rate = source.fps or self.fps, source.start, source.end, self.max_frames
        return content, source.kind, number, rate if source.kind == "video" else None, model.geometry

    def _read(self, model: MediaModel, source: MediaSource) -> Placed:
        match source.kind:
            case "image":
                return self._picture(model, source)
            case "video":
                return self._clip(model, source)
            case "audio":
                return self._sound(model, source)

    def pages(self, document: Any, pages: range | None, name: str | None = None) -> list[Page]:
        """Pages of a PDF document, to be drawn when they are placed.

        Raises:
            MediaError: it cannot be read, or has none of the pages.
        """
        numbers = choose_pages(document, pages, name=name)
        return [Page(f"page {number + 1}", PageOf(document, number, name)) for number in numbers]

    def _picture(self, model: MediaModel, source: MediaSource) -> Placed:
        picture = _decoded(source)
        height, width, _ = picture.pixels.shape
        layout = model.lay_out(MediaShape("image", width, height))
        patches, mask = model.cut("image", picture.pixels)
        return Placed("image", layout, fingerprint(picture.pixels, model.geometry), patches, mask)

    def _clip(self, model: MediaModel, source: MediaSource) -> Placed:
        shown = sample_clip(source, self.fps, frame_limit(model, self.max_frames), should_stop=self.should_stop)
        _, height, width, _ = shown.frames.shape
        layout = model.lay_out(MediaShape("video", width, height, times=shown.times))
        patches, mask = model.cut("video", shown.frames)
        # Times are told to the model, so the same frames at another pace are another clip.
        pace = "/".join(f"{time:.2f}" for time in shown.times)
        return Placed("video", layout, shown.clip.fingerprint(f"{model.geometry}|{pace}"), patches, mask)

    def _sound(self, model: MediaModel, source: MediaSource) -> Placed:
        limit = model.max_sound_s or DEFAULT_MAX_SECONDS
        sound = read_audio(source.source, name=source.name, max_seconds=limit + 1, should_stop=self.should_stop)
        check_sound(sound.name, sound.duration, limit)
        layout = model.lay_out(MediaShape("audio", samples=sound.samples.size))
        patches, mask = model.cut("audio", sound.samples)
        return Placed("audio", layout, sound.fingerprint(model.geometry), patches, mask)


def _decoded(source: MediaSource) -> Picture:
    given = source.source
    if isinstance(given, PageOf):
        return read_pdf(given.document, name=given.name, pages=range(given.number, given.number + 1))[0]
    return given if isinstance(given, Picture) else read_image(given, name=source.name)


@dataclass(frozen=True, slots=True, eq=False)
class ShownFrames:
    """What a model is shown of a clip.

    Attributes:
        frames: (n, height, width, 3) uint8, upright; a frame that is held for long comes as often.
        times: seconds of each, as they are told to the model.
        clip: what they were taken from.
    """

    frames: NDArray[np.uint8]
    times: tuple[float, ...]
    clip: Clip


def sample_clip(
    source: MediaSource,
    fps: float,
    max_frames: int,
    *,
    max_pixels: int = FRAME_PIXELS,
    should_stop: Callable[[], bool] | None = None,
) -> ShownFrames:
    """Read the frames of a clip that a model is shown.

    Args:
        source: the clip, with the part and the rate that are wanted of it.
        fps: frames per second where the source asks for no other rate.
        max_frames: most frames.
        max_pixels: budget of each frame; it changes their size, never which they are.
        should_stop: asked while the file is read; True gives up.

    Raises:
        MediaError: it cannot be read.
        MediaCancelled: ``should_stop`` returned True.
    """
    fps, start, end = source.fps or fps, source.start, source.end
    clip = read_video(
        source.source,
        name=source.name,
        fps=fps,
        max_frames=max_frames,
        start=start,
        end=end,
        max_pixels=max_pixels,
        should_stop=should_stop,
    )
    shown, times = _held(clip, frame_times(clip.duration, fps, max_frames, start, end))
    frames = clip.frames if shown == list(range(len(clip.frames))) else clip.frames[shown]
    return ShownFrames(frames, times, clip)


def _held(clip: Clip, wanted: Sequence[float]) -> tuple[list[int], tuple[float, ...]]:
    """Numbers and times of the frames on screen at the wanted times: one that is held is shown as often, as in life.

    Without that a still of ten seconds would pass as quickly as any other frame.
    """
    if clip.note is not None:  # one frame only, or a part is lost: nothing tells how long a frame was held
        return list(range(len(clip.timestamps))), clip.timestamps
    numbers = [max(bisect.bisect_right(clip.timestamps, time + _SAME_TIME_S) - 1, 0) for time in wanted]
    return numbers, times_told(numbers, wanted, clip.timestamps)


def times_told(numbers: Sequence[int], wanted: Sequence[float], own: Sequence[float]) -> tuple[float, ...]:
    """What the model is told: a frame's own time when it appears, the time wanted while it is held."""
    return tuple(
        own[number] if index == 0 or number != numbers[index - 1] else time
        for index, (number, time) in enumerate(zip(numbers, wanted, strict=True))
    )


def frame_limit(model: MediaModel, configured: int) -> int:
    """Most frames of one clip: the configured number, or the model's own where that is less."""
    return min(configured, model.max_frames or configured)


def check_sound(name: str, seconds: float, limit: float) -> None:
    """Refuse a sound that the model could not hear to its end.

    Raises:
        MediaError: it is longer than ``limit`` seconds.
    """
    if seconds > limit:
        raise MediaError(f"{name} is longer than the {limit:.0f} s of sound that this model hears. Add a shorter part.")
