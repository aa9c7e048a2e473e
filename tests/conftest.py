"""Fixtures of the whole suite: the Qt loop, a throw-away profile, and the rule that noise fails a test.

Qt is imported inside the fixtures that need it, so that the engine's tests run without it.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from tests.fakes import FakeLoader, FakeScheduler

if TYPE_CHECKING:
    from app.state.library import Library
    from app.state.model import Model

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ.pop("QT_QPA_PLATFORM_PLUGIN_PATH", None)  # opencv points it at its own Qt

T = TypeVar("T")
Run = Callable[[Coroutine[Any, Any, T]], T]
_TIMEOUT_S = 20.0


class Records(logging.Handler):
    """Collects what is logged at WARNING and above, and which of it a test expects."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.seen: list[str] = []
        self.expected: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(f"{record.name}: {record.getMessage()}")

    def expect(self, pattern: str) -> None:
        """Allow records that match, and demand at least one."""
        self.expected.append(pattern)

    def surprises(self) -> list[str]:
        """Records that no pattern expects."""
        return [line for line in self.seen if not any(re.search(pattern, line) for pattern in self.expected)]

    def missing(self) -> list[str]:
        """Patterns that no record has met."""
        return [pattern for pattern in self.expected if not any(re.search(pattern, line) for line in self.seen)]


def pytest_sessionfinish() -> None:
    """End as the app does: what a test has copied must not outlive Python."""
    if "PySide6.QtGui" in sys.modules and sys.modules["PySide6.QtGui"].QGuiApplication.instance() is not None:
        from app import clipboard

        clipboard.let_go()


@pytest.fixture
def records() -> Iterator[Records]:
    """Log records of the test; `records.expect(pattern)` allows and demands one."""
    handler = Records()
    logging.getLogger().addHandler(handler)
    yield handler
    logging.getLogger().removeHandler(handler)


@pytest.fixture(autouse=True)
def _quiet_app(request: pytest.FixtureRequest) -> Iterator[None]:
    """In the app's tests an unexpected log record fails the test."""
    if "app" not in request.path.parts:
        yield
        return
    records: Records = request.getfixturevalue("records")
    yield
    assert not records.surprises()
    assert not records.missing()


@pytest.fixture
def loop(qapp: Any) -> Iterator[asyncio.AbstractEventLoop]:
    """A qasync loop of the test's own; leftover tasks, threads and windows fail the test."""
    import qasync

    qapp.setQuitOnLastWindowClosed(False)
    threads = set(threading.enumerate())
    windows = set(qapp.topLevelWidgets())
    loop = qasync.QEventLoop(qapp)
    asyncio.set_event_loop(loop)
    yield loop
    gc.collect()
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.wait(tasks))
    loop.close()
    asyncio.set_event_loop(None)
    assert not tasks
    assert not [thread.name for thread in threading.enumerate() if thread not in threads]
    assert not [window for window in qapp.topLevelWidgets() if window not in windows and window.isVisible()]


@pytest.fixture
def run(loop: asyncio.AbstractEventLoop) -> Run[Any]:
    """Run a coroutine on the Qt loop to its end, within a time limit."""

    def run(work: Coroutine[Any, Any, T]) -> T:
        return loop.run_until_complete(asyncio.wait_for(work, _TIMEOUT_S))

    return run


@pytest.fixture
def until() -> Callable[[Callable[[], Any]], Coroutine[Any, Any, None]]:
    """Let the loop run until a condition holds; the time limit of `run` ends a vain wait."""

    async def until(condition: Callable[[], Any]) -> None:
        while not condition():  # noqa: ASYNC110 - the condition is any state, not one that announces itself
            await asyncio.sleep(0.005)

    return until


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    """A folder for library and settings that ends with the test."""
    return tmp_path / "profile"


@pytest.fixture
def scheduler() -> FakeScheduler:
    """A scheduler that answers what the test dictates."""
    return FakeScheduler()


@pytest.fixture
def model(run: Run[Any], scheduler: FakeScheduler) -> Model:
    """A loaded model on the fake scheduler."""
    from app.state.model import Model
    from engine.config import MLLMSchedulerConfig

    model = Model(Path("pocket"), MLLMSchedulerConfig(), FakeLoader(scheduler))
    run(model.load())
    return model


@pytest.fixture
def library(run: Run[Any], model: Model, profile: Path) -> Iterator[Library]:
    """A library in the profile, opened; closed with the test."""
    from app.settings import Generation
    from app.state.library import Library

    async def opened() -> Library:
        library = Library(profile, model, Generation)
        await library.restore()
        await library._tasks.join()
        await library._journal.flush()  # no timer may fire between the fixture and the test, when no loop runs
        return library

    library = run(opened())
    yield library
    run(library.end_answers())
    run(library.close())
