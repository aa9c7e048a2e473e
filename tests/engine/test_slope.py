"""Hundreds of different requests, with all caches on and with none: beyond the caches' budgets nothing grows."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import psutil
import pytest

from engine import MLLMScheduler
from tests.engine import cold_tier, tiny
from tests.engine.conftest import Make

_MOST = 1_000
"""Bytes a request."""


@pytest.fixture
def full(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MLLMScheduler]:
    """Every cache is on, and so small that it is full before the counting begins."""
    loaded = tiny.hybrid()
    cold_tier.identify(loaded[0], tmp_path / "model", monkeypatch)
    memory = {"prefix_cache_memory_mb": 2, "prefix_cache_entries": 16, "vision_cache_mb": 1, "vision_cache_size": 12}
    made = make(loaded, **memory, ssd_cache_dir=tmp_path / "ssd", ssd_cache_max_gb=0.002)
    yield made
    made.caches.close()


def ask(scheduler: MLLMScheduler, number: int) -> None:
    pictures = [tiny.picture(64, 64, number)] if number % 5 == 0 else []
    prompt = tiny.chat(f"question {number}: what about {number * 7919}?", len(pictures))
    request_id = scheduler.add_request(prompt, pictures, max_tokens=4, temperature=0.0)
    while scheduler.has_requests():
        scheduler.step()
    if scheduler.caches.ssd is not None:
        cold_tier.write(scheduler)
    scheduler.step()
    scheduler.remove_finished_request(request_id)  # the last 256 stay readable otherwise


def kept(stats: dict[str, Any]) -> float:
    """Bytes of device memory within the budgets."""
    return sum(stats[name]["current_memory_mb"] for name in ("memory_aware_cache", "vision_embedding_cache")) * 1e6


def slope(values: list[float]) -> float:
    """Growth per request by least squares."""
    return float(np.polyfit(np.arange(len(values)), values, 1)[0])


class Growth:
    """What is held after each request, once the first ones have warmed everything up."""

    def __init__(self, scheduler: MLLMScheduler, requests: int, warm: int) -> None:
        self.device: list[float] = []
        self.python: list[float] = []
        self.resident: list[float] = []
        tracemalloc.start()
        try:
            for number in range(requests):
                ask(scheduler, number)
                if number == warm:
                    self.warm = scheduler.get_stats()
                if number >= warm:
                    self._note(scheduler)
        finally:
            tracemalloc.stop()

    def _note(self, scheduler: MLLMScheduler) -> None:
        gc.collect(0)
        self.device.append(mx.get_active_memory() - kept(scheduler.get_stats()))
        self.python.append(float(tracemalloc.get_traced_memory()[0]))
        self.resident.append(float(psutil.Process().memory_info().rss))

    def __str__(self) -> str:
        return ", ".join(f"{name} {slope(getattr(self, name)):.0f}" for name in ("device", "python", "resident"))


@pytest.mark.timeout(300)
def test_nothing_grows_beyond_the_budgets(full: MLLMScheduler, capsys: pytest.CaptureFixture[str]) -> None:
    growth = Growth(full, requests=300, warm=100)
    with capsys.disabled():
        print(f"\n  bytes a request with all caches: {growth}")
    assert_was_full(growth.warm, full.get_stats())
    assert slope(growth.device) <= _MOST
    assert slope(growth.python) <= _MOST


@pytest.mark.timeout(300)
def test_nothing_grows_without_caches(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    scheduler = make(tiny.hybrid(), enable_prefix_cache=False, enable_vision_cache=False)
    growth = Growth(scheduler, requests=150, warm=50)
    with capsys.disabled():
        print(f"\n  bytes a request without caches: {growth}")
    assert slope(growth.device) <= _MOST
    assert slope(growth.python) <= _MOST


def assert_was_full(warm: dict[str, Any], end: dict[str, Any]) -> None:
    """Each cache has let older entries go for newer ones all the while."""
    assert end["vision_embedding_cache"]["entry_count"] == warm["vision_embedding_cache"]["entry_count"] == 12
    assert end["memory_aware_cache"]["evictions"] > warm["memory_aware_cache"]["evictions"] > 0
    disk = end["ssd_cache"]
    assert disk["written"] - warm["ssd_cache"]["written"] > 10 * disk["entry_count"] > 0
    assert disk["current_memory_mb"] <= disk["max_memory_mb"] == 2.0
    assert (disk["dropped"], disk["write_errors"]) == (0, 0)
