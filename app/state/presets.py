"""The person's presets: system prompts with sampling, by name, for any chat."""

from __future__ import annotations

from pydantic import ValidationError
from PySide6.QtCore import QObject, Signal

from app.presets import Preset, Sampling
from app.state.preferences import Preferences


class Presets(QObject):
    """All presets, in alphabetical order, kept in the settings.

    Signals:
        changed: one was saved or removed.
    """

    changed = Signal()

    def __init__(self, preferences: Preferences, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._preferences = preferences

    @property
    def all(self) -> tuple[Preset, ...]:
        """Every preset."""
        return self._preferences.settings.presets

    def save(self, name: str, system_prompt: str, sampling: Sampling) -> str | None:
        """Keep choices under a name, in the place of those that had it; returns why not, in a sentence."""
        try:
            preset = Preset(name=name.strip(), system_prompt=system_prompt, sampling=sampling)
        except ValidationError:
            return "A preset needs a name of at most 80 characters, and a system prompt of at most 100,000."
        self._put([*(each for each in self.all if each.name != preset.name), preset])
        return None

    def remove(self, name: str) -> None:
        """Forget a preset; chats that use it stay as they are."""
        self._put([each for each in self.all if each.name != name])

    def _put(self, presets: list[Preset]) -> None:
        self._preferences.settings.presets = tuple(sorted(presets, key=lambda each: each.name.casefold()))
        self._preferences.keep()
        self.changed.emit()
