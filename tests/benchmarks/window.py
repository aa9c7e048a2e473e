"""How smooth the window is: a timer's lateness and keys' delay while tabs answer, and what an output costs to draw."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.benchmarks.table import Row, spread

ROOT = Path(__file__).parents[2]
TABS = (1, 4, 8)
_LATENESS = ("p50_ms", "p99_ms", "max_ms", "work_p99_ms", "work_max_ms")
_KEYS = ("p50_ms", "p99_ms", "max_ms")


def measure(rounds: int) -> dict[str, Any]:
    """Each of both parts in a process of its own, as each wants the one application that a process can have."""
    found = _apart("answers", rounds)
    return {**found, "outputs": _apart("outputs", rounds)}


def lateness(found: dict[str, Any]) -> list[Row]:
    """Per number of tabs: how late the timer was, how long the window's thread worked at once, how late others were."""
    load = {name: found["loading"][name] for name in _LATENESS}
    rows: list[Row] = []
    for count, stretches in _by_tabs(found):
        row: Row = {name: spread([stretch[name] for stretch in stretches]) for name in _LATENESS}
        rows.append(
            {"tabs": count, **row, "idle_process_p99_ms": spread([each["noise"]["p99_ms"] for each in stretches])}
        )
    return [*rows, {"tabs": "loading", **load, "idle_process_p99_ms": found["loading"]["noise"]["p99_ms"]}]


def keys(found: dict[str, Any]) -> list[Row]:
    """Per number of tabs: how long a key took to be painted."""
    return [
        {"tabs": count, **{name: spread([stretch["keys"][name] for stretch in stretches]) for name in _KEYS}}
        for count, stretches in _by_tabs(found)
    ]


def _by_tabs(found: dict[str, Any]) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    for count in TABS:
        yield count, [stretch for stretch in found["rounds"] if stretch["tabs"] == count]


def _apart(part: str, rounds: int) -> Any:
    command = [sys.executable, "-m", "tests.benchmarks.window", part, str(rounds)]
    ended = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(ended.stdout.splitlines()[-1])


def _outputs(rounds: int) -> list[Row]:
    from PySide6.QtWidgets import QApplication

    from tests.app.views import growth

    application = QApplication.instance() or QApplication([])
    rows: list[Row] = []
    for kind, written in growth.KINDS.items():
        text = written()
        costs = {f"{length:,} there": [growth.cost(text, length) for _ in range(rounds)] for length in growth.LENGTHS}
        rows.append({"kind": kind, **{name: spread(values) for name, values in costs.items()}})
    application.processEvents()
    return rows


if __name__ == "__main__":
    from tests.app import heartbeat

    given, times = sys.argv[1], int(sys.argv[2])
    print(json.dumps(heartbeat.measure(times, TABS, typed=True) if given == "answers" else _outputs(times)))
