"""What the scheduler itself does for a decode step: counted in calls, which no other program on the machine changes."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import engine
from engine import MLLMScheduler
from tests.engine import scripted
from tests.engine.conftest import Make, Run

_ENGINE = str(Path(engine.__file__).parent)
_STEPS = 50
_RECORDED = {(1, 0): 164, (16, 0): 905, (16, 16): 974}
"""Calls of a step on Python 3.11; later versions make fewer, since comprehensions are no calls there."""
_A_ROW = 50
_A_WAITING = 4.5
_ALLOWED = 1.25


class Profile:
    """Counts calls of the engine's functions, and those that they make into C, on this thread."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    def __enter__(self) -> Profile:
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if code.co_filename.startswith(_ENGINE):
            if event == "call":
                self.calls[code.co_qualname] += 1
            elif event == "c_call":
                self.calls[argument.__qualname__] += 1

    @property
    def per_step(self) -> float:
        return self.calls.total() / _STEPS


def decoding(make: Make, monkeypatch: pytest.MonkeyPatch, rows: int, waiting: int = 0) -> MLLMScheduler:
    """A scheduler on a model that costs nothing, in which so many rows decode and others wait for a place."""
    scheduler = make(scripted.loaded(monkeypatch), max_num_seqs=rows)
    scheduler.port.stop_ids = frozenset()
    for number in range(rows + waiting):
        scheduler.add_request(f"row {number:2}", request_id=str(number), max_tokens=1000, temperature=0.0)
    scheduler.intake.wait()
    while scheduler.batch.decoding < rows or scheduler.get_request(str(rows - 1)).num_output_tokens < 20:
        scheduler.step()
    return scheduler


def profiled(scheduler: MLLMScheduler) -> Profile:
    with Profile() as profile:
        for _ in range(_STEPS):
            assert scheduler.step().has_work
    return profile


@pytest.fixture
def steps(make: Make, monkeypatch: pytest.MonkeyPatch) -> dict[tuple[int, int], Profile]:
    """By (rows that decode, requests that wait for a place)."""
    return {case: profiled(decoding(make, monkeypatch, *case)) for case in _RECORDED}


def test_a_step_makes_no_more_calls_than_were_recorded(
    steps: dict[tuple[int, int], Profile], capsys: pytest.CaptureFixture[str]
) -> None:
    found = {case: profile.per_step for case, profile in steps.items()}
    with capsys.disabled():
        print(
            "\n  calls a step:", ", ".join(f"{rows}+{waiting}: {calls:.0f}" for (rows, waiting), calls in found.items())
        )
    for case, calls in found.items():
        assert calls <= _ALLOWED * _RECORDED[case], steps[case].calls.most_common(20)
    a_row = (found[16, 0] - found[1, 0]) / 15
    assert a_row <= _ALLOWED * _A_ROW
    assert found[16, 16] - found[16, 0] <= _ALLOWED * 16 * _A_WAITING


def test_figures_are_made_for_who_asks_and_not_for_every_step(
    steps: dict[tuple[int, int], Profile], make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = {"stats", "running_requests", "_entry", "Device.memory", "PrefixCache.snapshot", "Occupation.snapshot"}
    assert all(figures.isdisjoint(profile.calls) for profile in steps.values())
    scheduler = decoding(make, monkeypatch, 1)
    with Profile() as asked:
        scheduler.get_stats()
    assert figures <= set(asked.calls)


def test_the_thousandth_token_makes_no_more_calls_than_the_first(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = decoding(make, monkeypatch, 4)
    early = profiled(scheduler)
    while scheduler.get_request("3").num_output_tokens < 900:
        scheduler.step()
    assert profiled(scheduler).per_step <= 1.1 * early.per_step


def test_with_nothing_to_do_the_loop_sleeps(make: Make, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after a failure: what has failed is not tried again."""
    scheduler = make(scripted.loaded(monkeypatch), enable_prefix_cache=False)
    scheduler.port.prefill_faults = {scheduler.port.prefills}

    async def work() -> tuple[str | None, int]:
        await scheduler.start()
        output = await scheduler.generate("this one fails", max_tokens=5)
        with Profile() as idle:
            for _ in range(200):
                await asyncio.sleep(0)
        await scheduler.stop()
        return output.finish_reason, idle.calls["MLLMScheduler._turn"] + idle.calls["MLLMScheduler._begin"]

    reason, turns = run(work())
    assert reason == "error"
    assert turns <= 2  # the one in which the failure was told, and the one that found nothing left
