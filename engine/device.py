"""The one MLX stream: created and owned by the home thread, lent to a helper thread a unit of work at a time.

Streams made by ``mx.new_thread_unsafe_stream`` may be used from any thread as long as one thread at a time does; the
lock here is what makes that true.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import logging
import os
import queue
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

import mlx.core as mx
import psutil

from engine.errors import EngineError

log = logging.getLogger(__name__)
T = TypeVar("T")

_CUDA_SETTINGS = {
    # cuDNN plans attention anew for each pair of lengths: 40 ms for what takes 0.2 ms, and prompts hardly repeat one.
    "MLX_CUDA_USE_CUDNN_SDPA": "0",
    # MLX 0.32.4 counts shapes it has seen over the life of the process, and gives up after some hundreds.
    "MLX_ENABLE_CACHE_THRASHING_CHECK": "0",
}
"""What MLX's CUDA backend reads from the environment at its first use; others do not look at it."""
_SWITCH_INTERVAL_S = 0.001
"""Shorter than Python's 5 ms, so that the window's thread gets the GIL back quickly while a unit builds its graph."""


class Pump(threading.Thread):
    """The helper thread that runs units in the order given.

    A daemon with a queue rather than an executor: executors are shut down before ``atexit`` handlers run, too early for
    a forgotten ``close`` to clear this thread's streams.
    """

    def __init__(self) -> None:
        super().__init__(name="braid-pump", daemon=True)
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = queue.SimpleQueue()
        self.start()

    def submit(self, job: Callable[[], T]) -> Future[T]:
        """Queue one job; its result or exception arrives in the future."""
        future: Future[T] = Future()
        self._jobs.put((job, future))
        return future

    def end(self) -> None:
        """Finish what is queued, then join the thread."""
        self._jobs.put(None)
        self.join()

    def run(self) -> None:
        """Work off the queue until ``end``."""
        while (item := self._jobs.get()) is not None:
            job, future = item
            try:
                future.set_result(job())
            except Exception as error:  # noqa: BLE001 - handed to whoever awaits the unit
                future.set_exception(error)
            except BaseException as error:  # noqa: BLE001 - a caller's SystemExit must not end the loop that awaits it
                future.set_exception(RuntimeError(f"a unit was left by {type(error).__name__}"))
            # No frame may keep the unit's arrays alive while the thread waits.
            del item, job, future


