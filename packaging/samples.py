"""Makes resources/selftest: the smallest files of every kind that the self-test reads. Run it after changing it."""

from __future__ import annotations

import wave
from pathlib import Path

import av
import contents
import numpy as np
import pillow_heif
from PIL import Image

FOLDER = contents.ROOT / "resources" / "selftest"
LEFT, RIGHT = (200, 40, 40), (40, 60, 200)
WIDTH, HEIGHT = 96, 64
FPS, SECONDS = 10, 1
TONE_HZ, RATE = 440, 8000


def picture() -> Image.Image:
    """Red on the left, blue on the right."""
    pixels = np.empty((HEIGHT, WIDTH, 3), np.uint8)
    pixels[:, : WIDTH // 2], pixels[:, WIDTH // 2 :] = LEFT, RIGHT
    return Image.fromarray(pixels)


def pictures() -> None:
    """Write PNG, JPEG, HEIC, an animated GIF and a PDF page."""
    image = picture()
    for suffix in ("png", "jpg", "pdf"):
        image.save(FOLDER / f"halves.{suffix}")
    image.save(FOLDER / "halves.gif", save_all=True, append_images=[image.point(lambda v: v // 2)], duration=500)
    pillow_heif.from_pillow(image).save(FOLDER / "halves.heic", quality=90)


def clip(path: Path, codec: str) -> None:
    """Write one second of the picture."""
    with av.open(path, "w") as container:
        stream = container.add_stream(codec, rate=FPS)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        for _ in range(FPS * SECONDS):
            container.mux(stream.encode(av.VideoFrame.from_image(picture())))
        container.mux(stream.encode())


def tone(path: Path) -> None:
    """Write half a second of a pure tone."""
    times = np.arange(RATE // 2) / RATE
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes((np.sin(2 * np.pi * TONE_HZ * times) * 12000).astype("<i2").tobytes())


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    pictures()
    clip(FOLDER / "halves.mp4", "libx264")
    clip(FOLDER / "halves.webm", "libvpx-vp9")
    tone(FOLDER / "tone.wav")
