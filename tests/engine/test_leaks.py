"""Hundreds of requests, a third of them aborted at any moment, leave nothing behind."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
from collections import Counter
from typing import Any

import psutil

from engine import MLLMRequest, MLLMScheduler
from engine.batch import DecodeGroup
from engine.detokenizer import Detokenizer
from engine.prefill import Prefill
from engine.prompt import PreparedPrompt
from engine.row import Row
from engine.sampling import RowSampler
from tests.engine import tiny

_MEGABYTE = 1_000_000
_PER_REQUEST = (Row, Detokenizer, RowSampler, Prefill, DecodeGroup, MLLMRequest, PreparedPrompt)


def held(scheduler: MLLMScheduler) -> dict[str, Any]:
    """Everything a request may leave behind, but device memory."""
    gc.collect()
    return {
        "rows": scheduler.batch.count,
        "groups": len(scheduler.batch._groups),
        "live": len(scheduler.waiting) + len(scheduler.running) + len(scheduler._ready) + len(scheduler.intake._jobs),
        "queues": len(scheduler.output_queues),
        "uids": len(scheduler.uid_to_request_id),
        "tasks": len(asyncio.all_tasks()),
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "objects": Counter(type(one).__name__ for one in gc.get_objects() if isinstance(one, _PER_REQUEST)),
        "files": psutil.Process().num_fds(),
    }


async def ask(scheduler: MLLMScheduler, rng: random.Random) -> str | None:
    """One request with a random prompt, perhaps a picture, perhaps aborted: at once or after a few tokens."""
    picture = [tiny.picture(64, 64, rng.randrange(8))] if rng.random() < 0.3 else None
    prompt = tiny.chat("x" * rng.randrange(1, 80), len(picture or ()))
    name = await scheduler.add_request_async(prompt, picture, max_tokens=rng.randrange(1, 12), temperature=0.0)
    patience = rng.randrange(6) if rng.random() < 1 / 3 else None
    if patience == 0:
        scheduler.abort_request(name)
    reason, seen = None, 0
    async for output in scheduler.stream_outputs(name):
        seen += 1
        reason = output.finish_reason
        if seen == patience:
            scheduler.abort_request(name)
    scheduler.remove_finished_request(name)
    return reason


async def serve(scheduler: MLLMScheduler, count: int, seed: int) -> list[str | None]:
    """So many requests, eight at a time."""
    rng = random.Random(seed)
    places = asyncio.Semaphore(8)

    async def one() -> str | None:
        async with places:
            return await ask(scheduler, rng)

    return await asyncio.gather(*(one() for _ in range(count)))


async def settled(scheduler: MLLMScheduler) -> int:
    """Active bytes once the last rows have left the batch and the caches are empty."""
    while scheduler.batch._groups:  # noqa: ASYNC110 - the batch has no event for its emptiness
        await asyncio.sleep(0)
    scheduler.clear_runtime_caches()
    last = await scheduler.generate(tiny.chat("x"), max_tokens=1, temperature=0.0)
    scheduler.remove_finished_request(last.request_id)
    while scheduler.batch._groups:  # noqa: ASYNC110
        await asyncio.sleep(0)
    scheduler.clear_runtime_caches()
    while scheduler._at_boundary:  # noqa: ASYNC110
        await asyncio.sleep(0)
    gc.collect()
    return scheduler.memory()["active"]


def test_nothing_is_left_of_two_hundred_requests(make, run):
    scheduler = make(tiny.hybrid(), prefill_step_size=32)

    async def work() -> None:
        await scheduler.start()
        await serve(scheduler, 20, seed=1)
        active, before = await settled(scheduler), held(scheduler)
        reasons = await serve(scheduler, 200, seed=2)
        assert abs(await settled(scheduler) - active) <= _MEGABYTE
        assert held(scheduler) == before
        assert 30 <= reasons.count("abort") <= 100
        assert reasons.count("abort") + reasons.count("length") == 200
        await scheduler.stop()

    run(work())
