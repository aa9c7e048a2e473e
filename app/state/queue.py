"""Questions that wait for the answer being written: each can be changed, moved or taken back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QObject, Signal

from app.state.turn import Turn


class Queue(QObject):
    """The waiting questions of one chat; they stand at the end of its turns.

    Signals:
        changed: one was changed, moved or taken back here.
    """

    changed = Signal()

    def __init__(
        self,
        turns: Callable[[], list[Turn]],
        keep: Callable[[Sequence[Turn]], None],
        remove: Callable[[Turn], None],
        parent: QObject | None = None,
    ) -> None:
        """Take the chat's turns.

        Args:
            turns: of the chat, to be changed in place.
            keep: writes waiting turns to the library, in this order.
            remove: takes a turn out of the chat and the library.
            parent: in Qt's sense.
        """
        super().__init__(parent)
        self._turns, self._keep, self._remove = turns, keep, remove

    @property
    def waiting(self) -> tuple[Turn, ...]:
        """Those behind an answer; a first question that only waits for the model is no part of it."""
        turns = self._turns()
        start = len(turns)
        while start and turns[start - 1].state == "queued":
            start -= 1
        answering = start > 0 and turns[start - 1].state == "live"
        return tuple(turns[start if answering else start + 1 :])

    def edit(self, turn_id: str, text: str) -> None:
        """Ask in other words; without words and media nothing is left to ask."""
        turn = self._turn(turn_id)
        if turn is None or turn.text == text:
            return
        if not text.strip() and not turn.attachments:
            self.cancel(turn_id)
            return
        turn.text = text
        self._keep([turn])
        self.changed.emit()

    def move(self, turn_id: str, to: int) -> None:
        """Give one another place among those that wait, from 0."""
        turn, waiting = self._turn(turn_id), list(self.waiting)
        if turn is None or waiting.index(turn) == to or not 0 <= to < len(waiting):
            return
        waiting.insert(to, waiting.pop(waiting.index(turn)))
        turns = self._turns()
        turns[len(turns) - len(waiting) :] = waiting
        self._keep(waiting)
        self.changed.emit()

    def cancel(self, turn_id: str) -> None:
        """Take one back for good."""
        turn = self._turn(turn_id)
        if turn is not None:
            self._remove(turn)
            self.changed.emit()

    def _turn(self, turn_id: str) -> Turn | None:
        return next((turn for turn in self.waiting if turn.id == turn_id), None)
