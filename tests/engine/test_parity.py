"""A request's tokens are those it gets alone from mlx-vlm: in any batch, any chunk size, whoever joins or leaves."""

from __future__ import annotations

import dataclasses
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


@pytest.mark.parametrize("family", FAMILIES)
def test_requests_that_join_a_running_batch_answer_as_alone(family, make):
    asks = {
        "short": SHORT,
        "wide": dataclasses.replace(WIDE, step=6),
        "pair": dataclasses.replace(PAIR, step=11),
        "long": dataclasses.replace(LONG, step=15, tokens=20),
    }
    ended = together(make(getattr(tiny, family)(), prefill_step_size=32, chunked_prefill_tokens=32), asks)
    assert_each_as_alone(family, asks, ended)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_others_go_on_as_alone_when_the_longest_ends_first(family, packed, make):
    """However prefixes are stored: running rows are never packed."""
    asks = {"long": dataclasses.replace(LONG, tokens=3), "wide": WIDE, "short": SHORT}
    scheduler = make(getattr(tiny, family)(), kv_cache_quantization=packed, kv_cache_quantization_group_size=32)
    ended = together(scheduler, asks)
    assert_each_as_alone(family, asks, ended)


@pytest.mark.parametrize("abort_at", [4, 14, 22, 30])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_others_go_on_as_alone_when_one_is_aborted(family, abort_at, make):
    asks = {"long": LONG, "pair": dataclasses.replace(PAIR, tokens=40, abort_at=abort_at), "wide": WIDE, "short": SHORT}
    ended = together(make(getattr(tiny, family)(), prefill_step_size=32, chunked_prefill_tokens=16), asks)
    assert_each_as_alone(family, asks, ended)


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_few_places_in_the_batch_change_no_answer(batch, make):
    asks = {"long": LONG, "wide": WIDE, "pair": PAIR, "short": SHORT}
    scheduler = make(tiny.hybrid(), max_num_seqs=batch + 1, completion_batch_size=batch, prefill_batch_size=batch)
    assert_each_as_alone("hybrid", asks, together(scheduler, asks))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_prompt_as_long_as_a_chunk_or_one_off_answers_as_alone(family, make):
    ids = len(tiny.processor().tokenizer.encode(tiny.chat("")))
    for length in (31, 32, 33, 34, 64, 65, 97):
        ask = Ask(tiny.chat("x" * (length - ids)), tokens=6)
        ended = together(make(getattr(tiny, family)(), prefill_step_size=32), {"one": ask})
        assert ended["one"].prompt_tokens == length
        assert_each_as_alone(family, {"one": ask}, ended)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_chunk_border_before_inside_and_after_a_picture_changes_nothing(family, make):
    lead = len(tiny.processor().tokenizer.encode("<|im_start|>user\n<|vision_start|>"))
    for before in (16 - lead, 15 - lead, 11 - lead, 0):  # the border stands before, one into, in and after the picture
        ask = Ask(f"<|im_start|>user\n{'y' * before}{tiny.IMAGE}what?<|im_end|>\n", ((96, 64, 5),), tokens=8)
        ended = together(make(getattr(tiny, family)(), prefill_step_size=16), {"one": ask})
        assert_each_as_alone(family, {"one": ask}, ended)


def test_the_same_picture_twice_is_encoded_once_and_seen_twice(make):
    twice = Ask(tiny.chat("same?", 2), ((64, 64, 9), (64, 64, 9)), tokens=12)
    for family in FAMILIES:
        scheduler = make(getattr(tiny, family)())
        assert_each_as_alone(family, {"twice": twice}, together(scheduler, {"twice": twice}))
        assert scheduler.batch_stats.num_images == 1


def test_a_prompt_of_one_token_answers_as_alone(make):
    for family in FAMILIES:
        one = Ask("x", tokens=12)
        ended = together(make(getattr(tiny, family)()), {"one": one, "short": SHORT})
        assert ended["one"].prompt_tokens == 1
        assert_each_as_alone(family, {"one": one, "short": SHORT}, ended)


def test_answers_differ_by_picture():
    """What makes the other tests mean something: a swapped or dropped picture would show."""
    asks = [dataclasses.replace(WIDE, pictures=((160, 96, seed),)) for seed in range(3)]
    for family in FAMILIES:
        assert len({tuple(alone(family, ask)) for ask in asks}) == 3
