"""Which model answers: absent, loading, ready or failed, and the scheduler that runs it."""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, Protocol

from PySide6.QtCore import QObject, Signal

from engine.config import MLLMSchedulerConfig
from engine.errors import EngineError
from engine.request import MLLMRequest, RequestOutput

_log = logging.getLogger(__name__)
Progress = Callable[[float, str], None]


class Scheduler(Protocol):
    """What the app asks of the engine's scheduler; `engine.MLLMScheduler` says what each does."""

    model_config: Any

    async def add_request_async(self, prompt: str | None = None, **options: Any) -> str:
        """Queue a request and return its id."""
        ...

    def stream_outputs(self, request_id: str) -> AsyncIterator[RequestOutput]:
        """What the engine adds to a request, until it has ended."""
        ...

    def abort_request(self, request_id: str) -> bool:
        """End a request now; False for an unknown one."""
        ...

    def get_request(self, request_id: str) -> MLLMRequest | None:
        """A live or finished request."""
        ...

    def remove_finished_request(self, request_id: str) -> MLLMRequest | None:
        """Forget a finished request."""
        ...

    def get_running_requests_info(self) -> list[dict[str, Any]]:
        """One entry for each request that waits or runs."""
        ...

    def get_stats(self) -> dict[str, Any]:
        """All figures, as measured."""
        ...

    async def stop(self) -> None:
        """End every stream and give memory back."""
        ...


Load = Callable[[Path, MLLMSchedulerConfig, Progress], Awaitable[Scheduler]]
"""Loads a folder and returns a started scheduler; raises `EngineError`."""


async def load_scheduler(path: Path, config: MLLMSchedulerConfig, on_progress: Progress) -> Scheduler:
    """Load the model in `path` with the engine and start a scheduler on the current loop."""
    import engine

    await _imported("engine.models.loader")
    model, processor = await engine.load_model(path, on_progress=on_progress)
    await _imported("engine.scheduler")
    scheduler = engine.MLLMScheduler(model, processor, config)
    await scheduler.start()
    return scheduler


async def _imported(module: str) -> None:
    """Import on a thread of its own: it would hold the window up for a tenth of a second and more."""
    with ThreadPoolExecutor(1, thread_name_prefix="import") as thread:
        await asyncio.get_running_loop().run_in_executor(thread, importlib.import_module, module)


class Model(QObject):
    """The model that answers.

    Signals:
        changed: status, progress, stage, error or name changed.
    """

    changed = Signal()

    def __init__(
        self, path: Path | None, config: MLLMSchedulerConfig, load: Load = load_scheduler, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._path = path
        self._config = config
        self._load = load
        self._settled = asyncio.Event()
        self.scheduler: Scheduler | None = None
        self.name = "" if path is None else path.name.replace("_", " ").capitalize()
        self.status: Literal["absent", "loading", "ready", "failed"] = "absent" if path is None else "loading"
        self.progress = 0.0
        self.stage = ""
        self.error: str | None = None
        self.takes_images = False

    async def load(self) -> None:
        """Load once; ends as ready or failed, with a sentence in `error`."""
        if self._path is None:
            self._settle("absent", "There is no model to answer. Choose one in the model list.")
            return
        try:
            scheduler = await self._load(self._path, self._config, self._progressed)
        except EngineError as error:
            self._settle("failed", str(error))
        except Exception:  # noqa: BLE001 - whatever the model's files provoke, the window stays and says so
            _log.exception("Loading %s failed", self._path)
            self._settle("failed", f"{self.name} could not be loaded. The log file says more; try another model.")
        else:
            self.scheduler = scheduler
            self.takes_images = getattr(scheduler.model_config, "vision_config", None) is not None
            self.progress = 1.0
            self._settle("ready", None)

    async def answering(self) -> Scheduler:
        """The scheduler, once it is ready.

        Raises:
            EngineError: there is no model, or it could not be loaded.
        """
        await self._settled.wait()
        if self.scheduler is None:
            raise EngineError(self.error or "The model has been unloaded. Load one to go on.")
        return self.scheduler

    async def close(self) -> None:
        """Stop the scheduler; open streams end as aborted."""
        scheduler, self.scheduler = self.scheduler, None
        if scheduler is not None:
            await scheduler.stop()

    def _progressed(self, fraction: float, stage: str) -> None:
        self.progress, self.stage = fraction, stage
        self.changed.emit()

    def _settle(self, status: Literal["absent", "ready", "failed"], error: str | None) -> None:
        self.status, self.error, self.stage = status, error, ""
        self._settled.set()
        self.changed.emit()
