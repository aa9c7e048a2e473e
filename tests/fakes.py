"""Hand-written stand-ins: a scheduler whose answers a test dictates."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any

from app.state.scheduler import Loaded
from engine.config import MLLMSchedulerConfig
from engine.errors import RequestRejected
from engine.forecast import Estimate
from engine.request import FinishReason, MLLMRequest, Phase, RequestOutput, RequestStatus


@dataclass
class Script:
    """An answer that is given at once: its pieces, then its end."""

    pieces: Sequence[str] = ("A ", "red ", "circle.")
    reason: FinishReason = "stop"
    error: str | None = None


@dataclass
class FakeRequest:
    """One request as the scheduler got it; without a script the test speaks for the model with `say` and `end`."""

    id: str
    messages: list[dict[str, Any]]
    options: dict[str, Any]
    queue: asyncio.Queue[RequestOutput | None] = field(default_factory=asyncio.Queue)
    text: str = ""
    tokens: int = 0
    ended: FinishReason | None = None
    phase: Phase = Phase.QUEUED
    progress: float = 0.0
    detail: str = ""
    tokens_per_second: float | None = None
    record: MLLMRequest = field(default_factory=MLLMRequest)

    def say(self, text: str) -> None:
        """Stream one token with this text."""
        if self.ended is not None:
            return
        self.text += text
        self.tokens += 1
        self.phase = Phase.GENERATION
        if self.record.first_token_time is None:
            self.record.first_token_time = monotonic()
        self.queue.put_nowait(self._output(text))

    def end(self, reason: FinishReason = "stop", error: str | None = None) -> None:
        """End the answer, once."""
        if self.ended is not None:
            return
        self.ended = reason
        self.record.finish_time = monotonic()
        self.record.status = RequestStatus(reason)
        self.queue.put_nowait(self._output("", reason, error))
        self.queue.put_nowait(None)

    def play(self, script: Script) -> None:
        """Give a whole answer at once."""
        for piece in script.pieces:
            self.say(piece)
        self.end(script.reason, script.error)

    def _output(self, text: str, reason: FinishReason | None = None, error: str | None = None) -> RequestOutput:
        return RequestOutput(
            request_id=self.id,
            new_token_ids=(self.tokens,) if text else (),
            new_text=text,
            output_text=self.text,
            prompt_tokens=10,
            completion_tokens=self.tokens,
            cached_tokens=4,
            finished=reason is not None,
            finish_reason=reason,
            error=error,
        )


class FakeScheduler:
    """The scheduler's face towards the app.

    Attributes:
        figures: statistics in place of the usual ones.
        cleared: caches that were emptied, in order.
        scripts: answers for the next requests, in order; a request beyond them waits for the test's `say` and `end`.
        sent: every request so far.
        refuse: raise this sentence at the next request.
    """

    def __init__(self, *scripts: Script) -> None:
        self.takes = frozenset({"image"})
        self.context_limit = 1000
        self.sampling = (2.0, 16)
        self.estimated: list[list[dict[str, Any]]] = []
        self.scripts = deque(scripts)
        self.sent: list[FakeRequest] = []
        self.aborted: list[str] = []
        self.refuse: str | None = None
        self.stopped = False
        self.stats_read = 0
        self.info_read = 0
        self.model_config = SimpleNamespace()
        self.config = MLLMSchedulerConfig()
        self.live_fields = frozenset(MLLMSchedulerConfig.__dataclass_fields__) - {"max_num_seqs", "prefill_step_size"}
        self.cleared: list[str] = []
        self.figures: dict[str, Any] = {}
        self._live: dict[str, FakeRequest] = {}

    @property
    def live(self) -> list[FakeRequest]:
        """Requests that have not ended."""
        return [request for request in self._live.values() if request.ended is None]

    @property
    def kept(self) -> list[str]:
        """Ids of requests that nobody has removed yet."""
        return list(self._live)

    async def add_request_async(self, prompt: str | None = None, **options: Any) -> str:
        if self.refuse is not None:
            raise RequestRejected(self.refuse)
        request = FakeRequest(options.pop("request_id"), options.pop("messages"), options)
        request.record.request_id = request.id
        self.sent.append(request)
        self._live[request.id] = request
        if self.scripts:
            request.play(self.scripts.popleft())
        return request.id

    async def stream_outputs(self, request_id: str) -> AsyncIterator[RequestOutput]:
        request = self._live[request_id]
        try:
            while (output := await request.queue.get()) is not None:
                yield output
        finally:
            self.abort_request(request_id)

    def abort_request(self, request_id: str) -> bool:
        request = self._live.get(request_id)
        if request is None or request.ended is not None:
            return False
        self.aborted.append(request_id)
        request.end("abort")
        return True

    def get_request(self, request_id: str) -> MLLMRequest | None:
        request = self._live.get(request_id)
        return request.record if request else None

    def remove_finished_request(self, request_id: str) -> MLLMRequest | None:
        request = self._live.get(request_id)
        if request is None or request.ended is None:
            return None
        return self._live.pop(request_id).record

    def estimate(self, messages: list[dict[str, Any]], **template_options: Any) -> Estimate:
        """Ten tokens for each message, one for each word, 100 for each piece of media."""
        self.estimated.append(messages)
        parts = [part for message in messages if isinstance(message["content"], list) for part in message["content"]]
        words = sum(len(part["text"].split()) for part in parts if part["type"] == "text")
        media = 100 * sum(part["type"] != "text" for part in parts)
        return Estimate(10 * len(messages) + words + media, media, 0, 1_000_000, 2_000_000)

    def get_running_requests_info(self) -> list[dict[str, Any]]:
        self.info_read += 1
        return self._entries()

    def _entries(self) -> list[dict[str, Any]]:
        return [
            {
                "request_id": request.id,
                "phase": request.phase.value,
                "progress": request.progress,
                "detail": request.detail,
                "tokens_per_second": request.tokens_per_second,
                "status": "waiting" if request.phase is Phase.QUEUED else "running",
                "completion_tokens": request.tokens,
                "mtp": {"drafts": 0, "accepted": 0, "off": None},
            }
            for request in self.live
        ]

    def get_stats(self) -> dict[str, Any]:
        self.stats_read += 1
        return {
            "num_waiting": 0,
            "num_running": len(self.live),
            "requests": self._entries(),
            "batch_generator": {"generation_tokens": sum(request.tokens for request in self.sent)},
            "loop_stall_ms": {"p50": 0.5, "p99": 3.0, "max": 4.0},
            "metal_active_memory_gb": 0.25,
            "metal_cache_memory_gb": 0.05,
            "metal_peak_memory_gb": 0.5,
            "memory_limit_gb": 8.0,
            "memory_budget_gb": 7.0,
            "backend": "cpu",
        } | self.figures

    def apply_config(self, config: MLLMSchedulerConfig) -> set[str]:
        if self.refuse is not None:
            raise RequestRejected(self.refuse)
        changed = {name for name in config.__dataclass_fields__ if getattr(config, name) != getattr(self.config, name)}
        live = {name: getattr(config, name) for name in changed & self.live_fields}
        self.config = replace(self.config, **live)
        return changed - self.live_fields

    def clear_runtime_caches(self, ssd: bool = False, *, vision: bool = True, prefix: bool = True) -> dict[str, bool]:
        self.cleared += [name for name, on in (("prefix", prefix), ("vision", vision), ("ssd", ssd)) if on]
        return {"vision_cache": vision, "prefix_cache": prefix}

    async def stop(self) -> None:
        for request in self.live:
            request.end("abort")
        self.stopped = True


class FakeLoader:
    """Stands in for loading: succeeds when told, with progress on the way.

    Attributes:
        scheduler: of the model it loads; a fresh one for each load after the first.
        error: raised in place of loading.
        go: loading waits for it.
        asked: folders, in order, and the settings each was loaded with in `configs`.
        resident: folders in memory, and those being loaded.
        most: most of them at one time.
    """

    def __init__(self, scheduler: FakeScheduler, error: Exception | None = None, *, at_once: bool = True) -> None:
        self.scheduler = scheduler
        self.error = error
        self.go = asyncio.Event()
        self.asked: list[Path] = []
        self.configs: list[MLLMSchedulerConfig] = []
        self.resident: list[Path] = []
        self.most = 0
        if at_once:
            self.go.set()

    async def __call__(self, path: Path, config: MLLMSchedulerConfig, on_progress: Any) -> Loaded:
        if self.asked:
            self.scheduler = FakeScheduler()
        self.asked.append(path)
        self.configs.append(config)
        self.resident.append(path)
        self.most = max(self.most, len(self.resident))
        try:
            on_progress(0.5, "Loading weights")
            await self.go.wait()
            self._fail()
        except BaseException:
            await asyncio.sleep(0)  # giving memory back takes a turn of the loop, too
            self.resident.remove(path)
            raise
        return Loaded(self.scheduler, partial(self._unload, path))

    def _fail(self) -> None:
        if self.error is not None:
            raise self.error

    async def _unload(self, path: Path) -> None:
        await asyncio.sleep(0)
        self.resident.remove(path)
