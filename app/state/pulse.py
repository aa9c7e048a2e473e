"""A slow beat that tells every answering chat how its request is doing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QObject, QTimer

from app.state.model import Model
from engine.request import Phase

_INTERVAL_MS = 250
Info = dict[str, Any]
"""One entry of `MLLMScheduler.get_running_requests_info()`."""


class Pulse(QObject):
    """Reads the running requests at 4 Hz, once for all chats, and only while one of them answers."""

    def __init__(self, model: Model, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._model = model
        self._followers: dict[str, Callable[[Info], None]] = {}
        self._timer = QTimer(self)
        self._timer.setInterval(_INTERVAL_MS)
        self._timer.timeout.connect(self._beat)

    def follow(self, request_id: str, told: Callable[[Info], None]) -> None:
        """Call `told` with each reading of the request until `forget`."""
        self._followers[request_id] = told
        if not self._timer.isActive():
            self._timer.start()

    def forget(self, request_id: str) -> None:
        """Stop telling about a request."""
        self._followers.pop(request_id, None)
        if not self._followers:
            self._timer.stop()

    def _beat(self) -> None:
        scheduler = self._model.scheduler
        if scheduler is None:
            return
        for info in scheduler.get_running_requests_info():
            told = self._followers.get(info["request_id"])
            if told is not None:
                told(info)


def activity(phase: Phase, info: Info) -> str:
    """What a request does, in at most three words."""
    if phase is Phase.PREFILL:
        return f"prefill {info['progress'] * 100:.0f} %"
    if phase is Phase.VISION:
        return str(info["detail"])
    rate: float | None = info["tokens_per_second"]
    if phase is Phase.GENERATION and rate is not None:
        return f"{rate:.0f} tok/s" if rate >= 10 else f"{rate:.1f} tok/s"
    return "answering" if phase is Phase.GENERATION else phase.value
