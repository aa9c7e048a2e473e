"""What the caches save: time to the first token of a follow-up, warm against the same request with empty caches."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import engine
from tests.benchmarks import images, models, workloads
from tests.benchmarks.table import Row

Messages = list[dict[str, Any]]


class Chats:
    """Asks on one model with schedulers that come and go."""

    def __init__(self, model: str, folder: Path, picture_px: int) -> None:
        self._loaded = models.load(model)
        self._folder, self._px = folder, picture_px
        self._pictures = 0

    def scheduler(self, **options: Any) -> engine.MLLMScheduler:
        """A fresh scheduler whose answers run to their limit."""
        made = engine.MLLMScheduler(*self._loaded, engine.MLLMSchedulerConfig(**options))
        made.port.stop_ids = frozenset()
        return made

    async def ask(
        self, scheduler: engine.MLLMScheduler, messages: Messages, tokens: int = 24
    ) -> tuple[float, str, int]:
        """(seconds to the first token, answer, prompt tokens reused)."""
        sent, first, text, cached = perf_counter(), 0.0, "", 0
        request_id = await scheduler.add_request_async(messages=messages, max_tokens=tokens, temperature=0.0)
        async for output in scheduler.stream_outputs(request_id):
            if output.error:
                raise RuntimeError(output.error)
            if not first and output.new_token_ids:
                first = perf_counter() - sent
            text, cached = text + output.new_text, output.cached_tokens
        return first, text, cached

    def user(self, text: str, pictures: int = 0) -> dict[str, Any]:
        """A turn of the person's, with new pictures."""
        parts: list[dict[str, Any]] = []
        for _ in range(pictures):
            self._pictures += 1
            image = workloads.picture(self._folder, self._pictures, self._px)
            parts.append({"type": "image", "image": image})
        return {"role": "user", "content": [*parts, {"type": "text", "text": text}]}

    async def talk(self, scheduler: engine.MLLMScheduler, turns: list[dict[str, Any]]) -> Messages:
        """The conversation after these turns, each answered."""
        messages: Messages = []
        for turn in turns:
            messages.append(turn)
            _, text, _ = await self.ask(scheduler, messages)
            messages.append({"role": "assistant", "content": text})
        return messages


async def measure(model: str, rounds: int) -> list[Row]:
    """One row per case: seconds warm and cold, and their ratio (medians)."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        chats = Chats(model, folder, 448 if model == "pocket" else 1_792)  # the larger: a phone's screenshot
        await _warm_up(chats)
        cases: dict[str, Callable[..., Any]] = {
            "second turn with a picture": _second_turn,
            "new picture in turn 3": _new_picture,
            "same picture in another tab": _other_tab,
            "second turn with a 12-megapixel photo": _photo,
        }
        if model == "pocket":  # random weights have no files that would prove them the same after a restart
            cases["second turn after a restart"] = _restart
        rows = []
        for title, case in cases.items():
            pairs = [await case(chats, folder / f"ssd-{title[:3]}-{number}") for number in range(rounds)]
            rows.append(
                {
                    "case": title,
                    "warm_s": median(warm for warm, _, _ in pairs),
                    "cold_s": median(cold for _, cold, _ in pairs),
                    "ratio": median(warm / cold for warm, cold, _ in pairs),
                    "reused": pairs[-1][2],
                }
            )
        return rows


async def _warm_up(chats: Chats) -> None:
    scheduler = chats.scheduler()
    await scheduler.start()
    await chats.talk(scheduler, [chats.user("Hello.", 1), chats.user("And now?")])
    await scheduler.stop()


async def _warm_and_cold(chats: Chats, scheduler: Any, messages: Messages) -> tuple[float, float, int]:
    warm, _, reused = await chats.ask(scheduler, messages)
    await scheduler.stop()
    empty = chats.scheduler()
    await empty.start()
    cold, _, _ = await chats.ask(empty, messages)
    await empty.stop()
    return warm, cold, reused


async def _second_turn(chats: Chats, _: Path) -> tuple[float, float, int]:
    scheduler = chats.scheduler()
    await scheduler.start()
    messages = await chats.talk(scheduler, [chats.user("Describe this image.", 1)])
    return await _warm_and_cold(chats, scheduler, [*messages, chats.user("How many shapes are there?")])


async def _new_picture(chats: Chats, _: Path) -> tuple[float, float, int]:
    scheduler = chats.scheduler()
    await scheduler.start()
    turns = [chats.user("Describe this image.", 1), chats.user("Describe this one too.", 1)]
    messages = await chats.talk(scheduler, turns)
    return await _warm_and_cold(chats, scheduler, [*messages, chats.user("And this one?", 1)])


async def _other_tab(chats: Chats, _: Path) -> tuple[float, float, int]:
    scheduler = chats.scheduler()
    await scheduler.start()
    turn = chats.user("Describe this image.", 1)
    await chats.talk(scheduler, [turn])
    picture = turn["content"][0]
    other = {"role": "user", "content": [picture, {"type": "text", "text": "Which shape is red?"}]}
    return await _warm_and_cold(chats, scheduler, [other])


async def _photo(chats: Chats, folder: Path) -> tuple[float, float, int]:
    scheduler = chats.scheduler()
    await scheduler.start()
    file = folder.with_suffix(".jpg")
    file.write_bytes(images.photo(0))
    content = [{"type": "image", "image": str(file)}, {"type": "text", "text": "Describe this image."}]
    messages = await chats.talk(scheduler, [{"role": "user", "content": content}])
    return await _warm_and_cold(chats, scheduler, [*messages, chats.user("How many shapes are there?")])


async def _restart(chats: Chats, folder: Path) -> tuple[float, float, int]:
    before = chats.scheduler(ssd_cache_dir=str(folder))
    await before.start()
    messages = await chats.talk(before, [chats.user("Describe this image.", 1)])
    await before.stop()
    after = chats.scheduler(ssd_cache_dir=str(folder))
    await after.start()
    return await _warm_and_cold(chats, after, [*messages, chats.user("How many shapes are there?")])
