"""Decode against its limit: the scheduler beside a bare loop of forward and argmax on the same caches.

    python -m tests.benchmarks.limit --model pocket --rows 1,4,8,16

The bare loop queues step n+1 by ``async_eval`` before it reads step n, as fast as MLX allows; the scheduler adds
sampling rules, detokenising, streams and the lent stream. Both run in turn in one process; medians of several rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from statistics import median
from time import perf_counter
from typing import Any

import mlx.core as mx
import numpy as np

import engine
from engine import device
from engine.models.families import open_port
from engine.models.port import Chunk, Port
from tests.benchmarks import models

_WARM = 16
"""Steps left out at the start of each measurement."""


def bare(port: Port, rows: int, prompt: int, steps: int) -> float:
    """Tokens per second of the bare loop; runs inside a unit."""
    caches = []
    for row in range(rows):
        cache = port.make_cache()
        length = prompt + rows - 1 - row  # as when rows join one after another: each is a step ahead of the next
        ids = _prompt(row, length)
        positions = np.broadcast_to(np.arange(length, dtype=np.int32), (3, length))
        mx.eval(port.prefill(Chunk(ids, positions), cache))
        caches.append(cache)
    cache = caches[0] if rows == 1 else [type(layers[0]).merge(list(layers)) for layers in zip(*caches, strict=True)]
    tokens, deltas = mx.array([1] * rows), mx.zeros((rows, 1), mx.int32)
    began = 0.0
    for step in range(steps + _WARM):
        following = mx.argmax(port.decode(tokens, cache, deltas), axis=-1)
        mx.async_eval(following)
        if step:
            tokens.tolist()
        tokens = following
        if step == _WARM:
            began = perf_counter()
    tokens.tolist()
    return rows * (steps - 1) / (perf_counter() - began)


async def scheduled(model: Any, processor: Any, rows: int, prompt: int, steps: int) -> tuple[float, dict[str, float]]:
    """Tokens per second while all rows decode, and the loop's stalls in milliseconds."""
    config = engine.MLLMSchedulerConfig(max_num_seqs=rows, completion_batch_size=rows, enable_prefix_cache=False)
    scheduler = engine.MLLMScheduler(model, processor, config)
    scheduler.port.stop_ids = frozenset()  # answers run to their limit, whatever the model says
    await scheduler.start()
    words = [processor.tokenizer.decode(_prompt(row, prompt)) for row in range(rows)]
    ids = [await scheduler.add_request_async(text, max_tokens=4 * steps + _WARM, temperature=0.0) for text in words]
    counts, stamps = dict.fromkeys(ids, 0), []

    async def read(request_id: str) -> None:
        async for output in scheduler.stream_outputs(request_id):
            counts[request_id] += len(output.new_token_ids)
            if request_id == ids[-1] and min(counts.values()) > _WARM:
                stamps.append((perf_counter(), sum(counts.values())))
                if len(stamps) > steps:
                    return

    readers = [asyncio.create_task(read(request_id)) for request_id in ids]
    await readers[-1]
    for request_id in ids:
        scheduler.abort_request(request_id)
    await asyncio.gather(*readers)
    stalls = scheduler.get_stats()["loop_stall_ms"]
    await scheduler.stop()
    (start, before), (end, after) = stamps[0], stamps[-1]
    return (after - before) / (end - start), stalls


def _prompt(row: int, length: int) -> list[int]:
    """Printable single-byte tokens, another text for each row."""
    return (33 + np.random.default_rng(row).integers(0, 60, length)).tolist()


async def measure(name: str, rows: list[int], prompt: int, steps: int, rounds: int) -> list[dict[str, Any]]:
    """One result per row count."""
    model, processor = models.load(name)
    port, home = open_port(model, processor), device.home()
    results = []
    for count in rows:
        ceiling, ours, stalls = [], [], {}
        for _ in range(rounds):
            ceiling.append(await home.run(lambda count=count: bare(port, count, prompt, steps)))
            speed, stalls = await scheduled(model, processor, count, prompt, steps)
            ours.append(speed)
        ratios = [mine / limit for mine, limit in zip(ours, ceiling, strict=True)]
        results.append(
            {
                "model": name,
                "backend": home.backend,
                "rows": count,
                "limit_tok_s": median(ceiling),
                "braid_tok_s": median(ours),
                "ratio": median(ratios),
                "ratio_min": min(ratios),
                "ratio_max": max(ratios),
                "loop_stall_ms": stalls,
            }
        )
        print(json.dumps(results[-1]), flush=True)
    return results


def main() -> None:
    """Parse the command line and print one JSON line per row count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="pocket", choices=["pocket", "dense-2b", "hybrid-2b"])
    parser.add_argument("--rows", default="1,4,8,16")
    parser.add_argument("--prompt", type=int, default=64, help="prompt tokens per row")
    parser.add_argument("--steps", type=int, default=64, help="decode steps measured")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    rows = [int(number) for number in options.rows.split(",")]
    asyncio.run(measure(options.model, rows, options.prompt, options.steps, options.rounds))


if __name__ == "__main__":
    main()
