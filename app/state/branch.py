"""The turns of one chat as a tree: what was asked or answered in more than one way, and which way was shown last."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import uuid4

from app.state.title import numbered
from app.state.turn import Turn
from app.storage.conversations import ConversationRecord


@dataclass(frozen=True, slots=True)
class Offers:
    """What can be done with a turn now.

    Attributes:
        position: which of its variants it is, from 1.
        variants: how many there are.
        switch: another variant can be shown.
        edit: the question can be asked in other words.
        again: it can be answered again, as another variant.
        resume: the answer ended early and can be gone on with.
        fork: the chat up to here can become another one.
    """

    position: int = 1
    variants: int = 1
    switch: bool = False
    edit: bool = False
    again: bool = False
    resume: bool = False
    fork: bool = False


class Tree:
    """Turns under the turn that they follow; those under one parent are variants of each other, oldest first."""

    def __init__(self) -> None:
        """Start empty."""
        self._turns: dict[str, Turn] = {}
        self._under: dict[str | None, list[Turn]] = {}
        self._chosen: dict[str | None, Turn] = {}

    def fill(self, turns: Iterable[Turn]) -> None:
        """Take all turns at once, as they were written down: a question that waited may precede its parent."""
        self._turns = {turn.id: turn for turn in turns}
        for turn in self._turns.values():
            self.add(turn)

    def add(self, turn: Turn) -> None:
        """Put a turn under its parent, as the variant to be shown there; a lost parent makes it a first turn."""
        self._turns[turn.id] = turn
        if turn.parent_id not in self._turns:
            turn.parent_id = None
        self._under.setdefault(turn.parent_id, []).append(turn)
        self._chosen[turn.parent_id] = turn

    def remove(self, turn: Turn) -> None:
        """Take a turn out that nothing follows."""
        del self._turns[turn.id]
        self._under[turn.parent_id].remove(turn)
        if self._chosen[turn.parent_id] is turn:
            del self._chosen[turn.parent_id]

    def get(self, turn_id: str | None) -> Turn | None:
        """The turn of that id, if it is one of them."""
        return self._turns.get(turn_id or "")

    def newest(self) -> Turn | None:
        """The turn that was added last."""
        return next(reversed(self._turns.values()), None)

    def under(self, turn: Turn | None) -> tuple[Turn, ...]:
        """What follows a turn, or the first turns of the chat."""
        return tuple(self._under.get(turn.id if turn else None, ()))

    def variants(self, turn: Turn) -> tuple[Turn, ...]:
        """The turn and its siblings, oldest first."""
        return tuple(self._under.get(turn.parent_id, ())) if turn.id in self._turns else (turn,)

    def through(self, turn: Turn | None) -> list[Turn]:
        """The branch from the first turn over this one down to an end, where possible as it was shown last."""
        branch = self._down_to(turn)
        while below := self.under(branch[-1] if branch else None):
            branch.append(self._chosen.get(branch[-1].id if branch else None, below[-1]))
        return branch

    def _down_to(self, turn: Turn | None) -> list[Turn]:
        branch: list[Turn] = []
        while turn is not None:
            branch.append(turn)
            self._chosen[turn.parent_id] = turn
            turn = self.get(turn.parent_id)
        return branch[::-1]


def offers(tree: Tree, branch: Sequence[Turn], turn_id: str, *, rests: bool) -> Offers:
    """What can be done with a turn of the branch that is shown; `rests` tells that no answer is being made."""
    turn = next((turn for turn in branch if turn.id == turn_id), None)
    if turn is None or turn.state == "queued":
        return Offers()
    variants, mine = tree.variants(turn), turn.role == "user"
    return Offers(
        position=variants.index(turn) + 1,
        variants=len(variants),
        switch=rests and len(variants) > 1,
        edit=rests and mine,
        again=rests and not mine,
        resume=rests and turn is branch[-1] and turn.early,
        fork=turn.state != "live",
    )


def branch_off(
    record: ConversationRecord, branch: Sequence[Turn], turn_id: str, now: float
) -> tuple[ConversationRecord, list[Turn]]:
    """A new conversation that has the same turns up to one of them, as copies."""
    copies: list[Turn] = []
    for turn in branch:
        copies.append(turn.copy(copies[-1].id if copies else None))
        if turn.id == turn_id:
            break
    title = numbered(record.title, ())
    return ConversationRecord(uuid4().hex, title, True, now, now, record.system_prompt, record.sampling), copies
