"""What the engine does right now: its figures, sampled on a timer into short histories."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal

from app.state.model import Model

_INTERVAL_MS = 250
_RATE_SAMPLES = 5
_HISTORY = 240
"""Samples of 60 s."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Figures of one moment; bytes are bytes, stalls are how late the window's loop was."""

    tokens_per_second: float
    rows: int
    waiting: int
    active_bytes: int
    cache_bytes: int
    peak_bytes: int
    limit_bytes: int
    backend: str
    stall_p50_ms: float
    stall_p99_ms: float
    stall_max_ms: float


class Vitals(QObject):
    """Samples the scheduler's statistics at 4 Hz while somebody watches.

    Signals:
        sampled: `latest` and `history` have a new sample.
    """

    sampled = Signal()

    def __init__(self, model: Model, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._model = model
        self._counted: deque[tuple[float, int]] = deque(maxlen=_RATE_SAMPLES)
        self._rates: deque[float] = deque(maxlen=_HISTORY)
        self.latest: Sample | None = None
        self._timer = QTimer(self)
        self._timer.setInterval(_INTERVAL_MS)
        self._timer.timeout.connect(self._sample)

    @property
    def history(self) -> tuple[float, ...]:
        """Tokens per second of the last minute, oldest first."""
        return tuple(self._rates)

    def watch(self, on: bool) -> None:
        """Start or stop sampling; a gap in watching starts a fresh history."""
        if not on:
            self._timer.stop()
            self._counted.clear()
            self._rates.clear()
        elif not self._timer.isActive():
            self._timer.start()
            self._sample()

    def _sample(self) -> None:
        scheduler = self._model.scheduler
        if scheduler is None:
            return
        stats = scheduler.get_stats()
        rate = self._rate(int(stats["batch_generator"].get("generation_tokens", 0)))
        self._rates.append(rate)
        self.latest = _sample(stats, rate)
        self.sampled.emit()

    def _rate(self, tokens: int) -> float:
        """Tokens per second over the last second, from the engine's running count."""
        self._counted.append((time.monotonic(), tokens))
        (since, before), (now, after) = self._counted[0], self._counted[-1]
        return max(0, after - before) / (now - since) if now > since else 0.0


def _sample(stats: dict[str, Any], tokens_per_second: float) -> Sample:
    stalls = stats["loop_stall_ms"]
    return Sample(
        tokens_per_second=tokens_per_second,
        rows=stats["num_running"],
        waiting=stats["num_waiting"],
        active_bytes=round(stats["metal_active_memory_gb"] * 1e9),
        cache_bytes=round(stats["metal_cache_memory_gb"] * 1e9),
        peak_bytes=round(stats["metal_peak_memory_gb"] * 1e9),
        limit_bytes=round(stats["memory_limit_gb"] * 1e9),
        backend=stats["backend"],
        stall_p50_ms=stalls["p50"],
        stall_p99_ms=stalls["p99"],
        stall_max_ms=stalls["max"],
    )
