"""A streaming answer never waits for more than one small unit of others, and nobody stands behind a long prompt."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Callable
from concurrent.futures import wait
from itertools import pairwise
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine import MLLMScheduler, device
from engine.models.port import Chunk
from engine.prompt import prepare_messages
from tests.engine import scripted, tiny
from tests.engine.test_pocket import canon

CHUNK = 16


def units(scheduler: MLLMScheduler, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """A list that grows with every call of the port: (what, tokens or rows)."""
    seen: list[tuple[str, int]] = []
    prefill, decode = scheduler.port.prefill, scheduler.port.decode

    def noted_prefill(chunk: Any, cache: Any) -> Any:
        seen.append(("prefill", len(chunk.ids)))
        return prefill(chunk, cache)

    def noted_decode(tokens: mx.array, *rest: Any) -> Any:
        seen.append(("decode", tokens.shape[0]))
        return decode(tokens, *rest)

    monkeypatch.setattr(scheduler.port, "prefill", noted_prefill)
    monkeypatch.setattr(scheduler.port, "decode", noted_decode)
    return seen


def test_a_streaming_row_gets_a_token_after_every_chunk_and_a_newcomer_is_not_last(make, monkeypatch):
    scheduler = make(scripted.loaded(monkeypatch), chunked_prefill_tokens=CHUNK, enable_prefix_cache=False)
    monkeypatch.setattr(scheduler.port, "stop_ids", frozenset())
    seen = units(scheduler, monkeypatch)
    add = {"temperature": 0.0, "request_id": "streaming", "max_tokens": 300}
    scheduler.add_request("tell me a story", **add)
    while scheduler.get_request("streaming").num_output_tokens < 5:
        scheduler.step()
    seen.clear()
    scheduler.add_request("x" * 2000, **{**add, "request_id": "long", "max_tokens": 5})
    order, tokens = [], []
    while scheduler.get_request("long").num_output_tokens == 0:
        if len(seen) > 40 and scheduler.get_request("hi") is None:
            scheduler.add_request("hi", **{**add, "request_id": "hi", "max_tokens": 3})
        for output in scheduler.step().outputs:
            order.append(output.request_id)
            tokens += output.new_token_ids if output.request_id == "streaming" else []
    kinds = [kind for kind, _ in seen]
    assert ("prefill", "prefill") not in list(pairwise(kinds))
    assert {size for kind, size in seen if kind == "prefill"} <= set(range(1, CHUNK + 1))
    assert kinds.count("prefill") >= 2000 // CHUNK
    assert len(tokens) >= kinds.count("prefill") - 2  # the first step after a pause brings nothing to read yet
    assert order.index("hi") < order.index("long")
    assert order.index("hi") < 40


def test_a_picture_is_encoded_a_block_at_a_time_beside_a_streaming_row(make):
    scheduler = make(tiny.dense(), unit_budget_ms=1.0, chunked_prefill_tokens=64)
    scheduler.add_request(tiny.chat("story"), request_id="streaming", max_tokens=60, temperature=0.0)
    while scheduler.get_request("streaming").num_output_tokens < 3:
        scheduler.step()
    picture = tiny.picture(320, 320, 1)
    scheduler.add_request(tiny.chat("what?", 1), [picture], request_id="picture", max_tokens=2, temperature=0.0)
    wait(scheduler.intake._jobs.values())
    details = []
    while scheduler.get_request("picture").num_output_tokens == 0:
        before = scheduler.get_request("streaming").num_output_tokens
        scheduler.step()
        scheduler.step()
        assert scheduler.get_request("streaming").num_output_tokens >= before + 1
        details += [info["detail"] for info in scheduler.get_running_requests_info() if info["phase"] == "vision"]
    assert len(details) >= 2
    assert set(details) == {"image 1 of 1"}


# -------------------------------------------------------------------- by the clock, with the demo model
#
# In seconds of this process's processor time: what other programs on the machine take is not the scheduler's doing, and
# a wait of its own between units would show in the units counted above.

now = time.process_time


class Clock:
    """Streams an endless answer and notes when each of its tokens came."""

    def __init__(self, scheduler: MLLMScheduler) -> None:
        self.scheduler = scheduler
        self.times: list[float] = []
        stops = mx.array(sorted(scheduler.stop_tokens))

        def go_on(_: mx.array, logits: mx.array) -> mx.array:
            logits[:, stops] = -mx.inf
            return logits

        self._request = {"messages": [{"role": "user", "content": "Count to 30."}], "logits_processors": [go_on]}

    async def stream(self) -> None:
        name = await self.scheduler.add_request_async(**self._request, max_tokens=7000, temperature=0.0)
        async for output in self.scheduler.stream_outputs(name):
            self.times += [now()] * len(output.new_token_ids)

    async def tokens(self, count: int) -> None:
        """Wait for so many more tokens."""
        goal = len(self.times) + count
        while len(self.times) < goal:  # noqa: ASYNC110 - the tokens come when they come
            await asyncio.sleep(0.002)

    def gaps(self, start: float, end: float) -> list[float]:
        """Seconds between the tokens around and within a stretch of time."""
        first = max((n for n, time in enumerate(self.times) if time <= start), default=0)
        last = min((n for n, time in enumerate(self.times) if time >= end), default=len(self.times) - 1)
        return [b - a for a, b in pairwise(self.times[first : last + 1])]


async def decode_step(clock: Clock) -> float:
    """Median seconds of a decode step while nothing else is to be done."""
    await clock.tokens(10)
    start = now()
    await clock.tokens(40)
    return statistics.median(clock.gaps(start, now()))


def slowest_block(scheduler: MLLMScheduler, messages: list[dict[str, Any]]) -> float:
    """Seconds of the slowest unit when a picture is encoded block by block with nobody beside it."""
    (item,) = prepare_messages(scheduler.port, messages).media
    encoding = scheduler.port.encode(item)
    seconds, done = [], False
    while not done:
        start = now()
        done = device.home().run_here(lambda: encoding.advance(0.0))
        seconds.append(now() - start)
    return max(seconds)


def chunk_alone(scheduler: MLLMScheduler) -> float:
    """Median seconds of one chunk when nobody decodes beside it."""
    cache, times = scheduler.port.make_cache(), []
    for number in range(8):
        positions = np.tile(np.arange(number * CHUNK, (number + 1) * CHUNK, dtype=np.int32), (3, 1))
        chunk = Chunk([100 + number] * CHUNK, positions)
        start = now()
        device.home().run_here(lambda chunk=chunk: mx.eval(scheduler.port.prefill(chunk, cache)))
        times.append(now() - start)
    return statistics.median(times)


async def measured(scheduler: MLLMScheduler, work: Callable[[Clock], Any]) -> Any:
    clock = Clock(scheduler)
    await scheduler.start()
    streaming = asyncio.create_task(clock.stream())
    found = await work(clock)
    await scheduler.stop()
    await streaming
    return found


def long_prompt(scheduler: MLLMScheduler, tokens: int) -> list[dict[str, Any]]:
    words = "The red circle is at the left of the blue square. "
    each = len(scheduler.port.tokenizer.encode(words))
    return [{"role": "user", "content": words * (tokens // each)}]


async def stream_beside_long_prompt(clock: Clock) -> tuple[list[float], float, bool]:
    """(gaps while a long prompt is read, a decode step alone, whether "hi" was answered before the long prompt).

    The gaps end where "hi" comes: with two rows a decode step is another one than what was measured alone.
    """
    step = await decode_step(clock)
    options = {"temperature": 0.0, "max_tokens": 2}
    firsts: list[str] = []

    async def ask(name: str, messages: list[dict[str, Any]]) -> None:
        await clock.scheduler.add_request_async(messages=messages, request_id=name, **options)
        async for output in clock.scheduler.stream_outputs(name):
            if output.new_token_ids and name not in firsts:
                firsts.append(name)

    start = now()
    asking = asyncio.create_task(ask("long", long_prompt(clock.scheduler, 2000)))
    while progress(clock.scheduler, "long") < 0.7:  # noqa: ASYNC110 - progress has no event
        await asyncio.sleep(0.01)
    end = now()
    await asyncio.gather(asking, ask("hi", [{"role": "user", "content": "Hello!"}]))
    return clock.gaps(start, end), step, firsts == ["hi", "long"]


def progress(scheduler: MLLMScheduler, name: str) -> float:
    """How much of a prompt has been read."""
    return next(
        (float(info["progress"]) for info in scheduler.get_running_requests_info() if info["request_id"] == name), 0.0
    )


async def stream_beside_picture(clock: Clock) -> tuple[list[float], float, float]:
    """(gaps while a picture is encoded, a decode step alone, seconds from an abort amid it to its end)."""
    step = await decode_step(clock)
    picture = canon.draw((448, 448), canon.W, [("circle", "red", 224, 224, 100)])
    parts = [{"type": "image", "image": picture}, {"type": "text", "text": "Describe this image."}]
    request = {"messages": [{"role": "user", "content": parts}], "temperature": 0.0, "max_tokens": 1}
    start = now()
    await clock.scheduler.generate(**request)
    end = now()
    await clock.tokens(2)
    gaps = clock.gaps(start, end)
    clock.scheduler.clear_runtime_caches()
    name = await clock.scheduler.add_request_async(**request)
    while clock.scheduler.phase(name)[0] != "vision":  # noqa: ASYNC110 - a phase has no event
        await asyncio.sleep(0.001)
    await clock.tokens(1)
    asked = now()
    clock.scheduler.abort_request(name)
    reasons = [output.finish_reason async for output in clock.scheduler.stream_outputs(name)]
    assert reasons[-1] == "abort"
    return gaps, step, now() - asked


def told(record: Callable[[str, Any], None], name: str, **figures: float) -> None:
    rounded = {key: round(value, 4) for key, value in figures.items()}
    record(name, json.dumps(rounded))
    print(name, rounded)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("size", [CHUNK, 0], ids=["16 tokens", "automatic"])
def test_the_longest_gap_beside_a_long_prompt(size, pocket, make, run, record_property):
    """Median of three runs."""
    ratios = []
    for number in range(3):
        scheduler = make(pocket, chunked_prefill_tokens=size, enable_prefix_cache=False)
        chunk = chunk_alone(scheduler)
        gaps, step, hi_first = run(measured(scheduler, stream_beside_long_prompt), 280.0)
        ratios.append(max(gaps) / (chunk + step))
        told(
            record_property,
            f"run {number}",
            longest=max(gaps),
            chunk=chunk,
            step=step,
            ratio=ratios[-1],
            gaps=len(gaps),
        )
        assert hi_first
        assert size == 0 or len(gaps) >= 2000 // CHUNK * 0.6
    assert statistics.median(ratios) <= 2.0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_longest_gap_and_the_slowest_stop_beside_a_picture(pocket, make, run, record_property):
    """Median of three runs."""
    gap_ratios, stop_ratios = [], []
    for number in range(3):
        scheduler = make(pocket)
        picture = canon.draw((448, 448), canon.W, [("circle", "red", 224, 224, 100)])
        parts = [{"type": "image", "image": picture}, {"type": "text", "text": "Describe this image."}]
        block = slowest_block(scheduler, [{"role": "user", "content": parts}])
        gaps, step, stop = run(measured(scheduler, stream_beside_picture), 180.0)
        gap_ratios.append(max(gaps) / (block + step))
        stop_ratios.append(stop / (block + step))
        told(
            record_property, f"run {number}", longest=max(gaps), block=block, step=step, stop=stop, ratio=gap_ratios[-1]
        )
    assert statistics.median(gap_ratios) <= 1.5
    assert statistics.median(stop_ratios) <= 1.5
