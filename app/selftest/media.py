"""Reads one small file of every kind, through the readers that chats use."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from app.selftest.report import Failed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FOLDER = Path(__file__).parents[2] / "resources" / "selftest"
TONE = FOLDER / "tone.wav"
_LEFT, _RIGHT = (200, 40, 40), (40, 60, 200)
_TONE_HZ = 440
_TOLERANCE = 24
"""What lossy formats may change of a colour."""


def read_picture(suffix: str) -> str:
    """Decode a picture and compare its colours.

    Raises:
        Failed: they are others.
    """
    from engine.media.image import read_image

    return _halves(read_image(FOLDER / f"halves.{suffix}").pixels, suffix)


def read_document() -> str:
    """Draw a PDF page and compare its colours."""
    from engine.media.document import read_pdf

    (page,) = read_pdf(FOLDER / "halves.pdf")
    return _halves(page.pixels, "pdf")


def read_clip(suffix: str) -> str:
    """Sample a clip and compare the colours of every frame."""
    from engine.media.video import read_video

    clip = read_video(FOLDER / f"halves.{suffix}", fps=4)
    for frame in clip.frames:
        _halves(frame, suffix)
    return f"{suffix} {len(clip.frames)} frames"


def read_tone() -> str:
    """Decode a sound and find its pitch."""
    import numpy as np

    from engine.media.audio import read_audio

    sound = read_audio(TONE)
    spectrum = np.abs(np.fft.rfft(sound.samples))
    pitch = float(np.argmax(spectrum)) * sound.rate / len(sound.samples)
    if abs(pitch - _TONE_HZ) > 5:
        raise Failed(f"The tone of {_TONE_HZ} Hz was read as {pitch:.0f} Hz.")
    return f"{sound.duration:.1f} s at {sound.rate} Hz, pitch {pitch:.0f} Hz"


def _halves(pixels: NDArray[np.uint8], name: str) -> str:
    height, width, _ = pixels.shape
    for column, expected in ((width // 4, _LEFT), (3 * width // 4, _RIGHT)):
        seen = tuple(int(value) for value in pixels[height // 2, column])
        if max(abs(a - b) for a, b in zip(seen, expected, strict=True)) > _TOLERANCE:
            raise Failed(f"The {name} file's colour {expected} was read as {seen}.")
    return f"{name} {width} × {height}"


def _all(*works: Callable[[], str]) -> Callable[[], Awaitable[str]]:
    """One check that reads several files on a pool thread, as the app does."""
    return lambda: asyncio.to_thread(lambda: ", ".join(work() for work in works))


CHECKS: dict[str, Callable[[], Awaitable[str]]] = {
    "Pictures": _all(*[lambda suffix=suffix: read_picture(suffix) for suffix in ("png", "jpg", "heic", "gif")]),
    "PDF page": _all(read_document),
    "Clips": _all(lambda: read_clip("mp4"), lambda: read_clip("webm")),
    "Sound": _all(read_tone),
}
