"""What the engine does right now: its figures, sampled on a timer into short histories."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Literal

from PySide6.QtCore import QObject, QTimer, Signal

from app.state.conversation import Conversation
from app.state.figures import CacheFigures, MtpFigures, Sample, StreamFigures, sample
from app.state.model import Model

__all__ = ["Cache", "CacheFigures", "MtpFigures", "Sample", "StreamFigures", "Vitals"]

Cache = Literal["prefix", "vision", "ssd"]
_INTERVAL_MS = 250
_RATE_SAMPLES = 5
_HISTORY = 240
"""Samples of 60 s."""


class Meter:
    """Tokens per second over the last second, from a running count of tokens, and its history."""

    def __init__(self) -> None:
        self._counted: deque[tuple[float, int]] = deque(maxlen=_RATE_SAMPLES)
        self._rates: deque[float] = deque(maxlen=_HISTORY)

    def read(self, tokens: int) -> float:
        """Take the count as it is now; returns the rate."""
        self._counted.append((time.monotonic(), tokens))
        (since, before), (now, after) = self._counted[0], self._counted[-1]
        rate = max(0, after - before) / (now - since) if now > since else 0.0
        self._rates.append(rate)
        return rate

    @property
    def history(self) -> tuple[float, ...]:
        """The rates of the last minute, oldest first."""
        return tuple(self._rates)


class Vitals(QObject):
    """Samples the scheduler's statistics at 4 Hz while somebody watches.

    Signals:
        sampled: `latest` and `history` have a new sample.
    """

    sampled = Signal()

    def __init__(
        self, model: Model, tabs: Callable[[], Sequence[Conversation]] = tuple, parent: QObject | None = None
    ) -> None:
        """Watch `model`; `tabs` gives the chats whose answers are told apart."""
        super().__init__(parent)
        self._model = model
        self._tabs = tabs
        self._total = Meter()
        self._meters: dict[str, Meter] = {}
        self.latest: Sample | None = None
        self._timer = QTimer(self)
        self._timer.setInterval(_INTERVAL_MS)
        self._timer.timeout.connect(self._sample)

    @property
    def history(self) -> tuple[float, ...]:
        """Tokens per second of the last minute, oldest first."""
        return self._total.history

    def watch(self, on: bool) -> None:
        """Start or stop sampling; a gap in watching starts a fresh history."""
        if not on:
            self._timer.stop()
            self._total = Meter()
            self._meters.clear()
        elif not self._timer.isActive():
            self._timer.start()
            self._sample()

    def clear(self, cache: Cache) -> None:
        """Empty one cache; answers that are being written go on."""
        scheduler = self._model.scheduler
        if scheduler is not None:
            scheduler.clear_runtime_caches(cache == "ssd", vision=cache == "vision", prefix=cache == "prefix")

    def _sample(self) -> None:
        scheduler = self._model.scheduler
        if scheduler is None:
            if self.latest is not None:  # its last figures are true no longer
                self.latest = None
                self.sampled.emit()
            return
        stats = scheduler.get_stats()
        rate = self._total.read(int(stats["batch_generator"].get("generation_tokens", 0)))
        self.latest = sample(stats, rate, self._streams(stats.get("requests", ())))
        self.sampled.emit()

    def _streams(self, requests: Sequence[dict[str, Any]]) -> tuple[StreamFigures, ...]:
        """The answers that are being written, in the order of their tabs."""
        known = {entry["request_id"]: entry for entry in requests if entry["tokens_per_second"] is not None}
        written = {chat.request_id: chat for chat in self._tabs() if chat.request_id in known}
        self._meters = {id: self._meters.get(id) or Meter() for id in written if id is not None}
        streams = []
        for id, meter in self._meters.items():
            chat, entry = written[id], known[id]
            meter.read(entry["completion_tokens"])
            streams.append(StreamFigures(chat.id, chat.title, entry["tokens_per_second"], meter.history))
        return tuple(streams)
