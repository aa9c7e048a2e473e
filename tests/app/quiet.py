"""How late an idle process on this machine wakes up: what a measurement of ours is held against.

Run as a program it is that idle process: it sleeps 10 ms at a time and, when its input closes, prints one
``[time, lateness in ms]`` pair per beat, times on the monotonic clock that all processes share.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
from time import monotonic
from typing import Any

_INTERVAL_S = 0.010


class Control:
    """The idle process, from outside."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def end(self) -> list[tuple[float, float]]:
        """Stop it; returns its beats."""
        beats, _ = self._process.communicate()
        return [(at, late) for at, late in json.loads(beats)]


def noise(beats: list[tuple[float, float]], start: float, end: float) -> dict[str, float]:
    """p99 and maximum of the machine's own lateness between two times, in milliseconds."""
    late = sorted(late for at, late in beats if start <= at <= end) or [0.0]
    return {"p99_ms": late[min(int(len(late) * 0.99), len(late) - 1)], "max_ms": late[-1]}


def main() -> None:
    """Beat until nobody listens any more."""
    beats: list[Any] = []
    while True:
        began = monotonic()
        if select.select([sys.stdin], [], [], _INTERVAL_S)[0]:
            break
        now = monotonic()
        beats.append((now, (now - began - _INTERVAL_S) * 1e3))
    print(json.dumps(beats))


if __name__ == "__main__":
    main()
