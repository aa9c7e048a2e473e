"""The line under a message: what it cost or what is happening, and its actions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QWidget

from app.views.buttons import QuietButton
from app.views.theme import set_font

if TYPE_CHECKING:
    from app.state.conversation import AnswerFacts


def facts_line(facts: AnswerFacts) -> str:
    """What an answer cost, in words and units."""
    parts = [f"{facts.completion_tokens} token{'' if facts.completion_tokens == 1 else 's'}"]
    if facts.tokens_per_second is not None:
        parts.append(f"{_figures(facts.tokens_per_second)} tok/s")
    if facts.ttft_s is not None:
        parts.append(f"{_figures(facts.ttft_s)} s to first token")
    if facts.cached_tokens:
        reused = round(100 * facts.cached_tokens / facts.prompt_tokens)
        parts.append(f"{reused} % of {facts.prompt_tokens} prompt tokens reused")
    elif facts.prompt_tokens:
        parts.append(f"{facts.prompt_tokens} prompt tokens")
    return " · ".join(parts)


def _figures(value: float) -> str:
    """At most three significant digits, never an exponent."""
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"


class Footer(QWidget):
    """The line under a message: what it cost or what is happening, and its actions."""

    def __init__(self, parent: QWidget | None = None, *, right: bool = False) -> None:
        super().__init__(parent)
        self.setFixedHeight(28)
        self.label = QLabel(self)
        self.label.setObjectName("muted")
        set_font(self.label, 12)
        self.label.setTextFormat(Qt.TextFormat.PlainText)
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.setSpacing(4)
        self.buttons: list[QuietButton] = []
        self._row.addWidget(self.label, 1)
        self.label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        if right:
            self.label.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)

    def add(self, button: QuietButton) -> None:
        """Append an action."""
        self.buttons.append(button)
        self._row.addWidget(button)

    def say(self, text: str) -> None:
        """Show one line; nothing is laid out again when it has not changed."""
        if text != self.label.text():
            self.label.setText(text)

    def show_ink(self, shown: bool) -> None:
        """Draw the actions or leave their places empty."""
        for button in self.buttons:
            button.show_ink(shown)
