"""The scheduler: queues, admission, the loop and the streams."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import uuid
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from time import perf_counter
from typing import Any

from engine import device, report
from engine.admission import Admission
from engine.caches import Caches
from engine.config import MLLMSchedulerConfig
from engine.errors import EngineError, MediaError, OutOfMemory, RequestRejected, sentence
from engine.forecast import Estimate, Ruler, forecast
from engine.intake import Intake
from engine.ledger import Ledger
from engine.memory import Pricing
from engine.messages import MediaKind, check
from engine.models.families import open_port
from engine.planner import Decision
from engine.reader import frame_limit
from engine.request import (
    FinishReason,
    MLLMRequest,
    MLLMSchedulerOutput,
    Phase,
    RequestOutput,
    SamplingParams,
)
from engine.row import Row
from engine.running import Running
from engine.stats import BatchStats, Occupation
from engine.streams import Queue
from engine.unit import Failure, Pairs, Token, Unit

log = logging.getLogger(__name__)

_SLOW_UNIT_S = 2.0
_SAMPLING_FIELDS = frozenset(spec.name for spec in dataclasses.fields(SamplingParams))
_RELOAD_FIELDS = frozenset({"ssd_cache_dir"})


class MLLMScheduler:
    """Runs many vision-language requests in one batch.

    Everything but ``abort_request`` belongs on the home thread, the one that loaded the model.

    Args:
        model: from ``engine.load_model``.
        processor: from ``engine.load_model``.
        config: limits and switches.

    Raises:
        ModelLoadError: the model's family is not supported.
    """

    live_fields = frozenset(spec.name for spec in dataclasses.fields(MLLMSchedulerConfig)) - _RELOAD_FIELDS
    """Fields of the configuration that ``apply_config`` takes without a reload."""

    def __init__(self, model: Any, processor: Any, config: MLLMSchedulerConfig | None = None) -> None:
        self.config = config or MLLMSchedulerConfig()
        self.model, self.processor = model, processor
        self.model_config = model.config
        self._device = device.home()
        self._device.lend(self.config.lend_stream)
        self.port = open_port(model, processor)
        self.stop_tokens = self.port.stop_ids
        self.batch_stats = BatchStats()
        self.occupation = Occupation()
        self.caches = Caches(self.config, self.port, self._device.free_memory, self._wake_up)
        self.intake = Intake(self.port, self.config, self._notify)
        self.batch = Running(self.port, self.config, self.batch_stats, self.caches, self.intake.read)
        self.admission = Admission(self.port, self._device, self.batch, self.caches, self.config)
        self._ledger = Ledger()
        self.requests, self.waiting = self._ledger.requests, self._ledger.waiting
        self.running = self._ledger.running
        self.request_id_to_uid = self._ledger.request_id_to_uid
        self.uid_to_request_id = self._ledger.uid_to_request_id
        self._ready: dict[str, Row] = {}
        self._aborts: deque[str] = deque()
        self._at_boundary: deque[Callable[[], None]] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._changing = asyncio.Lock()

    @property
    def output_queues(self) -> dict[str, Queue]:
        """One queue per request that has not been read to its end."""
        return self._ledger.streams.queues

    @property
    def finished_req_ids(self) -> set[str]:
        """Requests that ended in the last step."""
        return self._ledger.finished_ids

    @property
    def num_requests_processed(self) -> int:
        """Requests that have ended, however."""
        return self._ledger.processed

    @property
    def total_prompt_tokens(self) -> int:
        """Prompt tokens of all requests that have ended."""
        return self._ledger.prompt_tokens

    @property
    def total_completion_tokens(self) -> int:
        """Answer tokens of all requests that have ended."""
        return self._ledger.completion_tokens

    @property
    def pricing(self) -> Pricing | None:
        """What requests cost on this model; None before it was measured."""
        return self.admission.pricing

    @property
    def takes(self) -> frozenset[MediaKind]:
        """Kinds of media that the model reads."""
        return self.port.takes

    # ---------------------------------------------------------------- requests

    def add_request(
        self,
        prompt: str | None = None,
        images: Sequence[Any] | None = None,
        videos: Sequence[Any] | None = None,
        audio: Sequence[Any] | None = None,
        max_tokens: int | None = 256,
        temperature: float = 0.7,
        top_p: float = 0.9,
        request_id: str | None = None,
        *,
        messages: Sequence[Mapping[str, Any]] | None = None,
        template_options: Mapping[str, Any] | None = None,
        **sampling: Any,
    ) -> str:
        """Queue one request, first come, first served.

        Args:
            prompt: rendered prompt with one placeholder per picture, clip and sound; or give ``messages``.
            images: paths, ``data:`` URLs, bytes or PIL images, in the order of their placeholders; where
                ``allow_remote_media`` is on, also http and https addresses, as for the other media.
            videos: paths, ``data:`` URLs or bytes of clips and animations, in the order of their placeholders.
            audio: paths, ``data:`` URLs or bytes of sounds, in the order of their placeholders.
            max_tokens: reply limit; None takes ``default_max_tokens``.
            temperature: 0 is greedy.
            top_p: nucleus size.
            request_id: a fresh UUID if None.
            messages: chat messages with inline media, instead of ``prompt``.
            template_options: for the chat template, such as ``{"enable_thinking": True}``.
            sampling: the other fields of ``SamplingParams``.

        Returns:
            The request's id.

        Raises:
            RequestRejected: a parameter is impossible, or the id is taken.
            TypeError: an unknown keyword.
        """
        self._device.check_home()
        if unknown := set(sampling) - _SAMPLING_FIELDS:
            raise TypeError(f"add_request() got an unexpected keyword argument {min(unknown)!r}")
        if (prompt is None) == (messages is None):
            raise RequestRejected("Give either a prompt or messages.")
        if messages is not None:
            check(messages)
        request_id = request_id or str(uuid.uuid4())
        if request_id in self.requests:
            raise RequestRejected(f"There is already a request with the id “{request_id}”. Choose another id.")
        limit = self.config.default_max_tokens if max_tokens is None else max_tokens
        try:
            params = SamplingParams(max_tokens=limit, temperature=temperature, top_p=top_p, **sampling)
        except ValueError as error:
            raise RequestRejected(str(error)) from error
        request = MLLMRequest(
            request_id=request_id,
            prompt=prompt or "",
            images=tuple(images or ()),
            videos=tuple(videos or ()),
            audio=tuple(audio or ()),
            sampling_params=params,
            messages=messages,
            template_options=template_options or {},
        )
        self.caches.open()
        self._ledger.add(request)
        if self._task is not None:
            self._ledger.streams.open(request_id)
        self.intake.submit(request)
        return request_id

    def abort_request(self, request_id: str) -> bool:
        """End a request in whatever phase it is, before the next unit; safe from any thread.

        Returns:
            False for a request that is unknown or has ended.
        """
        request = self.requests.get(request_id)
        if request is None or request.status.finished:
            return False
        self._aborts.append(request_id)
        self._notify()
        return True

    def has_requests(self) -> bool:
        """Whether any request is waiting or running."""
        return bool(self.waiting or self.running)

    def get_num_waiting(self) -> int:
        """Requests that hold no device memory yet."""
        return len(self.waiting)

    def get_num_running(self) -> int:
        """Requests in vision, prefill or decode."""
        return len(self.running)

    def get_request(self, request_id: str) -> MLLMRequest | None:
        """A request by id; finished ones stay readable until removed, the last 256 at most."""
        return self.requests.get(request_id)

    def remove_finished_request(self, request_id: str) -> MLLMRequest | None:
        """Forget a finished request; None if there is none with this id."""
        return self._ledger.remove_finished(request_id)

    # ---------------------------------------------------------------- the synchronous face

    def step(self) -> MLLMSchedulerOutput:
        """Do one unit of work on the calling thread and hand out what it brought.

        If only preparation is pending it waits for it.

        Raises:
            RuntimeError: the loop task runs.
        """
        if self._task is not None:
            raise RuntimeError("step() cannot be called while the loop runs: await stop() first.")
        self._device.check_home()
        if self.pricing is None:
            self._device.run_here(self.admission.measure)
        unit = self._begin()
        if unit is None and (self.intake.reading or (self.waiting and not self.running)):
            self.intake.wait()
            self.caches.wait()
            unit = self._begin(keep_output=True)
        if unit is not None:
            self._end(unit, *_timed(lambda: self._device.run_here(unit.run)))
        return self._ledger.output

    # ---------------------------------------------------------------- the loop

    async def start(self) -> None:
        """Run the loop task on the current asyncio loop; a second call changes nothing."""
        self._device.check_home()
        async with self._changing:
            if self._task is not None:
                return
            self._loop = asyncio.get_running_loop()
            self._wake = asyncio.Event()
            if self.config.lend_stream:
                await self._device.probe()
            if self.pricing is None:
                await self._device.run(self.admission.measure)
            self.caches.open()
            for request in self._ledger.live:
                self._ledger.streams.open(request.request_id)
            self.batch.hand_over = self._hand_over if self._device.lending else None
            self._task = self._loop.create_task(self._run(), name="braid-scheduler")

    async def stop(self) -> None:
        """End the loop and every stream; ``start`` works again afterwards."""
        async with self._changing:
            self.batch.hand_over = None
            self.batch.interrupt()
            if self._task is not None:
                self._task.cancel()
                await asyncio.wait([self._task])
                self._task = self._loop = None
            await self._drain()
            self.reset()
            await self._device.run(_clear_cache)
            await asyncio.to_thread(self.intake.close)  # a picture may still be in preparation

    async def _drain(self) -> None:
        """Bring to the disk what is not there yet, then end the disk's threads."""
        while self.caches.unsaved:
            await asyncio.to_thread(self.caches.flush)
            if (unit := self._spill_unit()) is not None:
                await self._device.run(unit.run)
        await asyncio.to_thread(self.caches.close)

    async def _run(self) -> None:
        while True:
            try:
                await self._turn()
            except Exception as error:
                log.exception("The scheduler failed between units")
                for request in self._ledger.live:
                    self._finish(request, "error", error=sentence(error))

    async def _turn(self) -> None:
        """Run one unit, or wait until something happens."""
        self._wake.clear()
        with self.occupation.measured():
            unit = self._begin()
        if unit is None:
            await self._wake.wait()
            return
        began = perf_counter()
        try:
            outcome: Any = await self._device.run(unit.run)
        except Exception as error:  # noqa: BLE001 - a unit's failure belongs to its requests, the loop goes on
            outcome = error
        with self.occupation.measured():
            self._end(unit, outcome, perf_counter() - began)

    def _hand_over(self, pairs: Pairs) -> None:
        """Pass a step's tokens from the pump to the loop while the unit goes on."""
        if pairs and self._loop is not None:
            self._loop.call_soon_threadsafe(self._take_tokens, pairs)

    def _take_tokens(self, pairs: Pairs) -> None:
        with self.occupation.measured():
            for row, token in pairs:
                if not row.gone:
                    self._take_token(row, token)

    def _wake_up(self) -> None:
        """Let the loop look around at the next boundary; from any thread."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._wake.set)

    def _notify(self) -> None:
        """Wake the loop, and end a decode unit that is out; from any thread."""
        self.batch.interrupt()
        self._wake_up()

    # ---------------------------------------------------------------- streams

    async def add_request_async(self, *args: Any, **kwargs: Any) -> str:
        """``add_request`` for callers on the loop; the answer comes through ``stream_outputs``."""
        return self.add_request(*args, **kwargs)

    async def stream_outputs(self, request_id: str) -> AsyncGenerator[RequestOutput]:
        """Yield a request's outputs up to its finished one; leaving early aborts it, an unknown id ends at once."""
        stream = self._ledger.streams.read(request_id, self.abort_request)
        async with contextlib.aclosing(stream):
            async for output in stream:
                yield output

    async def generate(
        self, prompt: str | None = None, images: Sequence[Any] | None = None, **kwargs: Any
    ) -> RequestOutput:
        """The whole answer.

        Returns:
            The finished output; a failure comes back as ``finish_reason="error"`` with its sentence.

        Raises:
            RequestRejected: as ``add_request``; also when the loop does not run.
        """
        if self._task is None:
            raise RequestRejected("The scheduler does not run: await start() first.")
        request_id = await self.add_request_async(prompt, images, **kwargs)
        async with contextlib.aclosing(self.stream_outputs(request_id)) as stream:
            async for output in stream:
                if output.finished:
                    return output
        raise EngineError("The answer ended without a result. Try again.")

    # ---------------------------------------------------------------- one step

    def _begin(self, keep_output: bool = False) -> Unit | None:
        """Everything due at a boundary between units, then the choice of the next one."""
        if not keep_output:
            self._ledger.new_step()
        while self._aborts:
            self._abort(self._aborts.popleft())
        while self._at_boundary:
            self._at_boundary.popleft()()
        self._collect_prepared()
        self._admit()
        unit = self.batch.next_unit() or self._spill_unit()
        self._ledger.output.has_work = unit is not None
        return unit

    def _spill_unit(self) -> Unit | None:
        """While nothing else is to be done, what is idle goes to the disk."""
        spill = self.caches.spill()
        return None if spill is None else Unit(Decision("store"), None, spill)

    def _end(self, unit: Unit, outcome: Any, seconds: float) -> None:
        """Book a unit's outcome and hand out its tokens."""
        if isinstance(outcome, Exception):
            if not isinstance(outcome, MediaError):  # a file that went away is nothing that failed here
                log.error("A %s unit failed", unit.decision.kind, exc_info=outcome)
            outcome.__traceback__ = None  # its frames would keep the unit's arrays alive
        if seconds > _SLOW_UNIT_S:
            kind, waiting, running = unit.decision.kind, len(self.waiting), len(self.running)
            log.warning("A %s unit took %.1f s (%d waiting, %d running)", kind, seconds, waiting, running)
        if not isinstance(outcome, Exception):
            self.admission.learn(unit)
        for event in self.batch.settle(unit, outcome, seconds):
            if isinstance(event, Token):
                if not event.row.gone:  # a round's tokens after the one that ended the reply are dropped
                    self._take_token(event.row, event.token)
            elif isinstance(event, Failure):
                self._finish(event.row.request, "error", error=sentence(event.error))
        self.batch.tidy()

    def _collect_prepared(self) -> None:
        for request in list(self.waiting):
            try:
                row = self.intake.take(request.request_id)
            except EngineError as error:
                self._finish(request, "error", error=str(error))
            except Exception as error:
                # Whatever preparation trips over ends this request only.
                log.exception("Preparing %s failed", request.request_id)
                self._finish(request, "error", error=sentence(error))
            else:
                if row is not None:
                    request.num_prompt_tokens = len(row.prompt.ids)
                    self._ready[request.request_id] = row

    def _admit(self) -> None:
        """Let prepared requests in, in order of arrival.

        One that is still being prepared or fetched keeps a seat for itself, but nobody with a seat waits for it.
        """
        kept = 0
        for request in list(self.waiting):
            row = self._ready.get(request.request_id)
            if row is None:
                kept += 1
                continue
            if self.batch.seats <= kept:
                return
            try:
                request.wait_reason = self.admission.reason_to_wait(row)
            except OutOfMemory as error:
                self._finish(request, "error", error=str(error))
                continue
            if request.wait_reason:
                return
            if self.caches.fetching(request.request_id, row.key[:-1]):
                kept += 1
                continue
            del self._ready[request.request_id]
            self._ledger.admit(request)
            self.batch.admit(row)

    def _take_token(self, row: Row, token: int) -> None:
        request = row.request
        self._ledger.count(request, token)
        self.batch_stats.generation_tokens += 1
        if row.logprobs is not None:
            request.output_logprobs.append(row.logprobs.take())
        stopped = token in row.stop_ids
        try:
            text = "" if stopped else row.detokenizer.add(token)
        except Exception as error:
            # Tokenizers are code of others: what one of them trips over ends this request only.
            log.exception("A token of %s has no text", request.request_id)
            self._finish(request, "error", error=sentence(error))
            return
        if stopped or row.detokenizer.stopped:
            self._finish(request, "stop", row, text, token)
        elif request.num_output_tokens >= row.limit:
            self._finish(request, "length", row, text, token)
        else:
            self._ledger.tell(request, token, text)

    def _abort(self, request_id: str) -> None:
        request = self.requests.get(request_id)
        if request is not None and not request.status.finished:
            self._finish(request, "abort")

    def _finish(
        self,
        request: MLLMRequest,
        reason: FinishReason,
        row: Row | None = None,
        text: str = "",
        token: int | None = None,
        error: str | None = None,
    ) -> None:
        """End a request, once: give back what it holds, count it, and tell its reader."""
        self.batch.interrupt()
        request_id = request.request_id
        row = row or self._ready.pop(request_id, None) or self.batch.row(request_id)
        if row is not None:
            row.gone = True
            text += row.detokenizer.finish()
            self._remember(row, request.output_text + text)
        self.intake.drop(request_id)
        self.batch.remove(request_id)
        self._ledger.finish(request, reason, text, token, error)

    def _remember(self, row: Row, text: str) -> None:
        """Keep a reply's ids for the turns after it, unless a stop string cut its text off from them."""
        ids = row.request.output_tokens
        if not row.detokenizer.stopped:
            self.intake.history.record(row.digest, text, ids[:-1] if ids and ids[-1] in row.stop_ids else ids)

    # ---------------------------------------------------------------- figures and upkeep

    def get_running_requests_info(self) -> list[dict[str, Any]]:
        """What every waiting and running request is doing; durations in seconds."""
        return report.running_requests(self)

    def get_stats(self) -> dict[str, Any]:
        """Counters, rates, caches and memory; every figure as counted or measured."""
        return report.stats(self)

    def phase(self, request_id: str) -> tuple[Phase, float, str]:
        """(phase, progress 0..1 within it, detail such as ``image 2 of 3``) of a live request."""
        if request_id in self.running:
            return self.batch.phase(request_id)
        return (Phase.PREPARING if self.intake.started(request_id) else Phase.QUEUED), 0.0, ""

    def estimate(self, messages: Sequence[Mapping[str, Any]], **template_options: Any) -> Estimate:
        """What a conversation would cost, without running the model; see ``engine.estimate``.

        Once the loop has been started, any thread may ask; what is on the web is fetched while it waits.
        """
        ruler = Ruler(*self.sampling, fetch=self.intake.fetch())
        if self.pricing is None:
            self._device.run_here(self.admission.measure)
        assert self.pricing is not None
        per_patch = self.pricing.vision.bytes(1)
        encode = self.intake.history.spelling(template_options).encode
        return forecast(self.port, messages, self.pricing.cache, per_patch, ruler, encode, **template_options)

    @property
    def sampling(self) -> tuple[float, int]:
        """Frames per second taken from a clip that asks for no other rate, and the most frames of one clip."""
        return self.config.default_video_fps, frame_limit(self.port, self.config.max_video_frames)

    @property
    def context_limit(self) -> int:
        """Most tokens of one conversation, its answer included."""
        return self.config.max_kv_size or self.port.context_limit

    def memory(self) -> dict[str, int]:
        """Bytes of device memory: ``active``, ``cache``, ``peak`` and ``limit`` (0: the backend names none)."""
        return self._device.memory()

    @property
    def backend(self) -> str:
        """``metal``, ``cuda`` or ``cpu``."""
        return self._device.backend

    @property
    def lending(self) -> bool:
        """Whether units run on the helper thread."""
        return self._device.lending

    def clear_runtime_caches(self, ssd: bool = False, *, vision: bool = True, prefix: bool = True) -> dict[str, bool]:
        """Empty the vision and prefix caches at the next boundary, without touching running requests.

        Args:
            ssd: empty the cold tier as well.
            vision: False leaves the vision cache alone.
            prefix: False leaves the prefix cache alone.

        Returns:
            For each whether it is on, and so was or will be emptied.
        """
        if vision:
            self._do_at_boundary(self.caches.vision.clear)
        if prefix:
            self._do_at_boundary(self.caches.prefix.clear)
        if ssd and self.caches.ssd is not None:
            self.caches.ssd.clear()
        return {
            "vision_cache": vision and self.config.enable_vision_cache,
            "prefix_cache": prefix and self.config.enable_prefix_cache,
        }

    def apply_config(self, config: MLLMSchedulerConfig) -> set[str]:
        """Take what can change now, at the next boundary.

        Returns:
            Names of changed fields that take effect only after a reload.
        """
        names = [spec.name for spec in dataclasses.fields(config)]
        changed = {name for name in names if getattr(config, name) != getattr(self.config, name)}
        # Not only what differs now: an earlier change may still wait for its boundary.
        live = {name: getattr(config, name) for name in self.live_fields}
        self.intake.config = dataclasses.replace(self.config, **live)  # the next question may be prepared before it
        self._do_at_boundary(lambda: self._reconfigure(live))
        return changed - self.live_fields

    def _do_at_boundary(self, change: Callable[[], None]) -> None:
        self._at_boundary.append(change)
        if self._task is None:
            while self._at_boundary:
                self._at_boundary.popleft()()
        self._notify()

    def _reconfigure(self, changes: Mapping[str, Any]) -> None:
        self.config = dataclasses.replace(self.config, **changes)
        self.batch.configure(self.config)
        self.caches.configure(self.config)
        self.intake.config = self.admission.config = self.config
        self._device.lend(self.config.lend_stream)
        if self._task is not None:
            # Inline, the loop cannot take a step's tokens before the unit has ended: they would come out of order.
            self.batch.hand_over = self._hand_over if self._device.lending else None

    def reset(self) -> None:
        """Abort everything, end open streams and forget all state; usable afterwards.

        A unit that is out runs to its end unheard; what it holds goes at the next boundary.
        """
        for request_id in list(self.requests):
            self._abort(request_id)
            # A reader that still holds its queue gets the last outputs; the queue itself is forgotten.
            self.remove_finished_request(request_id)
        self._do_at_boundary(self._clear)

    def _clear(self) -> None:
        self.batch.clear()
        self.caches.clear()


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    began = perf_counter()
    try:
        outcome = work()
    except Exception as error:  # noqa: BLE001 - a unit's failure belongs to its requests, not to the caller of step()
        outcome = error
    return outcome, perf_counter() - began


def _clear_cache() -> None:
    import mlx.core as mx

    mx.clear_cache()
