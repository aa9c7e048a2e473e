"""What a chat is called and how it is to be answered, apart from what is said in it."""

from __future__ import annotations

import time
from uuid import uuid4

from PySide6.QtCore import QObject, Signal

from app.presets import Sampling
from app.state.keeper import Keeper
from app.state.title import NEW_TITLE
from app.state.turn import Turn
from app.storage.conversations import ConversationRecord


def fresh() -> ConversationRecord:
    """A conversation that nothing was said in."""
    now = time.time()
    return ConversationRecord(uuid4().hex, NEW_TITLE, named=False, created=now, updated=now)


class Identity(QObject):
    """A chat without its turns.

    Signals:
        title_changed: the new title.
        instructed: its system prompt or sampling changed.
        stored: it became part of the library, or its title or time changed there.
    """

    title_changed = Signal(str)
    instructed = Signal()
    stored = Signal()

    def __init__(self, keeper: Keeper, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.id = keeper.record.id
        self._keeper = keeper

    @property
    def title(self) -> str:
        """What it is called."""
        return self._keeper.record.title

    @property
    def updated(self) -> float:
        """When it was last said something in, Unix seconds."""
        return self._keeper.record.updated

    @property
    def kept(self) -> bool:
        """Whether it is part of the library."""
        return self._keeper.kept

    @property
    def system_prompt(self) -> str:
        """What the model is told before the first question; empty for nothing."""
        return self._keeper.record.system_prompt

    @property
    def sampling(self) -> Sampling:
        """How it is answered where that differs from the settings."""
        return Sampling.from_json(self._keeper.record.sampling)

    def instruct(self, system_prompt: str, sampling: Sampling) -> None:
        """Choose how the next answers are made."""
        if (system_prompt, sampling) != (self.system_prompt, self.sampling):
            self._keeper.change(system_prompt=system_prompt, sampling=sampling.to_json())
            self._keep()
            self.instructed.emit()

    def _set_title(self, title: str) -> None:
        if title != self.title:
            self._keeper.change(title=title)
            self.title_changed.emit(title)

    def _keep(self, turn: Turn | None = None) -> None:
        """Write the chat, and one turn of it, to the library."""
        self._keeper.keep(turn)
        self.stored.emit()
