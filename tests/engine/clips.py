"""Clips made in tests: lossless, so that what the model sees is exactly what was drawn."""

from __future__ import annotations

import io
from fractions import Fraction

import av
import numpy as np
from numpy.typing import NDArray

VIDEO = "<|vision_start|><|video_pad|><|vision_end|>"


def clip(frames: NDArray[np.uint8], fps: int = 2) -> bytes:
    """A Matroska file of frames ``(n, height, width, 3)``."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="matroska") as container:
        stream = container.add_stream("ffv1", rate=Fraction(fps))
        stream.height, stream.width = frames.shape[1:3]
        stream.pix_fmt = "bgr0"
        for pixels in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())
    return buffer.getvalue()


def blobs(count: int, width: int = 64, height: int = 64, seed: int = 0) -> NDArray[np.uint8]:
    """Soft random frames ``(count, height, width, 3)``."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 255, (count, height // 16, width // 16, 3), dtype=np.uint8)
    return coarse.repeat(16, axis=1).repeat(16, axis=2)
