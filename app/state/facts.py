"""The few words that tell how large a piece of media is."""

from __future__ import annotations

from app.state.attachment import Attachment
from app.state.preview import clock
from engine.media.sampling import frame_times


def facts(item: Attachment, sampling: tuple[float, int]) -> str:
    """Such as "0:12 · 24 frames"; `sampling` is how clips are sampled: frames per second, most frames."""
    match item.kind:
        case "video":
            return f"{length(item.seconds)} · {frame_count(item, sampling)} frames"
        case "audio":
            return length(item.seconds)
        case "pdf":
            return pages(item)
        case "text":
            return weight(item.size)
    return f"{item.width} × {item.height}"


def frame_count(item: Attachment, sampling: tuple[float, int]) -> int:
    """Frames that a model is shown of a clip."""
    fps, most = sampling
    return len(frame_times(item.seconds, item.excerpt.fps or fps, most, item.excerpt.start, item.excerpt.end))


def length(seconds: float) -> str:
    """How long something lasts; tenths where it is short."""
    return f"{seconds:.1f} s" if seconds < 10 else clock(seconds, 0)


def weight(size: int) -> str:
    """Bytes as kB or MB."""
    return f"{size / 1e6:.1f} MB" if size >= 100_000 else f"{size / 1e3:.1f} kB"


def pages(item: Attachment) -> str:
    """Which pages of a document are sent."""
    first, last = item.excerpt.first or 1, min(item.excerpt.last or item.pages, item.pages)
    if (first, last) == (1, item.pages):
        return "1 page" if item.pages == 1 else f"{item.pages} pages"
    return f"page {first} of {item.pages}" if first == last else f"pages {first}–{last} of {item.pages}"
