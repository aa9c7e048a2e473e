"""The demo model answers through the scheduler as it answers alone: two pictures at once, and all its known prompts."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import mlx.core as mx
import pytest

from engine import MLLMScheduler, RequestOutput
from tests.engine.conftest import ROOT


def load_canon() -> ModuleType:
    """The prompts of the model's recipe, with the answers it gives."""
    spec = importlib.util.spec_from_file_location("pocket_canon", ROOT / "packaging" / "pocket" / "canon.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


canon = load_canon()
CIRCLE, SQUARE = (canon.draw(*canon.SPECS[index][1:4]) for index in (0, 1))


@dataclass(frozen=True)
class Prompt:
    """A question about pictures and the only right answer."""

    name: str
    question: str
    expected: str
    images: tuple[Any, ...] = ()

    @property
    def messages(self) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = [{"type": "image", "image": image} for image in self.images]
        return [{"role": "user", "content": [*parts, {"type": "text", "text": self.question}]}]


def prompts() -> Iterator[Prompt]:
    for name, size, ground, shapes, questions in canon.SPECS:
        picture = canon.draw(size, ground, shapes)
        for question, expected in questions:
            if (name, question) not in canon.FRAGILE:
                yield Prompt(name, question, expected, (picture,))
    for spec in canon.OCR:
        yield Prompt("text", canon.OCRQ, f'The text says "{spec[2]}".', (canon.draw_text(*spec),))
    for question, expected in canon.WHICH:
        yield Prompt("which", question, expected, (CIRCLE, SQUARE))
    for question, expected in canon.TEXT:
        yield Prompt("no picture", question, expected)


async def read(scheduler: MLLMScheduler, name: str) -> list[RequestOutput]:
    return [output async for output in scheduler.stream_outputs(name)]


async def answers(scheduler: MLLMScheduler, batch: list[Prompt]) -> list[str]:
    options = {"temperature": 0.0, "max_tokens": 80}
    names = [await scheduler.add_request_async(messages=prompt.messages, **options) for prompt in batch]
    streams = await asyncio.gather(*(read(scheduler, name) for name in names))
    return [outputs[-1].output_text for outputs in streams]


def assert_canon(scheduler: MLLMScheduler, run: Callable[..., Any], chosen: list[Prompt]) -> None:
    async def work() -> list[str]:
        await scheduler.start()
        found = []
        for start in range(0, len(chosen), 4):
            found += await answers(scheduler, chosen[start : start + 4])
        await scheduler.stop()
        return found

    got = {(prompt.name, prompt.question): text for prompt, text in zip(chosen, run(work(), 800.0), strict=True)}
    assert got == {(prompt.name, prompt.question): prompt.expected for prompt in chosen}


def test_a_dozen_known_prompts_four_at_a_time(pocket, make, run):
    every = list(prompts())
    small = [prompt for prompt in every if sum(image.width * image.height for image in prompt.images) <= 224 * 224]
    chosen = [*small[:: len(small) // 9][:9], *every[-3:]]
    assert len(chosen) == 12
    assert_canon(make(pocket, max_num_seqs=4), run, chosen)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_known_prompt_four_at_a_time(pocket, make, run):
    assert_canon(make(pocket, max_num_seqs=4), run, list(prompts()))


def test_two_pictures_sent_together_stream_together_each_about_its_own(pocket, make, run):
    """Rows of both stand in every decode step from the second one's first token to the first one's last."""
    scheduler = make(pocket)
    stops = mx.array(sorted(scheduler.stop_tokens))

    def go_on(_: mx.array, logits: mx.array) -> mx.array:
        logits[:, stops] = -mx.inf  # so that the short descriptions do not end
        return logits

    def request(picture: Any) -> dict[str, Any]:
        prompt = Prompt("", "Describe this image.", "", (picture,))
        return {"messages": prompt.messages, "max_tokens": 48, "temperature": 0.0, "logits_processors": [go_on]}

    steps: list[int] = []
    decode = scheduler.port.decode

    def counted(tokens: mx.array, *rest: Any) -> mx.array:
        steps.append(tokens.shape[0])
        return decode(tokens, *rest)

    async def work() -> tuple[list[RequestOutput], list[RequestOutput], list[RequestOutput]]:
        await scheduler.start()
        alone = [await scheduler.generate(**request(picture)) for picture in (CIRCLE, SQUARE)]
        scheduler.clear_runtime_caches()
        steps.clear()
        scheduler.port.decode = counted
        try:
            names = [await scheduler.add_request_async(**request(CIRCLE))]
            await asyncio.sleep(0.05)
            names.append(await scheduler.add_request_async(**request(SQUARE)))
            first, second = await asyncio.gather(*(read(scheduler, name) for name in names))
        finally:
            del scheduler.port.decode
        await scheduler.stop()
        return alone, first, second

    alone, first, second = run(work())
    assert [first[-1].output_token_ids, second[-1].output_token_ids] == [output.output_token_ids for output in alone]
    assert first[-1].output_text.startswith("A red circle at the center on a white background.")
    assert second[-1].output_text.startswith("A blue square")
    together = [index for index, rows in enumerate(steps) if rows == 2]
    assert len(together) >= 20
    assert together == list(range(together[0], together[-1] + 1))
    assert set(steps) <= {1, 2}
