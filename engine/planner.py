"""Which unit of work comes next, and how large: plain decisions, no MLX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from engine.cost_model import CostModel

Kind = Literal["decode", "prefill", "vision", "store"]

FIRST_IDLE_CHUNK = 64
"""The first chunk of a model nobody has measured yet, when no row decodes."""
IDLE_FACTOR = 12
"""Budgets a unit may take while no row decodes: Stop and newcomers still get in soon."""


@dataclass(frozen=True, slots=True)
class PrefillState:
    """One prefill as the planner sees it: ``remaining`` tokens up to its next boundary, or a picture to encode."""

    request_id: str
    remaining: int
    vision: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """The next unit: decode steps, prompt ``tokens`` in forwards of ``size``, or a run of tower blocks.

    All within a budget; a decode unit without one is one step.
    """

    kind: Kind
    request_id: str = ""
    tokens: int = 0
    size: int = 0
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
        tokens, size = self._chunk(budget, bool(decoding))
        return Decision("prefill", state.request_id, min(tokens, state.remaining), size, budget)

    def _whose_turn(self, prefills: Sequence[PrefillState]) -> PrefillState:
        """The one that has waited longest for a turn; newcomers come first, in order of arrival."""
        alive = {state.request_id for state in prefills}
        self._turns = {key: turn for key, turn in self._turns.items() if key in alive}
        chosen = min(prefills, key=lambda state: self._turns.get(state.request_id, 0))
        self._turn += 1
        self._turns[chosen.request_id] = self._turn
        return chosen

    def _chunk(self, budget_s: float, decoding: bool) -> tuple[int, int]:
        """(tokens of the unit, tokens of each forward)."""
        if decoding and self.chunked_prefill_tokens:
            size = min(self.chunked_prefill_tokens, self.prefill_step_size)
            return size, size
        if not decoding and not self.costs.largest():
            size = min(FIRST_IDLE_CHUNK, self.prefill_step_size)
            return size, size
        size = self.costs.best_size(budget_s, self.prefill_step_size)
        cost = self.costs.predict(size)
        self.budget_missed = decoding and cost is not None and cost > budget_s
        if size > 1 or not cost or not self.costs.measured(size):
            return size, size
        return max(min(int(budget_s / cost), self.prefill_step_size), 1), 1
