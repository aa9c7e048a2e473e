"""Counters of what the scheduler did; every figure is counted or measured, never derived from hope."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

_RECENT = 2048


@dataclass(slots=True)
class Occupation:
    """How long the scheduler kept the event loop from everyone else, over its last stretches of work."""

    _seconds: deque[float] = field(default_factory=lambda: deque(maxlen=_RECENT))

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Time one stretch of work on the loop's thread."""
        start = perf_counter()
        try:
            yield
        finally:
            self._seconds.append(perf_counter() - start)

    def snapshot(self) -> dict[str, float]:
        """Milliseconds: ``p50``, ``p99`` and ``max``; zeros before the first stretch."""
        ordered = sorted(self._seconds)
        if not ordered:
            return {"p50": 0.0, "p99": 0.0, "max": 0.0}

        def rank(share: float) -> float:
            return ordered[max(math.ceil(share * len(ordered)) - 1, 0)] * 1e3

        return {"p50": rank(0.5), "p99": rank(0.99), "max": ordered[-1] * 1e3}


@dataclass(slots=True)
class BatchStats:
    """Tokens and seconds by kind of work."""

    prompt_tokens: int = 0
    prompt_seconds: float = 0.0
    generation_tokens: int = 0
    generation_seconds: float = 0.0
    vision_seconds: float = 0.0
    num_images: int = 0

    def snapshot(self, peak_bytes: int) -> dict[str, Any]:
        """The contract's ``batch_generator`` figures."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "prompt_time": self.prompt_seconds,
            "prompt_tps": _rate(self.prompt_tokens, self.prompt_seconds),
            "generation_tokens": self.generation_tokens,
            "generation_time": self.generation_seconds,
            "generation_tps": _rate(self.generation_tokens, self.generation_seconds),
            "vision_time": self.vision_seconds,
            "num_images_processed": self.num_images,
            "peak_memory": peak_bytes / 1e9,
        }


def _rate(count: int, seconds: float) -> float:
    return count / seconds if seconds else 0.0
