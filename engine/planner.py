"""Which unit of work comes next, and how large: plain decisions, no MLX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["decode", "prefill", "vision", "store"]

SMALLEST_CHUNK = 16
FIRST_IDLE_CHUNK = 64
"""The first chunk of a model nobody has measured yet, when no row decodes."""
MISS_FACTOR = 4
"""Where even the smallest chunk misses the budget, chunks of up to this many budgets are considered."""
IDLE_FACTOR = 8
"""Budgets a unit may take while no row decodes: Stop and newcomers still get in soon."""
GROWTH = 4
"""A chunk is at most this many times larger than the largest one measured."""


@dataclass(slots=True)
class CostModel:
    """Seconds of a prefill chunk by its size, learnt from measurements.

    Cost is not linear in tokens (on a CPU two tokens may cost ten times one), so each power-of-two size is measured by
    itself; sizes not yet measured are scaled from their nearest neighbour.
    """

    _seconds: dict[int, float] = field(default_factory=dict)

    def learn(self, tokens: int, seconds: float) -> None:
        """Take in one measured chunk; only full powers of two count, rests would blur them."""
        if tokens in _sizes(tokens):
            old = self._seconds.get(tokens, seconds)
            self._seconds[tokens] = old + 0.3 * (seconds - old)

    def predict(self, tokens: int) -> float | None:
        """Expected seconds of a chunk, or None when nothing has been measured."""
        if not self._seconds:
            return None
        near = min(self._seconds, key=lambda size: abs(size - tokens))
        scale = tokens / near if tokens > near else max(tokens / near, 0.5)
        return self._seconds.get(tokens, self._seconds[near] * scale)

    def largest(self) -> int:
        """The largest size measured; 0 before the first."""
        return max(self._seconds, default=0)

    def best_chunk(self, budget_s: float, most: int) -> int:
        """The largest size within the budget; where none is, the best tokens per second within four budgets."""
        reach = max(self.largest() * GROWTH, SMALLEST_CHUNK)
        costs = {size: self.predict(size) for size in _sizes(min(most, reach))}
        known = {size: cost for size, cost in costs.items() if cost is not None}
        if not known:
            return min(SMALLEST_CHUNK, most)
        if within := [size for size, cost in known.items() if cost <= budget_s]:
            return max(within)
        near = [size for size, cost in known.items() if cost <= MISS_FACTOR * budget_s]
        return max(near, key=lambda size: size / known[size]) if near else min(known)


def _sizes(most: int) -> list[int]:
    """Chunk sizes to choose from: powers of two from the smallest up to ``most``, or ``most`` itself if smaller."""
    sizes = []
    size = SMALLEST_CHUNK
    while size <= most:
        sizes.append(size)
        size *= 2
    return sizes or [most]


@dataclass(frozen=True, slots=True)
class PrefillState:
    """One prefill as the planner sees it: ``remaining`` tokens up to its next boundary, or a picture to encode."""

    request_id: str
    remaining: int
    vision: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """The next unit: decode steps, a chunk of ``tokens``, a run of tower blocks, or storing what has ended.

    A decode unit without a budget is one step; a chunk of no tokens takes over a stored prefix.
    """

    kind: Kind
    request_id: str = ""
    tokens: int = 0
    budget_s: float = 0.0


@dataclass(slots=True)
class Planner:
    """Alternates decode steps with prefill units; prefills take turns in the order of their last turn."""

    unit_budget_ms: float
    prefill_step_size: int
    chunked_prefill_tokens: int = 0
    costs: CostModel = field(default_factory=CostModel)
    budget_missed: bool = False
    _decoded_last: bool = False
    _turns: dict[str, int] = field(default_factory=dict)
    _turn: int = 0

    def next(self, decoding: int, prefills: Sequence[PrefillState]) -> Decision | None:
        """Choose the next unit.

        Args:
            decoding: rows that can take a decode step.
            prefills: in order of arrival.

        Returns:
            None when there is nothing to do.
        """
        if decoding and not (prefills and self._decoded_last):
            self._decoded_last = True
            return Decision("decode", budget_s=0.0 if prefills else self.unit_budget_ms / 1000)
        self._decoded_last = False
        if not prefills:
            return None
        state = self._whose_turn(prefills)
        budget = self.unit_budget_ms / 1000 * (1 if decoding else IDLE_FACTOR)
        if state.vision:
            return Decision("vision", state.request_id, budget_s=budget)
        return Decision("prefill", state.request_id, min(self._chunk(budget, bool(decoding)), state.remaining), budget)

    def _whose_turn(self, prefills: Sequence[PrefillState]) -> PrefillState:
        """The one that has waited longest for a turn; newcomers come first, in order of arrival."""
        alive = {state.request_id for state in prefills}
        self._turns = {key: turn for key, turn in self._turns.items() if key in alive}
        chosen = min(prefills, key=lambda state: self._turns.get(state.request_id, 0))
        self._turn += 1
        self._turns[chosen.request_id] = self._turn
        return chosen

    def _chunk(self, budget_s: float, decoding: bool) -> int:
        if decoding and self.chunked_prefill_tokens:
            return min(self.chunked_prefill_tokens, self.prefill_step_size)
        if not decoding and not self.costs.largest():
            return min(FIRST_IDLE_CHUNK, self.prefill_step_size)
        size = self.costs.best_chunk(budget_s, self.prefill_step_size)
        self.budget_missed = decoding and (self.costs.predict(size) or 0.0) > budget_s
        return size
