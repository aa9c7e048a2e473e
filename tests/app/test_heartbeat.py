"""The window stays alive: a timer in it is hardly late while three tabs stream and while the model loads."""

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(300)
def test_the_window_never_freezes_while_three_tabs_stream(capsys: pytest.CaptureFixture[str]) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "tests.app.heartbeat", "5"],
        cwd=ROOT,
        env=os.environ | {"QT_QPA_PLATFORM": "offscreen"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    found = json.loads(ended.stdout)
    with capsys.disabled():
        print(f"\n  loading: {found['loading']}")
        for number, stretch in enumerate(found["rounds"]):
            print(f"  round {number}: {stretch}")
    assert all(not stretch["failed"] for stretch in found["rounds"])
    assert all(stretch["prompt_tokens"][2] >= 500 + 196 for stretch in found["rounds"])
    quiet = [stretch for stretch in found["rounds"] if is_quiet(stretch)]
    if len(quiet) < 2:
        pytest.skip("an idle process on this machine wakes up late as well, so nothing can be said of the window")
    assert median(stretch["p99_ms"] for stretch in quiet) <= 16
    assert median(stretch["max_ms"] for stretch in quiet) <= 60
    assert found["loading"]["max_ms"] <= 150 or not is_quiet(found["loading"])


def is_quiet(stretch: dict[str, Any]) -> bool:
    """Whether the machine had time for everybody: two cores are busy with the model itself."""
    return bool(stretch["noise"]["p99_ms"] <= 3 and stretch["noise"]["max_ms"] <= 20)
