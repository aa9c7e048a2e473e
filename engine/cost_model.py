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
_STALE = 32
"""Measured forwards after which a size is measured again, doubled with each of its samples: machines change."""
_STALE_IF_IMPLAUSIBLE = 4
"""As many for a size that cannot be as slow as its samples say."""
_TOLERANCE = 1.25
_ABOUT = 0.9
"""Part of the highest rate that counts as about as high."""


@dataclass(slots=True)
class _Cost:
    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=4))
    doubtful: bool = False
    seen: int = 0


@dataclass(slots=True)
class CostModel:
    """Seconds of a forward over n prompt tokens, learnt from measurements.

    Cost is not linear in tokens: a GPU may take as long for 16 as for 1,000, and a single token is a case of its own.
    So single tokens and each power of two are measured by themselves; what lies between or beyond is expected to grow
    as it does between its neighbours. More tokens never take less: a large size that was fast vouches for all below.
    """

    _costs: dict[int, _Cost] = field(default_factory=dict)
    _forwards: int = 0

    def learn(self, tokens: int, seconds: float) -> None:
        """Take in one measured forward; rests of prompts are of odd sizes and would blur the picture."""
        if not _is_chosen(tokens):
            return
        expected = self._expect(tokens)
        self._forwards += 1
        cost = self._costs.setdefault(tokens, _Cost())
        cost.doubtful = not cost.seconds and (expected is None or seconds > _SURPRISE * expected)
        cost.seconds.append(seconds)
        cost.seen = self._forwards

    def predict(self, tokens: int) -> float | None:
        """Expected seconds of a forward, or None when nothing has been measured."""
        return self._value(tokens) if tokens in self._costs else self._expect(tokens, doubtful=True)

    def measured(self, tokens: int) -> bool:
        """Whether this very size has been measured."""
        return tokens in self._costs

    def largest(self) -> int:
        """The largest size measured; 0 before the first."""
        return max(self._costs, default=0)

    def best_size(self, budget_s: float, most: int) -> int:
        """The size with the most tokens per second among those that keep the budget.

        Where none does, or where those within four budgets are far faster: among the latter; else the least. What may
        be better but was never measured, or not reliably, or long ago, is tried first. Sizes are powers of two, but for
        the last step up to the budget.
        """
        sizes = _sizes(min(most, max(self.largest() * GROWTH, SMALLEST_CHUNK)))
        if (due := self._due(budget_s, sizes)) is not None:
            return due
        costs = {size: self.predict(size) or 1e-9 for size in sizes}
        keeps, fast = (self._fastest(costs, limit_s) for limit_s in (budget_s, MISS_FACTOR * budget_s))
        if keeps and PATIENCE * keeps / costs[keeps] >= fast / costs[fast]:
            return self._stretched(keeps, budget_s, most)
        return fast or min(costs, key=costs.__getitem__)

    @staticmethod
    def _fastest(costs: dict[int, float], limit_s: float) -> int:
        """The largest size within a limit that has about the most tokens per second; 0 where none is.

        The larger one, since every unit brings a decode step and a way through the loop with it.
        """
        rates = {size: size / cost for size, cost in costs.items() if cost <= limit_s}
        return max((size for size, rate in rates.items() if rate >= _ABOUT * max(rates.values())), default=0)

    def _stretched(self, size: int, budget_s: float, most: int) -> int:
        """A size within the budget, or up to three quarters more where its double is known to miss it."""
        if size < SMALLEST_CHUNK or 2 * size not in self._costs:
            return size
        least_rate = _ABOUT * size / self._value(size)
        for between in (size + size * quarters // 4 for quarters in (3, 2, 1)):
            cost = self._costs.get(between)
            known = cost is not None and self._forwards - cost.seen < _STALE
            expected = self._value(between) if known else self._expect(between)
            if between <= most and expected is not None and expected <= min(budget_s, between / least_rate):
                return between
        return size

    def _due(self, budget_s: float, sizes: Sequence[int]) -> int | None:
        """The size that should be measured now, if any.

        First what is doubtful, since what others are expected to take rests on it, then what was never measured, then
        what was only once: the machine may have been busy, and on a GPU it holds what a new shape costs once.
        """
        chunks = sizes[1:]
        kept = self._largest_within(budget_s, chunks)
        settled = kept or self._largest_within(MISS_FACTOR * budget_s, chunks)
        allowed_s = budget_s * (_TRIAL_FACTOR if kept else MISS_FACTOR)
        waiting = [(rank, size) for size in chunks if size >= settled and (rank := self._rank(size, allowed_s))]
        if waiting:
            return min(waiting)[1]
        for size in (*chunks[:1], 1):
            if not kept and size not in self._costs:
                return size
        return None

    def _rank(self, size: int, allowed_s: float) -> int:
        """How soon a size should be measured, less is sooner; 0: not now."""
        cost, expected = self._costs.get(size), self._expect(size) or 0.0
        if cost is None:
            return 2 if expected <= allowed_s else 0
        samples = len(cost.seconds)
        if samples == 1:
            return 0 if expected > allowed_s else 1 if cost.doubtful else 3
        patience = _STALE_IF_IMPLAUSIBLE if self._implausible(size) else _STALE
        stale = self._forwards - cost.seen >= patience << samples - 1
        return 4 if stale and min(expected, self._value(size)) <= allowed_s else 0

    def _implausible(self, size: int) -> bool:
        """Whether all samples of a size are slower than pieces of the next smaller one: the machine was busy then."""
        below = max((known for known in self._costs if 1 < known < size), default=0)
        return below > 0 and self._value(size) > _TOLERANCE * self._value(below) * size / below

    def _largest_within(self, limit_s: float, sizes: Sequence[int]) -> int:
        """The largest size known to keep a limit; 0 where none does."""
        return max((size for size in sizes if size in self._costs and self._value(size) <= limit_s), default=0)

    def _value(self, tokens: int) -> float:
        """Seconds of a size that was measured: the least of the newest samples, its own or of a larger one."""
        return min(min(cost.seconds) for size, cost in self._costs.items() if size >= tokens > 1 or size == tokens)

    def _expect(self, tokens: int, *, doubtful: bool = False) -> float | None:
        """Seconds of a size going by powers of two other than it; None where there are none."""
        trusted = (size for size, cost in sorted(self._costs.items()) if doubtful or not cost.doubtful)
        # What lies between is too near to tell how costs grow.
        known = [size for size in trusted if size & (size - 1) == 0]
        below = [size for size in known if 1 < size < tokens][-2:]
        above = [size for size in known if size > max(tokens, 1)][:1]
        pair = below[-1:] + above if above else below
        if len(pair) < 2:
            return self._value(pair[0]) if pair else None
        (first, low), (second, high) = ((size, self._value(size)) for size in pair)
        return low + (high - low) / (second - first) * (tokens - first)


def _is_chosen(tokens: int) -> bool:
    """Whether a size was chosen, rather than left of a prompt: one, or four to seven quarters of a power of two."""
    step = max(1 << tokens.bit_length() - 1, SMALLEST_CHUNK) // 4
    return tokens == 1 or (tokens >= SMALLEST_CHUNK and tokens % step == 0)


def _sizes(most: int) -> list[int]:
    """Sizes to choose from: a single token, and powers of two from the smallest chunk up to ``most``."""
    sizes = [1]
    size = SMALLEST_CHUNK
    while size <= most:
        sizes.append(size)
        size *= 2
    return sizes if most >= SMALLEST_CHUNK or most == 1 else [1, most]
