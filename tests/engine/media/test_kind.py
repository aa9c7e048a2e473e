"""The reader a file is for, whatever its name says."""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pillow_heif
import pytest
from PIL import Image

from engine.errors import MediaError
from engine.media.kind import kind_of

Make = Callable[..., Path]


def picture(image_format: str, frames: int = 1) -> bytes:
    stream = io.BytesIO()
    first, *rest = (Image.new("RGB", (16, 16), (80 * number, 0, 0)) for number in range(frames))
    animated = {"save_all": True, "append_images": rest} if rest else {}
    first.save(stream, image_format, **animated)
    return stream.getvalue()


@pytest.mark.parametrize(
    "image_format", ["JPEG", "PNG", "GIF", "WEBP", "AVIF", "TIFF", "BMP", "ICO", "JPEG2000", "PPM"]
)
def test_still_pictures(image_format: str) -> None:
    assert kind_of(picture(image_format)) == "image"


def test_heic() -> None:
    stream = io.BytesIO()
    pillow_heif.from_pillow(Image.new("RGB", (64, 64))).save(stream)
    assert kind_of(stream.getvalue()) == "image"


@pytest.mark.parametrize("image_format", ["GIF", "WEBP", "PNG", "AVIF"])
def test_only_what_moves_is_a_video(image_format: str) -> None:
    assert kind_of(picture(image_format, 3)) == "video"


def test_pages_do_not_move() -> None:
    assert kind_of(picture("TIFF", 3)) == "image"


@pytest.mark.parametrize(
    ("name", "codec"),
    [("a.mp4", "libx264"), ("a.mov", "libx264"), ("a.webm", "libvpx"), ("a.avi", "mpeg4"), ("a.ts", "libx264")],
)
def test_clips_under_a_wrong_name(make_clip: Make, name: str, codec: str) -> None:
    path = make_clip(name, 3, codec=codec)
    assert kind_of(path.rename(path.with_name("cat.jpg"))) == "video"


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("a.wav", "pcm_s16le"),
        ("a.mp3", "libmp3lame"),
        ("a.m4a", "aac"),
        ("a.mp4", "aac"),
        ("a.flac", "flac"),
        ("a.ogg", "libopus"),
        ("a.mka", "libopus"),
        ("a.aac", "aac"),
    ],
)
def test_sounds_under_a_wrong_name(make_sound: Make, name: str, codec: str) -> None:
    path = make_sound(name, np.zeros((1, 9600)), codec=codec)
    assert kind_of(path.rename(path.with_name("cat.jpg"))) == "audio"


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"%PDF-1.4\n", "pdf"),
        (b"plain words", None),
        ("日本語の文".encode("utf-16"), None),
        (b"PK\x03\x04", None),
        (b"<!doctype html>", None),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", None),
        (bytes(range(128, 256)), None),
        (b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom" + b"\0" * 40, "video"),
        (b"\x89PNG\r\n\x1a\n and no more", "image"),
    ],
)
def test_other_content(content: bytes, kind: str | None) -> None:
    assert kind_of(content) == kind


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(MediaError, match="could not be found"):
        kind_of(tmp_path / "gone.png")
