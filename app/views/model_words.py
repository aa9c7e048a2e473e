"""A model's figures in words: what it takes, how large it is, whether it fits, how its download is getting on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.state.download import Download
    from app.state.model import Model
    from app.state.models import Entry

_KINDS = (("image", "Pictures"), ("video", "Clips"), ("audio", "Sound"))
_VERDICTS = {"fits": "Fits", "tight": "Tight", "too large": "Too large"}
_FULL_PRECISION = {"bfloat16": "16 bit", "float16": "16 bit", "float32": "32 bit"}


def size(count: float) -> str:
    """Bytes with at most three significant digits."""
    value, unit = (count / 1e9, "GB") if count >= 0.9995e9 else (count / 1e6, "MB")
    return f"{value:.0f} {unit}" if value >= 99.95 else f"{value:.3g} {unit}"


def badges(entry: Entry) -> tuple[str, ...]:
    """What it takes and how it is stored, a word or two each."""
    card = entry.model.card
    if card is None:
        return ()
    taken = tuple(word for kind, word in _KINDS if kind in card.takes) or ("Text only",)
    head = ("MTP",) if entry.model.weights.prediction_head else ()
    return (*taken, _FULL_PRECISION.get(card.precision, card.precision), *head)


def figures(entry: Entry) -> str:
    """Its size and its longest conversation."""
    card = entry.model.card
    parts = [f"{size(entry.model.disk_bytes)} on disk"]
    if card is not None and card.context:
        context = f"{card.context // 1024}k" if card.context >= 1024 else str(card.context)
        parts.append(f"{context} tokens of context")
    return " · ".join(parts)


def fit(entry: Entry) -> tuple[str, str]:
    """Whether it fits this machine, in a word and in numbers."""
    found = entry.fit
    if found is None:
        return "", ""
    numbers = f"needs {size(found.need)} of {size(found.budget)}"
    return _VERDICTS[found.verdict], numbers


def fit_explained(entry: Entry) -> str:
    """What the numbers are made of."""
    found = entry.fit
    if found is None:
        return ""
    return (
        f"{size(found.weights)} for the model and {size(found.chat)} for one chat of {found.tokens} tokens; "
        f"this computer has room for {size(found.budget)}."
    )


def taken(model: Model) -> str:
    """What the loaded model takes."""
    words = [word.lower() for kind, word in _KINDS if kind in model.takes]
    return f"takes {', '.join(words)}" if words else "text only"


def progress(download: Download) -> str:
    """How far a download is."""
    if download.state == "failed":
        return download.error or ""
    received = f"{size(download.done)} of {size(download.total)}" if download.total else "Asking the hub"
    if download.state == "paused":
        return f"Paused · {received}"
    if download.stage == "Checking":
        return f"Checking what has come · {received}"
    speed = f"{size(download.rate)}/s" if download.rate else ""
    left = f"{duration(download.remaining_s)} left" if download.remaining_s is not None and speed else ""
    return " · ".join(part for part in (received, speed, left) if part)


def duration(seconds: float) -> str:
    """About how long, in one or two units."""
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if rest and hours < 10 else f"{hours} h"
