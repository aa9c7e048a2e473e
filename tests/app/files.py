"""Files of every kind that can be attached, made on the spot."""

from __future__ import annotations

import wave
import zlib
from collections.abc import Sequence
from pathlib import Path

import av
import numpy as np
from PIL import Image


def picture(path: Path, size: tuple[int, int] = (40, 30), colour: str = "red") -> Path:
    """A picture of one colour, in the format of its name."""
    Image.new("RGB", size, colour).save(path)
    return path


def torn(path: Path) -> Path:
    """A JPEG whose lower half is missing."""
    noise = np.random.default_rng(0).integers(0, 255, (256, 256, 3), np.uint8)
    Image.fromarray(noise).save(path, "JPEG")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    return path


def clip(path: Path, frames: int = 20, rate: int = 10, size: tuple[int, int] = (64, 48)) -> Path:
    """A clip that grows brighter with every frame."""
    shown = [np.full((size[1], size[0], 3), 10 + number * 200 // frames, np.uint8) for number in range(frames)]
    return clip_of(path, shown, rate)


def clip_of(path: Path, frames: Sequence[np.ndarray], rate: int) -> Path:
    """A clip of these frames, each (height, width, 3) uint8."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=rate)
        stream.height, stream.width = frames[0].shape[:2]
        stream.pix_fmt = "yuv420p"
        stream.bit_rate = 4_000_000
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, "rgb24")))
        container.mux(stream.encode())
    return path


def animation(path: Path, colours: Sequence[str] = ("red", "lime", "blue")) -> Path:
    """An animation with a second for each colour, in the format of its name."""
    first, *others = (Image.new("RGB", (32, 32), colour) for colour in colours)
    first.save(path, save_all=True, append_images=others, duration=1000)
    return path


def sound(path: Path, seconds: float = 1.0) -> Path:
    """A WAV file with a tone that swells."""
    time = np.arange(int(16000 * seconds)) / 16000
    samples = np.sin(2 * np.pi * 440 * time) * np.linspace(0, 0.9, time.size)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes((samples * 32767).astype("<i2").tobytes())
    return path


def document(path: Path, pages: int = 3) -> Path:
    """A PDF document with pages of different colours."""
    first, *others = (Image.new("RGB", (120, 160), (40 * number % 256, 90, 160)) for number in range(pages))
    first.save(path, "PDF", save_all=True, append_images=others)
    return path


def png_header(path: Path, side: int = 20_000) -> Path:
    """A PNG that claims to be `side` x `side` pixels, and holds next to none."""
    Image.new("1", (8, 8)).save(path)
    data = bytearray(path.read_bytes())
    data[16:24] = side.to_bytes(4, "big") * 2
    data[29:33] = zlib.crc32(bytes(data[12:29])).to_bytes(4, "big")
    path.write_bytes(bytes(data))
    return path
