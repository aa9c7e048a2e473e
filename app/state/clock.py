"""The time that chats are kept with: the list is in its order, so it must not run back."""

from __future__ import annotations

import time

_STEP_S = 1e-6


class Clock:
    """The system's clock as long as that goes forward; set back, it stands still until the system has caught up."""

    def __init__(self) -> None:
        """Begin with the system's time."""
        self._last = time.time()

    def now(self) -> float:
        """Unix seconds, later than any told before."""
        self._last = max(time.time(), self._last + _STEP_S)
        return self._last