class Device:
    """The home thread's stream and the pump that runs units on it.

    While a unit is out, the home thread touches no MLX.
    """

    def __init__(self) -> None:
        for name, value in _CUDA_SETTINGS.items():
            os.environ.setdefault(name, value)
        self._home = threading.get_ident()
        self._owner: int | None = None
        self._stream_lock = threading.Lock()
        self._stream = mx.new_thread_unsafe_stream(mx.default_device())
        mx.set_default_stream(self._stream)
        self._pump = Pump()
        self.lending = True
        self._lends = True
        self.unit_peak = 0
        """Bytes that the last unit took at its peak, above what was active before it."""
        self._peak = 0
        self.backend = _backend()
        self._old_interval = sys.getswitchinterval()
        sys.setswitchinterval(min(self._old_interval, _SWITCH_INTERVAL_S))

    def check_home(self) -> None:
        """Refuse any thread but the home thread.

        Raises:
            EngineError: called from another thread.
        """
        if threading.get_ident() != self._home:
            raise EngineError("The model belongs to another thread. Load, run and close it on one and the same thread.")

    def check_unit(self) -> None:
        """Assert that the caller holds the stream, that is, runs inside a unit."""
        assert self.holds_stream, "MLX was touched outside a unit"

    @property
    def holds_stream(self) -> bool:
        """Whether the calling thread runs a unit now."""
        return self._owner == threading.get_ident()

    async def run(self, unit: Callable[[], T]) -> T:
        """Run one unit on the pump (or here, when lending is off) while the loop goes on.

        A cancelled caller still waits until the unit is over: its arrays may be freed only then.
        """
        self.check_home()
        if not self.lending:
            await asyncio.sleep(0)
            return self.run_here(unit)
        work = asyncio.wrap_future(self._pump.submit(lambda: self._hold(unit)))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            await asyncio.wait([work])
            raise

    def lend(self, wanted: bool) -> None:
        """Run units on the pump, or here; where the probe has failed they stay here."""
        self.lending = wanted and self._lends

    def run_here(self, unit: Callable[[], T]) -> T:
        """Run one unit on the home thread itself.

        Raises:
            EngineError: another unit is out on the pump.
        """
        self.check_home()
        return self._hold(unit, wait=False)

    def _hold(self, unit: Callable[[], T], wait: bool = True) -> T:
        if not self._stream_lock.acquire(blocking=wait):
            raise EngineError("The model is at work on something else. Wait for it, or stop it first.")
        try:
            self._owner = threading.get_ident()
            before = mx.get_active_memory()
            self._peak = max(self._peak, mx.get_peak_memory())
            mx.reset_peak_memory()
            with mx.stream(self._stream):
                return unit()
        finally:
            self.unit_peak = mx.get_peak_memory() - before
            self._owner = None
            self._stream_lock.release()

    def memory(self) -> dict[str, int]:
        """Bytes of device memory: ``active``, ``cache``, ``peak``, ``limit`` and what the system has ``available``.

        The limit is Metal's recommended working set, or the physical memory elsewhere.
        """
        system = psutil.virtual_memory()
        info = mx.device_info()
        own = info.get("max_recommended_working_set_size") or (self.backend == "cuda" and info.get("memory_size"))
        return {
            "active": mx.get_active_memory(),
            "cache": mx.get_cache_memory(),
            "peak": max(self._peak, mx.get_peak_memory()),
            "limit": int(own or system.total),
            "available": int(system.available),
        }

    def free_memory(self) -> int:
        """Bytes that are free for this process now, of the device's limit and of what the system has available."""
        memory = self.memory()
        return max(min(memory["limit"] - memory["active"], memory["available"]), 0)

    async def probe(self) -> bool:
        """Lend one tiny unit and compare; on a wrong result lending is switched off and False returned."""
        try:
            answer = await self.run(lambda: (mx.arange(4) * 2 + 1).tolist())
        except RuntimeError:
            log.exception("Lending the stream failed")
            answer = None
        if answer != [1, 3, 5, 7]:
            log.warning("Units run on the window's own thread: lending the stream does not work here.")
            self.lending = self._lends = False
        return self.lending

    def close(self) -> None:
        """Give the stream back.

        The pump clears its own per-thread state before it ends, then the home thread clears its: in another order the
        process aborts at interpreter exit ("terminate called without an active exception").
        """
        self.check_home()
        gc.collect()
        self._pump.submit(lambda: self._hold(mx.clear_streams)).result()
        self._pump.end()
        mx.synchronize()
        mx.clear_streams()
        sys.setswitchinterval(self._old_interval)


def _backend() -> str:
    if mx.default_device().type == mx.DeviceType.cpu:
        return "cpu"
    return "metal" if mx.metal.is_available() else "cuda"


_device: Device | None = None


def home() -> Device:
    """The process's device; the first caller's thread becomes the home thread."""
    global _device
    if _device is None:
        _device = Device()
        atexit.register(close)
    _device.check_home()
    return _device


def current() -> Device | None:
    """The process's device, or None before the first use and after ``close``."""
    return _device


def check_unit() -> None:
    """Assert that the caller runs inside a unit of the process's device."""
    assert _device is not None, "there is no device yet"
    _device.check_unit()


def close() -> None:
    """Free the device; a later ``home`` makes a new one. Safe to call twice; a forgotten call is made at exit."""
    global _device
    if _device is None:
        return
    device, _device = _device, None
    atexit.unregister(close)
    device.close()
