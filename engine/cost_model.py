"""What a forward over n prompt tokens costs, learnt from measurements, and which n is best: plain numbers, no MLX."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

SMALLEST_CHUNK = 8
"""Sizes below this are not tried, except single tokens."""
MISS_FACTOR = 4
"""Where no size keeps the budget, or none that does is worth it, sizes of up to this many budgets are considered."""
PATIENCE = 4
"""A size that misses the budget must be this many times faster per token than all that keep it."""
GROWTH = 2
"""A size is tried when it is at most this many times larger than the largest one measured."""
_SURPRISE = 1.5
"""A first sample this many times above expectation may have compiled kernels and is taken again."""
_TRIAL_FACTOR = 1.3
"""Budgets that a size may be expected to take when it is tried, where smaller ones keep the budget."""
_STALE = 256
"""Measured forwards after which a size in use is measured again: machines change."""


@dataclass(slots=True)
class _Cost:
    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=4))
    doubtful: bool = False
    seen: int = 0

    @property
    def value(self) -> float:
        """The least of the newest samples: noise only ever adds."""
        return min(self.seconds)


@dataclass(slots=True)
class CostModel:
    """Seconds of a forward over n prompt tokens, learnt from measurements.

    Cost is not linear in tokens: a GPU may take as long for 16 as for 1,000, and a single token is a case of its own.
    So single tokens and each power of two are measured by themselves, and what lies beyond is expected to grow as it
    did between the two largest.
    """

    _costs: dict[int, _Cost] = field(default_factory=dict)
    _forwards: int = 0

    def learn(self, tokens: int, seconds: float) -> None:
        """Take in one measured forward; rests of prompts are of odd sizes and would blur the picture."""
        if tokens != 1 and (tokens < SMALLEST_CHUNK or tokens not in _sizes(tokens)):
            return
        expected = self.predict(tokens)
        self._forwards += 1
        cost = self._costs.setdefault(tokens, _Cost())
        cost.doubtful = not cost.seconds and (expected is None or seconds > _SURPRISE * expected)
        cost.seconds.append(seconds)
        cost.seen = self._forwards

    def predict(self, tokens: int) -> float | None:
        """Expected seconds of a forward, or None when nothing has been measured."""
        return self._costs[tokens].value if tokens in self._costs else self._expect(tokens)

    def measured(self, tokens: int) -> bool:
        """Whether this very size has been measured."""
        return tokens in self._costs

    def largest(self) -> int:
        """The largest size measured; 0 before the first."""
        return max(self._costs, default=0)

    def best_size(self, budget_s: float, most: int) -> int:
        """The size with the most tokens per second among those that keep the budget.

        Where none does, or where those within four budgets are far faster: among the latter; else the least. What may
        be better but was never measured, or not reliably, or long ago, is tried first.
        """
        sizes = _sizes(min(most, max(self.largest() * GROWTH, SMALLEST_CHUNK)))
        if (first := sizes[:2][-1]) not in self._costs and first >= SMALLEST_CHUNK:
            return first
        kept = self._largest_within(budget_s, sizes)
        settled = kept if kept > 1 else self._largest_within(MISS_FACTOR * budget_s, sizes)
        allowed_s = budget_s * (_TRIAL_FACTOR if kept > 1 else MISS_FACTOR)
        if due := [size for size in sizes if self._due(size, settled, allowed_s)]:
            return max(due)
        if not kept and 1 not in self._costs:
            return 1
        costs = {size: self.predict(size) or 1e-9 for size in sizes}
        keeps, fast = (self._fastest(costs, limit_s) for limit_s in (budget_s, MISS_FACTOR * budget_s))
        if keeps and PATIENCE * keeps / costs[keeps] >= fast / costs[fast]:
            return keeps
        return fast or min(costs, key=costs.__getitem__)

    @staticmethod
    def _fastest(costs: dict[int, float], limit_s: float) -> int:
        """The size with the most tokens per second within a limit; 0 where none is."""
        within = [size for size, cost in costs.items() if cost <= limit_s]
        return max(within, key=lambda size: (size / costs[size], size), default=0)

    def _largest_within(self, limit_s: float, sizes: Sequence[int]) -> int:
        """The largest size known to keep a limit; 0 where none does."""
        return max((size for size in sizes if size in self._costs and self._costs[size].value <= limit_s), default=0)

    def _due(self, size: int, settled: int, allowed_s: float) -> bool:
        """Whether to try a size beyond the largest that is settled, or to measure it again.

        One sample rules nothing out: on a GPU it holds what every new shape costs once.
        """
        cost = self._costs.get(size)
        if cost is None or cost.doubtful or len(cost.seconds) == 1:
            return size > settled and (self._expect(size) or 0.0) <= allowed_s
        return size >= settled and self._forwards - cost.seen >= _STALE and cost.value <= allowed_s

    def _expect(self, tokens: int) -> float | None:
        """Seconds of a size going by others alone, doubtful ones only if there are no others."""
        known = {size: cost for size, cost in self._costs.items() if size > 1 and size != tokens}
        sure = {size: cost.value for size, cost in known.items() if not cost.doubtful}
        sure = sure or {size: cost.value for size, cost in known.items()}
        below = sorted(size for size in sure if size < tokens)[-2:]
        if len(below) == 2:
            first, second = below
            slope = max(sure[second] - sure[first], 0.0) / (second - first)
            return sure[second] + slope * (tokens - second)
        near = min(sure, key=lambda size: abs(size - tokens), default=None)
        return None if near is None else sure[near] * (2 + tokens / near) / 3  # two thirds of it as if it did not grow


def _sizes(most: int) -> list[int]:
    """Sizes to choose from: a single token, and powers of two from the smallest chunk up to ``most``."""
    sizes = [1]
    size = SMALLEST_CHUNK
    while size <= most:
        sizes.append(size)
        size *= 2
    return sizes if most >= SMALLEST_CHUNK or most == 1 else [1, most]
