"""Tokens per second over the last second, of all answers together and of each, so that these add up to that."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping

INTERVAL_MS = 250
_READINGS = 1000 // INTERVAL_MS + 1
"""As many as span a second."""
_HISTORY = 60_000 // INTERVAL_MS


class Speeds:
    """Rates from running counts of tokens, read every `INTERVAL_MS`, with a minute's history.

    All rates are over the same stretch of time: an answer that began within it counts from nothing, as in the total.
    """

    def __init__(self) -> None:
        self._readings: deque[tuple[float, int, Mapping[str, int]]] = deque(maxlen=_READINGS)
        self._total: deque[float] = deque(maxlen=_HISTORY)
        self._each: dict[str, deque[float]] = {}

    def read(self, total: int, counts: Mapping[str, int]) -> None:
        """Take the counts as they are now: of all answers ever, and of each that is being made, by its request's id."""
        self._readings.append((time.monotonic(), total, counts))
        since, before, counted = self._readings[0]
        seconds = self._readings[-1][0] - since
        self._total.append(_rate(total - before, seconds))
        self._each = {id: self._each.get(id) or deque(maxlen=_HISTORY) for id in counts}
        for id, count in counts.items():
            self._each[id].append(_rate(count - counted.get(id, 0), seconds))

    @property
    def total(self) -> tuple[float, ...]:
        """The speed of all answers together in the last minute, oldest first."""
        return tuple(self._total)

    def of(self, request_id: str) -> tuple[float, ...]:
        """The speed of one answer in the last minute, oldest first; the last one is that of now."""
        return tuple(self._each[request_id])


def _rate(tokens: int, seconds: float) -> float:
    """Counts begin again from nothing with another model: that is no speed."""
    return max(0, tokens) / seconds if seconds > 0 else 0.0
