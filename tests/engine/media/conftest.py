"""Clips and sounds made on the spot with FFmpeg's encoders."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

MILLISECOND = Fraction(1, 1000)


def grey(number: int, size: tuple[int, int]) -> np.ndarray:
    """A frame whose brightness is eight times its number, with a red top and a green right edge."""
    frame = np.full((size[1], size[0], 3), number * 8 % 256, np.uint8)
    frame[: size[1] // 6] = (255, 0, 0)
    frame[size[1] // 6 :, -size[0] // 6 :] = (0, 255, 0)
    return frame


@pytest.fixture
def make_clip(tmp_path: Path) -> Callable[..., Path]:
    """Write a clip; frame `i` has `grey(i)`. Times are in milliseconds and default to a steady rate."""

    def make(
        name: str,
        frames: int = 20,
        *,
        rate: Fraction | int = 10,
        times: Sequence[int] | None = None,
        size: tuple[int, int] = (64, 48),
        codec: str = "libx264",
        rotation: int = 0,
        gop: int = 12,
        sound: bool = False,
        **options: str,
    ) -> Path:
        path = tmp_path / name
        with av.open(str(path), "w", options=options) as container:
            stream = container.add_stream(codec, rate=rate)
            stream.width, stream.height = size
            stream.pix_fmt = "yuv420p"
            stream.gop_size = gop
            stream.bit_rate = 4_000_000  # enough to tell the frames apart
            if rotation:
                stream.set_display_rotation(rotation)
            if times is not None:
                stream.time_base = stream.codec_context.time_base = MILLISECOND
            voice = container.add_stream("aac", rate=16000, layout="mono") if sound else None
            for number in range(frames):
                frame = av.VideoFrame.from_ndarray(grey(number, size), "rgb24")
                if times is not None:
                    frame.pts, frame.time_base = times[number], MILLISECOND
                container.mux(stream.encode(frame))
            container.mux(stream.encode())
            if voice is not None:
                tone = av.AudioFrame.from_ndarray(np.zeros((1, 16000), np.float32), "fltp", "mono")
                tone.rate = 16000
                container.mux(voice.encode(tone))
                container.mux(voice.encode())
        return path

    return make


@pytest.fixture
def make_sound(tmp_path: Path) -> Callable[..., Path]:
    """Write a sound from (channels, samples) floats in -1..1."""

    def make(
        name: str, samples: np.ndarray, *, rate: int = 48000, codec: str = "pcm_s16le", layout: str = "mono"
    ) -> Path:
        path = tmp_path / name
        with av.open(str(path), "w") as container:
            stream = container.add_stream(codec, rate=rate, layout=layout)
            frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples, np.float32), "fltp", layout)
            frame.rate = rate
            container.start_encoding()
            blocks = av.AudioResampler(stream.format, layout, rate, frame_size=stream.frame_size)
            for block in blocks.resample(frame) if samples.size else ():
                container.mux(stream.encode(block))
            container.mux(stream.encode())
        return path

    return make
