"""A request's tokens are those it gets alone from mlx-vlm: in any batch, any chunk size, whoever joins or leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from engine import MLLMScheduler, RequestOutput
from tests.engine import tiny
from tests.engine.solo import solo

FAMILIES = ["hybrid", "dense"]


@dataclass(frozen=True)
class Ask:
    """A request of a schedule: sent at ``step``, aborted at ``abort_at``."""

    prompt: str
    pictures: tuple[tuple[int, int, int], ...] = ()
    tokens: int = 16
    step: int = 0
    abort_at: int | None = None

    @property
    def images(self) -> list[Any]:
        return [tiny.picture(*size) for size in self.pictures]


LONG = Ask(tiny.chat("tell me something about the moon and the sea " * 3), tokens=6)
WIDE = Ask(tiny.chat("what is this?", 1), ((160, 96, 1),), tokens=24)
PAIR = Ask(tiny.chat("and these, compare both?", 2), ((64, 128, 2), (96, 96, 3)), tokens=20)
SHORT = Ask(tiny.chat("hi"), tokens=30)


@cache
def alone(family: str, ask: Ask) -> list[int]:
    return solo(*getattr(tiny, family)(), ask.prompt, ask.images, ask.tokens)


def together(scheduler: MLLMScheduler, asks: Mapping[str, Ask]) -> dict[str, RequestOutput]:
    """Run a schedule step by step; the finished output of every request."""
    ended: dict[str, RequestOutput] = {}
    step = 0
    while len(ended) < len(asks):
        for name, ask in asks.items():
            if ask.step == step:
                scheduler.add_request(ask.prompt, ask.images, max_tokens=ask.tokens, temperature=0.0, request_id=name)
            if ask.abort_at == step:
                assert scheduler.abort_request(name)
        output = scheduler.step()
        ended |= {output.request_id: output for output in output.outputs if output.finished}
        step += 1
        assert step < 2000
    assert not scheduler.has_requests()
    assert scheduler.batch.count == 0
    return ended


def assert_each_as_alone(family: str, asks: Mapping[str, Ask], ended: Mapping[str, RequestOutput]) -> None:
    for name, ask in asks.items():
        tokens, expected = list(ended[name].output_token_ids), alone(family, ask)
        if ask.abort_at is None:
            assert tokens == expected, name
            assert ended[name].finish_reason == "length"
        else:
            assert tokens == expected[: len(tokens)], name
            assert ended[name].finish_reason == "abort"


CHUNKS: Sequence[dict[str, int]] = [
    {"prefill_step_size": size, "chunked_prefill_tokens": size} for size in (16, 17, 64)
] + [{"prefill_step_size": 65536}]


@pytest.mark.parametrize("chunks", CHUNKS, ids=lambda chunks: str(chunks["prefill_step_size"]))
@pytest.mark.parametrize("family", FAMILIES)
def test_text_and_pictures_together_answer_as_alone(family, chunks, make):
    asks = {"long": LONG, "wide": WIDE, "pair": PAIR, "short": SHORT}
    ended = together(make(getattr(tiny, family)(), **chunks), asks)
    assert_each_as_alone(family, asks, ended)
