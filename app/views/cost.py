"""What a draft would cost, in the few words that fit beside the button, and in full."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtWidgets import QLabel, QWidget

from app.views.theme import set_font

if TYPE_CHECKING:
    from app.state.forecast import Cost


class CostLabel(QLabel):
    """Tokens of the context's, such as "512 / 8k"; amber when they do not fit."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("muted")
        set_font(self, 12)

    def show_cost(self, cost: Cost | None) -> None:
        """Show this, or nothing while it is not known."""
        self.setText(
            "" if cost is None else f"{short(cost.tokens)}{'+' if cost.at_least else ''} / {short(cost.context)}"
        )
        self.setToolTip("" if cost is None else explained(cost))
        self.setAccessibleName("" if cost is None else explained(cost).replace("\n", ". "))
        name = "muted" if cost is None or cost.fits else "warning"
        if name != self.objectName():
            self.setObjectName(name)
            self.style().unpolish(self)
            self.style().polish(self)


def explained(cost: Cost) -> str:
    """The same in sentences."""
    if cost.at_least:
        return f"More than {cost.tokens:,} tokens; the model reads {cost.context:,}"
    words = cost.tokens - cost.media_tokens
    lines = [
        f"{cost.tokens:,} of {cost.context:,} tokens with the chat so far: "
        f"{cost.media_tokens:,} for media, {words:,} for words",
        f"Memory: {size(cost.kv_bytes)} for the chat" + _peak(cost.peak_bytes),
    ]
    if cost.seconds is not None:
        lines.append(f"Read in {_time(cost.seconds)} at most, at the speed measured so far")
    return "\n".join(lines)


def short(count: int) -> str:
    """A number of tokens with at most three or four digits."""
    if count and count % 1024 == 0:
        return f"{count // 1024}k"
    if count < 10_000:
        return f"{count:,}"
    return f"{count / 1000:.1f}k" if count < 100_000 else f"{count / 1000:.0f}k"


def size(count: int) -> str:
    """Bytes with three digits at most."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}" if count < 999.5 * scale else f"{count / scale:.0f} {unit}"
    return f"{count} bytes"


def _peak(count: int) -> str:
    return f", {size(count)} for a moment while it looks" if count else ""


def _time(seconds: float) -> str:
    if seconds < 1:
        return "1 s"
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
