"""MLX is touched by the thread that holds its stream, and by no other."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from typing import Any

import mlx.core as mx
import pytest

from engine import MLLMScheduler, device
from tests.engine import tiny
from tests.engine.conftest import Make, Run

_FIGURES = {"get_active_memory", "get_cache_memory", "get_peak_memory", "device_info", "default_device"}
"""Read between units as well: they touch no array."""


class Watch:
    """Notes every call into ``mlx.core`` by a thread that does not hold the stream."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = 0
        self.elsewhere: set[tuple[str, str]] = set()
        for name, found in vars(mx).items():
            if callable(found) and not isinstance(found, type) and name not in _FIGURES:
                monkeypatch.setattr(mx, name, self._watched(name, found))
        for name in ("__getitem__", "item", "tolist"):
            monkeypatch.setattr(mx.array, name, self._watched(name, getattr(mx.array, name)))

    def _watched(self, name: str, call: Any) -> Any:
        def watched(*args: Any, **kwargs: Any) -> Any:
            owner = device.current()
            self.calls += 1
            if owner is None or not owner.holds_stream:
                self.elsewhere.add((name, threading.current_thread().name))
            return call(*args, **kwargs)

        return watched


def test_every_call_comes_from_who_holds_the_stream(make: Make, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three chats with a picture each, one of them aborted, with all caches and figures asked for meanwhile."""
    scheduler = make(tiny.dense(), prefill_step_size=32)

    async def ask(number: int) -> str | None:
        prompt, pictures = tiny.chat(f"{number}: what is it?", 1), [tiny.picture(64, 96, number)]
        output = await scheduler.generate(prompt, pictures, max_tokens=6, temperature=0.0)
        scheduler.get_stats()
        return output.finish_reason

    async def abort() -> None:
        request_id = await scheduler.add_request_async(tiny.chat("and?"), max_tokens=500)
        async for output in scheduler.stream_outputs(request_id):
            if output.completion_tokens > 2:
                scheduler.abort_request(request_id)

    async def work() -> list[str | None]:
        await scheduler.start()
        reasons = await asyncio.gather(*(ask(number) for number in range(3)))
        await abort()
        scheduler.clear_runtime_caches()
        await scheduler.stop()
        return reasons

    watch = Watch(monkeypatch)
    reasons = run(work())
    monkeypatch.undo()
    assert reasons == ["length"] * 3
    assert watch.calls > 1_000
    assert not watch.elsewhere


def test_work_outside_a_unit_is_refused(make: Make) -> None:
    scheduler: MLLMScheduler = make(tiny.dense())
    scheduler.add_request(tiny.chat("hi"), request_id="x", max_tokens=40)
    while not scheduler.batch.decoding:
        scheduler.step()
    (group,) = scheduler.batch._groups
    with pytest.raises(AssertionError, match="outside a unit"):
        group.step()
    assert device.home().run_here(group.step)
    scheduler.abort_request("x")


def test_a_unit_waits_for_nobody_at_home(make: Make, run: Run) -> None:
    """While a unit is out, the home thread is told so rather than held up."""

    async def work() -> None:
        home, gate = device.home(), threading.Event()
        unit = asyncio.create_task(home.run(gate.wait))
        await asyncio.sleep(0)
        try:
            while not home._stream_lock.locked():  # noqa: ASYNC110 - the pump announces nothing
                await asyncio.sleep(0)
            with pytest.raises(device.EngineError, match="at work on something else"):
                home.run_here(lambda: None)
        finally:
            gate.set()
            await unit

    run(work())


def test_cuda_is_configured_before_its_first_use_and_a_persons_own_settings_stay() -> None:
    script = """
import os
from engine import device
device.home()
print(os.environ["MLX_CUDA_USE_CUDNN_SDPA"], os.environ["MLX_ENABLE_CACHE_THRASHING_CHECK"])
device.close()
"""
    own = os.environ | {"MLX_CUDA_USE_CUDNN_SDPA": "1"}
    own.pop("MLX_ENABLE_CACHE_THRASHING_CHECK", None)
    done = subprocess.run([sys.executable, "-c", script], env=own, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "0"]
