"""The engine's scheduler as the app knows it, and how one is brought up for a model folder."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from engine.config import MLLMSchedulerConfig
from engine.errors import ModelLoadError
from engine.messages import MediaKind
from engine.models.local import examine
from engine.request import MLLMRequest, RequestOutput

if TYPE_CHECKING:
    from engine.forecast import Estimate

T = TypeVar("T")
Progress = Callable[[float, str], None]


class Scheduler(Protocol):
    """What the app asks of the engine's scheduler; `engine.MLLMScheduler` says what each does."""

    @property
    def takes(self) -> frozenset[MediaKind]:
        """Kinds of media that the model reads."""
        ...

    @property
    def context_limit(self) -> int:
        """Most tokens of one conversation, its answer included."""
        ...

    @property
    def sampling(self) -> tuple[float, int]:
        """Frames per second taken from a clip that asks for no other rate, and the most frames of one clip."""
        ...

    def estimate(self, messages: Sequence[Mapping[str, Any]], **template_options: Any) -> Estimate:
        """What a conversation would cost; any thread may ask."""
        ...

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

    @property
    def live_fields(self) -> frozenset[str]:
        """Fields of the configuration that `apply_config` takes without a reload."""
        ...

    @property
    def model_config(self) -> Any:
        """What the model's files say about it."""
        ...

    def clear_runtime_caches(self, ssd: bool = False, *, vision: bool = True, prefix: bool = True) -> dict[str, bool]:
        """Empty caches without touching running requests."""
        ...

    def apply_config(self, config: MLLMSchedulerConfig) -> set[str]:
        """Take other settings and return the names of those that wait for a reload."""
        ...

    async def stop(self) -> None:
        """End every stream and give memory back."""
        ...


@dataclass(frozen=True, slots=True)
class Loaded:
    """A started scheduler, and what gives the model's memory back once it is stopped."""

    scheduler: Scheduler
    unload: Callable[[], Awaitable[None]]


Load = Callable[[Path, MLLMSchedulerConfig, Progress], Awaitable[Loaded]]
"""Loads a folder; raises `EngineError`. Cancelling it takes effect between two pieces of work and frees everything."""


async def load_scheduler(path: Path, config: MLLMSchedulerConfig, on_progress: Progress) -> Loaded:
    """Load the model in `path` with the engine and start a scheduler on the current loop."""
    import engine

    on_progress(0.0, "Reading the folder")
    found = await _beside(examine, path)
    if found.problem:
        raise ModelLoadError(found.problem)  # at once, before seconds of imports
    await _beside(importlib.import_module, "engine.models.loader")
    model, processor = await engine.load_model(path, on_progress=on_progress)
    try:
        await _beside(importlib.import_module, "engine.scheduler")
        scheduler = engine.MLLMScheduler(model, processor, config)
        await scheduler.start()
    except BaseException:
        await engine.unload_model(model)
        raise
    return Loaded(scheduler, partial(engine.unload_model, model))


async def _beside(work: Callable[[Any], T], argument: Any) -> T:
    """Work on a thread of its own: importing would hold the window up for a tenth of a second and more.

    A cancelled caller still waits until the work is over: nobody may meet modules that are half imported.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="import") as thread:
        done = asyncio.get_running_loop().run_in_executor(thread, work, argument)
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            await asyncio.wait([done])
            raise
