"""The window stays alive: a timer in it is hardly late while four tabs stream with the panel open."""

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
P99_MS, LONGEST_MS = 16, 80


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """Three rounds of four tabs in the real program."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.app.heartbeat", "3", "4"],
        cwd=ROOT,
        env=os.environ | {"QT_QPA_PLATFORM": "offscreen"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


@pytest.mark.timeout(300)
def test_four_tabs_stream_a_long_prompt_and_a_picture_among_them(found, capsys) -> None:
    with capsys.disabled():
        print(f"\n  loading: {found['loading']}")
        for number, stretch in enumerate(found["rounds"]):
            print(f"  round {number}: {stretch}")
    assert found["panel"]
    assert all(stretch["tabs"] == 4 and not stretch["failed"] for stretch in found["rounds"])
    assert all(stretch["prompt_tokens"][0] >= 500 + 196 for stretch in found["rounds"])


def test_the_window_s_thread_works_for_a_short_time_at_once(found) -> None:
    """Its own processor time, which other programs on this machine cannot lengthen."""
    assert median(stretch["work_p99_ms"] for stretch in found["rounds"]) <= P99_MS
    assert median(stretch["work_max_ms"] for stretch in found["rounds"]) <= LONGEST_MS
    assert found["loading"]["work_max_ms"] <= LONGEST_MS


def test_a_timer_in_the_window_is_hardly_late(found) -> None:
    quiet = [stretch for stretch in found["rounds"] if is_quiet(stretch)]
    assert found["loading"]["max_ms"] <= 150 or not is_quiet(found["loading"])
    if len(quiet) < 2:
        pytest.skip("an idle process on this machine wakes up late as well, so nothing can be said of the window")
    assert median(stretch["p99_ms"] for stretch in quiet) <= P99_MS
    assert median(stretch["max_ms"] for stretch in quiet) <= LONGEST_MS


def is_quiet(stretch: dict[str, Any]) -> bool:
    """Whether the machine had time for everybody: two cores are busy with the model itself."""
    return bool(stretch["noise"]["p99_ms"] <= 3 and stretch["noise"]["max_ms"] <= 20)
