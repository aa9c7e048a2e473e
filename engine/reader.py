"""The media of a request: read and cut for the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from engine.media.fingerprint import fingerprint
from engine.media.image import Picture, read_image
from engine.media.video import read_video
from engine.messages import MediaKind, MediaSource


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
    """A piece of media laid out, and what its tower reads."""

    kind: MediaKind
    layout: Layout
    key: str
    patches: NDArray[np.float32]
    mask: NDArray[np.bool_] | None = None


class MediaModel(Protocol):
    """What reading media asks of a model.

    Attributes:
        geometry: names the processor's settings; part of every cache key.
        max_frames: most frames the model takes of one clip; None: no limit of its own.
    """

    geometry: str
    max_frames: int | None

    def lay_out(self, shape: MediaShape) -> Layout:
        """Tokens and grid for media of this shape; exact, without touching pixels."""

    def cut(self, kind: MediaKind, media: NDArray[Any]) -> tuple[NDArray[np.float32], NDArray[np.bool_] | None]:
        """What the tower reads, and which frames of a sound are real.

        Args:
            kind: which of them it is.
            media: a picture ``(height, width, 3)``, frames ``(n, height, width, 3)``, both uint8, or mono samples
                ``(n,)`` float32 at 16 kHz.
        """


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads pictures, clips and sounds for a model.

    Attributes:
        fps: frames sampled per second of a clip that asks for no other rate.
        max_frames: most frames of one clip.
        should_stop: asked while a long file is read; True gives up.
    """

    fps: float = 2.0
    max_frames: int = 128
    should_stop: Callable[[], bool] | None = None

    def place(self, model: MediaModel, source: MediaSource) -> Placed:
        """Read one source and cut it for the model; NumPy, Pillow and PyAV only.

        Raises:
            MediaError: it cannot be read.
        """
        return _PLACERS[source.kind](self, model, source)

    def frames_for(self, model: MediaModel) -> int:
        """Most frames of one clip for this model."""
        return min(self.max_frames, model.max_frames or self.max_frames)

    def _place_picture(self, model: MediaModel, source: MediaSource) -> Placed:
        picture = source.source if isinstance(source.source, Picture) else read_image(source.source)
        height, width, _ = picture.pixels.shape
        layout = model.lay_out(MediaShape("image", width, height))
        patches, mask = model.cut("image", picture.pixels)
        return Placed("image", layout, fingerprint(picture.pixels, model.geometry), patches, mask)

    def _place_clip(self, model: MediaModel, source: MediaSource) -> Placed:
        clip = read_video(
            source.source,
            fps=source.fps or self.fps,
            max_frames=self.frames_for(model),
            start=source.start,
            end=source.end,
            should_stop=self.should_stop,
        )
        _, height, width, _ = clip.frames.shape
        layout = model.lay_out(MediaShape("video", width, height, times=clip.timestamps))
        patches, mask = model.cut("video", clip.frames)
        # Times are told to the model, so the same frames at another pace are another clip.
        times = "/".join(f"{time:.2f}" for time in clip.timestamps)
        return Placed("video", layout, clip.fingerprint(f"{model.geometry}|{times}"), patches, mask)


_PLACERS: dict[MediaKind, Callable[[Reader, MediaModel, MediaSource], Placed]] = {
    "image": Reader._place_picture,  # noqa: SLF001 - the class's own table
    "video": Reader._place_clip,  # noqa: SLF001
}
