"""What rows cost beside each other: ragged lengths, prediction heads, and how cost grows with rows and context."""

from __future__ import annotations

import asyncio
from statistics import median
from time import perf_counter
from typing import Any

import engine
from tests.benchmarks import models, workloads
from tests.benchmarks.table import Row

Loaded = tuple[Any, Any]


async def decode(
    loaded: Loaded, prompts: list[str], steps: int, **options: Any
) -> tuple[float, int, engine.MLLMScheduler]:
    """(seconds per round of one token for every row, KV bytes held, the scheduler, stopped)."""
    together = dict.fromkeys(("max_num_seqs", "prefill_batch_size", "completion_batch_size"), len(prompts))
    config = engine.MLLMSchedulerConfig(**together, enable_prefix_cache=False, **options)
    scheduler = engine.MLLMScheduler(*loaded, config)
    scheduler.port.stop_ids = frozenset()
    await scheduler.start()
    ids = [await scheduler.add_request_async(prompt, max_tokens=4_000, temperature=0.0) for prompt in prompts]
    counts = dict.fromkeys(ids, 0)
    stamps: list[tuple[float, int]] = []
    held = 0

    async def read(request_id: str) -> None:
        nonlocal held
        async for output in scheduler.stream_outputs(request_id):
            counts[request_id] += len(output.new_token_ids)
            if min(counts.values()) >= 8:
                stamps.append((perf_counter(), sum(counts.values())))
                held = held or _held(scheduler)
                if stamps[-1][1] - stamps[0][1] >= steps * len(ids):
                    return

    readers = [asyncio.create_task(read(request_id)) for request_id in ids]
    await asyncio.wait(readers, return_when=asyncio.FIRST_COMPLETED)
    for request_id in ids:
        scheduler.abort_request(request_id)
    await asyncio.gather(*readers)
    await scheduler.stop()
    (start, before), (end, after) = stamps[0], stamps[-1]
    return (end - start) * len(ids) / (after - before), held, scheduler


def _held(scheduler: engine.MLLMScheduler) -> int:
    groups = scheduler.batch._groups
    return sum(layer.nbytes for group in groups for layer in group._cache)


async def ragged(model: str, rounds: int) -> list[Row]:
    """One long row with three short ones, against the sum of the rows alone."""
    loaded = models.load(model)
    words = 1_300 if model == "pocket" else 1_100
    prompts = [workloads.words(words)] + [f"Tell story number {number}." for number in range(3)]
    times, sizes = [], []
    for _ in range(rounds):
        together, held, _ = await decode(loaded, prompts, 24)
        alone = [await decode(loaded, [prompt], 24) for prompt in prompts]
        times.append(together / sum(seconds for seconds, _, _ in alone))
        sizes.append(held / sum(size for _, size, _ in alone))
    return [{"rows": "1 long + 3 short", "time_ratio": median(times), "kv_ratio": median(sizes)}]


async def prediction(model: str, rounds: int, steps: int = 256) -> list[Row]:
    """Tokens per second with the head off, always and by measurement, at 1, 2 and 4 rows."""
    loaded = models.load(model)
    prompt = engine.format_chat(loaded[1], [{"role": "user", "content": "Count to 30."}])
    modes: dict[str, dict[str, Any]] = {
        "off": {},
        "always": {"enable_mtp": True, "mtp_policy": "always"},
        "auto": {"enable_mtp": True},
    }
    rows = []
    for count in (1, 2, 4):
        speeds: dict[str, list[float]] = {mode: [] for mode in modes}
        figures: dict[str, Any] = {}
        for options in modes.values():  # compiles what a GPU has to compile
            await decode(loaded, [prompt] * count, steps // 4, **options)
        for _ in range(rounds):
            for mode, options in modes.items():
                seconds, _, scheduler = await decode(loaded, [prompt] * count, steps, **options)
                speeds[mode].append(count / seconds)
                if mode == "always":
                    figures = scheduler.get_stats()["mtp"]
        off = speeds["off"]
        ratios = {mode: [s / o for s, o in zip(speeds[mode], off, strict=True)] for mode in ("always", "auto")}
        rows.append(
            {
                "rows": count,
                "off_tok_s": median(off),
                "always_ratio": median(ratios["always"]),
                "auto_ratio": median(ratios["auto"]),
                "accepted": figures.get("acceptance_rate", 0.0),
            }
        )
    return rows


async def scale(model: str, counts: list[int], contexts: list[int]) -> list[Row]:
    """Step time and memory over rows at a short context, then over context at one row."""
    loaded = models.load(model)
    rows = []
    per_word = 2.2 if model == "pocket" else 5.5
    plans = [(count, 256) for count in counts] + [(1, context) for context in contexts]
    for count, context in plans:
        prompts = [f"{number} " + workloads.words(context, per_word) for number in range(count)]
        seconds, held, _ = await decode(loaded, prompts, 24)
        rows.append(
            {
                "rows": count,
                "context": context,
                "ms_per_step": seconds * 1e3,
                "tok_s": count / seconds,
                "kv_mb": held / 1e6,
            }
        )
    return rows
