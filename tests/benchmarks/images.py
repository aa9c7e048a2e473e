"""Pictures: how fast large photos become patches, in what memory, and what encoding one costs beside other chats."""

from __future__ import annotations

import asyncio
import io
import resource
import sys
from collections.abc import Awaitable, Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from PIL import Image

import engine
from engine.media.image import read_image
from engine.models.families import open_port
from tests.benchmarks import models
from tests.benchmarks.table import Row

_SIZE = (4000, 3000)


def measure(model: str, counts: Sequence[int] = (1, 10, 100)) -> list[Row]:
    """One row per number of 12-megapixel JPEGs, prepared on two threads as the scheduler does."""
    port = open_port(*models.load(model))
    photos = [photo(number) for number in range(4)]
    rows = []
    for count in counts:
        before, began = _peak(), perf_counter()
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda number: port.cut("image", read_image(photos[number % 4]).pixels), range(count)))
        seconds = perf_counter() - began
        rows.append({"pictures": count, "pictures_s": count / seconds, "more_peak_mb": (_peak() - before) / 1e6})
    return rows


async def overlap(model: str, rounds: int, chats: int = 3) -> list[Row]:
    """A picture's first token and the speed of streaming chats, each alone and beside the other."""
    loaded = models.load(model)
    config = engine.MLLMSchedulerConfig(enable_prefix_cache=False, enable_vision_cache=False)
    scheduler = engine.MLLMScheduler(*loaded, config)
    scheduler.port.stop_ids = frozenset()
    await scheduler.start()
    prompt = engine.format_chat(loaded[1], [{"role": "user", "content": [{"type": "image"}]}])
    await _first_token(scheduler, prompt, 0)
    alone = [await _first_token(scheduler, prompt, 1 + number) for number in range(rounds)]
    words = [f"Tell story number {number}." for number in range(chats)]
    ids = [await scheduler.add_request_async(text, max_tokens=4_000, temperature=0.0) for text in words]
    streaming = [asyncio.Event() for _ in ids]
    readers = [asyncio.create_task(_read(scheduler, *pair)) for pair in zip(ids, streaming, strict=True)]
    await asyncio.gather(*(event.wait() for event in streaming))
    undisturbed = await _speed(scheduler, ids, asyncio.sleep(2.0))
    beside, disturbed = [], []
    for number in range(rounds):
        first = asyncio.ensure_future(_first_token(scheduler, prompt, 1 + rounds + number))
        disturbed.append(await _speed(scheduler, ids, first))
        beside.append(first.result())
    await scheduler.stop()
    await asyncio.gather(*readers)
    return [
        {"case": "picture alone", "first_token_s": median(alone), "chats_tok_s": None},
        {"case": f"{chats} chats alone", "first_token_s": None, "chats_tok_s": undisturbed},
        {"case": f"picture beside {chats} chats", "first_token_s": median(beside), "chats_tok_s": median(disturbed)},
    ]


async def _first_token(scheduler: engine.MLLMScheduler, prompt: str, number: int) -> float:
    """Seconds from asking about a picture that was never seen to the first token."""
    pixels = np.random.default_rng(number).integers(0, 255, (28, 28, 3), dtype=np.uint8)
    picture = Image.fromarray(pixels).resize((448, 448), Image.Resampling.BICUBIC)
    began = perf_counter()
    request_id = await scheduler.add_request_async(prompt, images=[picture], max_tokens=1, temperature=0.0)
    await _read(scheduler, request_id)
    return perf_counter() - began


async def _read(scheduler: engine.MLLMScheduler, request_id: str, started: asyncio.Event | None = None) -> None:
    async for output in scheduler.stream_outputs(request_id):
        if output.error:
            raise RuntimeError(output.error)
        if started is not None and output.new_token_ids:
            started.set()


async def _speed(scheduler: engine.MLLMScheduler, ids: Sequence[str], while_: Awaitable[Any]) -> float:
    """Tokens per second of all these chats until something is done."""
    before, began = _tokens(scheduler, ids), perf_counter()
    await while_
    return (_tokens(scheduler, ids) - before) / (perf_counter() - began)


def _tokens(scheduler: engine.MLLMScheduler, ids: Sequence[str]) -> int:
    return sum(len(scheduler.requests[request_id].output_tokens) for request_id in ids)


def photo(number: int) -> bytes:
    """A JPEG of twelve megapixels, another one for every number."""
    rng = np.random.default_rng(number)
    small = Image.fromarray(rng.integers(0, 255, (300, 400, 3), dtype=np.uint8))
    out = io.BytesIO()
    small.resize(_SIZE, Image.Resampling.BICUBIC).save(out, "JPEG", quality=88)
    return out.getvalue()


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
