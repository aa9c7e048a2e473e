"""What the engine does right now: its figures, sampled on a timer into short histories."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from PySide6.QtCore import QObject, QTimer, Signal

from app.state.conversation import Conversation
from app.state.figures import CacheFigures, MtpFigures, Sample, StreamFigures, sample
from app.state.model import Model
from app.state.speeds import INTERVAL_MS, Speeds

__all__ = ["Cache", "CacheFigures", "MtpFigures", "Sample", "StreamFigures", "Vitals"]

Cache = Literal["prefix", "vision", "ssd"]


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
        self._speeds = Speeds()
        self.latest: Sample | None = None
        self._timer = QTimer(self)
        self._timer.setInterval(INTERVAL_MS)
        self._timer.timeout.connect(self._sample)

    @property
    def history(self) -> tuple[float, ...]:
        """Tokens per second of the last minute, oldest first."""
        return self._speeds.total

    def watch(self, on: bool) -> None:
        """Start or stop sampling; a gap in watching starts a fresh history."""
        if not on:
            self._timer.stop()
            self._speeds = Speeds()
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
                self.latest, self._speeds = None, Speeds()
                self.sampled.emit()
            return
        stats = scheduler.get_stats()
        requests = stats.get("requests", ())
        counts = {entry["request_id"]: entry["completion_tokens"] for entry in requests}
        self._speeds.read(int(stats["batch_generator"].get("generation_tokens", 0)), counts)
        self.latest = sample(stats, self._speeds.total[-1], self._streams(counts))
        self.sampled.emit()

    def _streams(self, counts: Mapping[str, int]) -> tuple[StreamFigures, ...]:
        """The answers that are being written, in the order of their tabs."""
        streams = []
        for chat in self._tabs():
            if chat.request_id is not None and counts.get(chat.request_id):
                history = self._speeds.of(chat.request_id)
                streams.append(StreamFigures(chat.id, chat.title, history[-1], history))
        return tuple(streams)
