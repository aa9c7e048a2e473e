"""Fixtures of the engine's tests: real small models, a plain asyncio loop, and the rule that nothing is left behind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from engine import MLLMScheduler

ROOT = Path(__file__).parents[2]
POCKET = ROOT / "resources" / "pocket"
T = TypeVar("T")
Run = Callable[..., Any]
Make = Callable[..., "MLLMScheduler"]
_TIMEOUT_S = 100.0
_PUMP = "braid-pump"
"""The one thread that lives as long as the process."""


@pytest.fixture(scope="session")
def pocket() -> tuple[Any, Any]:
    """The embedded demo model and its processor."""
    import engine

    return engine.load_model_sync(POCKET)


@pytest.fixture(params=["hybrid", "dense"])
def tiny_model(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    """Each of the two tiny families in turn."""
    from tests.engine import tiny

    loaded: tuple[Any, Any] = getattr(tiny, request.param)()
    return loaded


@pytest.fixture
def make() -> Iterator[Make]:
    """Build schedulers, ``make((model, processor), **config)``; they are closed with the test."""
    import engine

    made: list[MLLMScheduler] = []

    def build(loaded: tuple[Any, Any], **config: Any) -> MLLMScheduler:
        made.append(engine.MLLMScheduler(*loaded, engine.MLLMSchedulerConfig(**config)))
        made[-1].step()  # measures the model, so that what a test counts or breaks afterwards is its own
        return made[-1]

    yield build
    for scheduler in made:
        scheduler.reset()
        scheduler.intake.close()


@pytest.fixture
def run() -> Iterator[Run]:
    """``run(coroutine, seconds=…)`` on a plain asyncio loop, within a limit; tasks that outlive it fail the test."""
    left: set[asyncio.Task[Any]] = set()

    async def limited(work: Coroutine[Any, Any, T], seconds: float) -> T:
        try:
            return await asyncio.wait_for(work, seconds)
        finally:
            left.update(asyncio.all_tasks() - {asyncio.current_task()})

    with asyncio.Runner() as runner:
        yield lambda work, seconds=_TIMEOUT_S: runner.run(limited(work, seconds))
        assert not [task.get_name() for task in left]


@pytest.fixture(autouse=True)
def _no_thread_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    left = {thread for thread in threading.enumerate() if thread.name != _PUMP} - before
    assert not [thread.name for thread in left]
