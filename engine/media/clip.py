"""What remains of a clip once it is read: a few upright frames and their times."""

from dataclasses import dataclass

import numpy as np

from engine.media.fingerprint import fingerprint
from engine.media.pixels import Pixels, freeze
from engine.media.sampling import MIN_FRAMES

_WORTH_SAYING = 0.05  # of a clip lost


@dataclass(frozen=True, slots=True)
class VideoInfo:
    """What a clip says about itself.

    Attributes:
        duration: Seconds.
        fps: Frames per second, on average.
        size: (width, height), upright.
        frames_estimate: Frames in it; exact where the file counts them.
        has_audio: Whether it has sound as well.
    """

    duration: float
    fps: float
    size: tuple[int, int]
    frames_estimate: int
    has_audio: bool


@dataclass(frozen=True, slots=True, eq=False)
class Clip:
    """Sampled frames of a clip.

    Attributes:
        frames: (N, H, W, 3) uint8 RGB, upright, read-only, N at least 2.
        timestamps: Seconds of each frame from the clip's start, ascending.
        source_fps: Frames per second in the file, on average.
        duration: Seconds of the whole clip.
        name: What to call it in sentences.
        note: What a person should know about how it was read; None if nothing.
    """

    frames: Pixels
    timestamps: tuple[float, ...]
    source_fps: float
    duration: float
    name: str
    note: str | None = None

    def fingerprint(self, geometry: str = "") -> str:
        """Return the name of these frames; times are no part of it."""
        return fingerprint(self.frames, geometry)


def make_clip(name: str, info: VideoInfo, frames: list[tuple[float, Pixels]], lost: float) -> Clip:
    """Return the clip of at least one (seconds, (H, W, 3)) frame.

    Args:
        name: What to call it.
        info: What the file said.
        frames: In order of time.
        lost: The share of the wanted range that could not be read, 0 to 1.
    """
    notes = [f"damaged: about {lost:.0%} of it could not be read".replace("%", " %")] if lost > _WORTH_SAYING else []
    if len(frames) < MIN_FRAMES:
        notes.append("one frame only, shown twice")
        frames = frames * MIN_FRAMES
    stacked = freeze(np.stack([pixels for _, pixels in frames]))
    return Clip(stacked, tuple(time for time, _ in frames), info.fps, info.duration, name, "; ".join(notes) or None)
