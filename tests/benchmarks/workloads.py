"""The workloads: who asks what, and when."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

_WORDS = "the quick brown fox jumps over the lazy dog while seven wizards count every single star above "
Spec = dict[str, Any]


def picture(folder: Path, number: int, size: int = 224) -> str:
    """A coloured circle, another one for every number."""
    path = folder / f"picture-{size}-{number}.png"
    image = Image.new("RGB", (size, size), (252, 252, 252))
    left = size // 8 + number * 7 % (size // 4)
    ImageDraw.Draw(image).ellipse((left, left, left + size // 2, left + size // 2), fill=(200, 30 + 20 * number, 60))
    image.save(path)
    return str(path)


def words(tokens: int, per_word: float = 1.0) -> str:
    """About so many tokens of text."""
    count = int(tokens / per_word)
    return " ".join((_WORDS * (count // 17 + 1)).split()[:count])


def warm_up(folder: Path, size: int = 224) -> Spec:
    """A picture and a text beside each other, so that every kernel has run once."""
    return {
        "requests": [
            {"text": "hello", "max_tokens": 8},
            {"text": "Describe this image.", "images": [picture(folder, 99, size)], "max_tokens": 8},
        ]
    }


def eight_chats(folder: Path, model: str, max_tokens: int, every_s: float) -> Spec:
    """Four chats with a picture and four of text, of different lengths, arriving one after another."""
    requests = []
    for number in range(8):
        images = [picture(folder, number)] if number % 2 else []
        text = words(20 + 45 * number)
        requests.append({"at": number * every_s, "text": text, "images": images, "max_tokens": max_tokens})
    return {"model": model, "warm_up": warm_up(folder), "requests": requests}


def short_behind_long(folder: Path, model: str, long_tokens: int, at_s: float, stream_tokens: int) -> Spec:
    """Three chats decode; a long prompt arrives, and a short question right after it."""
    requests: list[dict[str, Any]] = [
        {"at": 0.0, "text": f"Tell story number {number}.", "max_tokens": stream_tokens} for number in range(3)
    ]
    requests.append({"at": at_s, "text": words(long_tokens), "max_tokens": 4})
    requests.append({"at": at_s + 0.1, "text": words(24), "max_tokens": 16})
    return {"model": model, "warm_up": warm_up(folder), "requests": requests}
