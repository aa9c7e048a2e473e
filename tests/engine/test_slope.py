"""Three hundred different requests with the caches on: beyond the caches' budgets nothing grows."""

from __future__ import annotations

import gc
import tracemalloc

import mlx.core as mx
import numpy as np
import psutil
import pytest

from engine import MLLMScheduler
from tests.engine import tiny
from tests.engine.conftest import Make

_REQUESTS = 300
_WARM = 100


def ask(scheduler: MLLMScheduler, number: int) -> None:
    pictures = [tiny.picture(64, 64, number)] if number % 5 == 0 else []
    prompt = tiny.chat(f"question {number}: what about {number * 7919}?", len(pictures))
    request_id = scheduler.add_request(prompt, pictures, max_tokens=4, temperature=0.0)
    while scheduler.has_requests():
        scheduler.step()
    scheduler.step()
    scheduler.remove_finished_request(request_id)  # the last 256 stay readable otherwise


def slope(values: list[float]) -> float:
    """Growth per request by least squares."""
    return float(np.polyfit(np.arange(len(values)), values, 1)[0])


@pytest.mark.timeout(300)
def test_nothing_grows_beyond_the_budgets(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    scheduler = make(tiny.hybrid(), prefix_cache_memory_mb=2, vision_cache_mb=1, prefix_cache_entries=16)
    device, python, resident = [], [], []
    process = psutil.Process()
    tracemalloc.start()
    try:
        for number in range(_REQUESTS):
            ask(scheduler, number)
            if number < _WARM:
                continue
            gc.collect(0)
            stats = scheduler.get_stats()
            kept = (
                stats["memory_aware_cache"]["current_memory_mb"] + stats["vision_embedding_cache"]["current_memory_mb"]
            )
            device.append(mx.get_active_memory() - kept * 1e6)
            python.append(float(tracemalloc.get_traced_memory()[0]))
            resident.append(float(process.memory_info().rss))
    finally:
        tracemalloc.stop()
    with capsys.disabled():
        figures = f"device {slope(device):.0f}, Python {slope(python):.0f}, resident {slope(resident):.0f}"
        print(f"\n  bytes a request: {figures}")
    assert slope(device) <= 1_000
    # The ids of replies are remembered for follow-ups, a few hundred bytes each, up to a bound of their own.
    assert slope(python) <= 1_500
