"""Drafting changes how fast an answer comes, never what it says: whoever joins, leaves, fails or stops meanwhile."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine import MLLMScheduler, device
from engine.models.families import open_port
from engine.models.loader import has_prediction_head
from engine.models.port import Verification
from engine.mtp import Draft, Head, agreed, until_stop
from engine.sampling import RowSampler
from tests.engine import tiny
from tests.engine.conftest import POCKET, Make
from tests.engine.solo import solo

SEA = tiny.chat("tell me about the sea, the moon and the tides")
SEEN = tiny.chat("what do you see?", 1)
PICTURE = (96, 64, 4)
DRAFTING = {"enable_mtp": True, "mtp_policy": "always"}


class Oracle(Head):
    """Guesses the true answer, spoiled from a place drawn at random (``spoil``), so that any number is accepted."""

    def __init__(self, answer: Sequence[int], spoil: bool = False) -> None:
        self.answer, self.dice, self.accepted = answer, random.Random(3) if spoil else None, Counter[int]()

    def draft(self) -> Draft:
        return Draft([])

    def feed(self, cache: Any, tokens: mx.array, hidden: mx.array, position: int) -> mx.array:
        return hidden

    def guess(self, draft: Draft, sampler: RowSampler, count: int) -> mx.array:
        draft.lose()
        guesses = [*self.answer, *[0] * count][sampler.position : sampler.position + count]
        right = self.dice.randint(0, count) if self.dice else count
        return mx.array([guess if i < right else (guess + 1) % 250 for i, guess in enumerate(guesses)])


def ask(scheduler: MLLMScheduler, prompt: str = SEA, pictures: Sequence[Any] = (), **options: Any) -> str:
    images = [tiny.picture(*size) for size in pictures]
    return scheduler.add_request(prompt, images, **{"max_tokens": 24, "temperature": 0.0} | options)


def tokens(scheduler: MLLMScheduler, request_id: str) -> list[int]:
    """Run everything to its end; one request's tokens."""
    for _ in range(1000):
        scheduler.step()
        if not scheduler.has_requests():
            break
    request = scheduler.get_request(request_id)
    assert request is not None
    assert request.error is None
    assert scheduler.batch_stats.generation_tokens == scheduler.total_completion_tokens
    return request.output_tokens


def drafts(scheduler: MLLMScheduler, request_id: str) -> int:
    request = scheduler.get_request(request_id)
    assert request is not None
    return request.mtp_drafts


@cache
def alone(prompt: str = SEA, pictures: tuple[tuple[int, int, int], ...] = (), length: int = 24) -> list[int]:
    return solo(*tiny.hybrid(), prompt, [tiny.picture(*size) for size in pictures], length)


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize(("prompt", "pictures"), [(SEA, ()), (SEEN, (PICTURE,))], ids=["text", "picture"])
def test_wrong_guesses_change_nothing(make: Make, prompt: str, pictures: Any, count: int) -> None:
    scheduler = make(tiny.headed(), mtp_num_draft_tokens=count, **DRAFTING)
    request_id = ask(scheduler, prompt, pictures)
    assert tokens(scheduler, request_id) == alone(prompt, pictures)
    figures = scheduler.get_stats()["mtp"]
    assert figures["attempted"] == drafts(scheduler, request_id) > 20
    assert figures["accepted"] + figures["rejected"] == figures["attempted"]
    assert figures["effective_draft_tokens"] == count


@pytest.mark.parametrize(("prompt", "pictures"), [(SEA, ()), (SEEN, (PICTURE,))], ids=["text", "picture"])
def test_any_number_of_right_guesses_is_used(make: Make, prompt: str, pictures: Any) -> None:
    answer = alone(prompt, pictures, 60)
    scheduler = make(tiny.headed(), mtp_num_draft_tokens=2, **DRAFTING)
    scheduler.batch._head = Oracle(answer, spoil=True)
    rounds: Counter[int] = Counter()
    request_id = ask(scheduler, prompt, pictures, max_tokens=60)
    before = 0
    while scheduler.has_requests():
        scheduler.step()
        accepted = scheduler.get_stats()["mtp"]["accepted"]
        rounds[accepted - before] += 1
        before = accepted
    assert tokens(scheduler, request_id) == answer
    assert all(rounds[number] > 2 for number in (0, 1, 2))


def test_right_guesses_save_steps(make: Make) -> None:
    scheduler = make(tiny.headed(), mtp_num_draft_tokens=3, **DRAFTING)
    scheduler.batch._head = Oracle(alone(length=40))
    request_id = ask(scheduler, max_tokens=40)
    scheduler.step()
    steps = 0
    while scheduler.has_requests():
        scheduler.step()
        steps += 1
    assert tokens(scheduler, request_id) == alone(length=40)
    assert steps < 20
    assert scheduler.get_stats()["mtp"]["acceptance_rate"] == 1.0


@pytest.mark.parametrize("length", [1, 2, 3, 5, 6, 7])
def test_a_limit_inside_a_round_holds(make: Make, length: int) -> None:
    scheduler = make(tiny.headed(), mtp_num_draft_tokens=4, **DRAFTING)
    scheduler.batch._head = Oracle(alone())
    request_id = ask(scheduler, max_tokens=length)
    assert tokens(scheduler, request_id) == alone()[:length]


@pytest.mark.parametrize("place", [0, 1, 2, 4, 6])
def test_a_stop_token_inside_a_round_ends_the_answer(make: Make, place: int) -> None:
    scheduler = make(tiny.headed(), mtp_num_draft_tokens=4, **DRAFTING)
    scheduler.batch._head = Oracle(alone())
    stop = alone()[place]
    request_id = ask(scheduler, stop_token_ids=(stop,))
    assert tokens(scheduler, request_id) == alone()[: alone().index(stop) + 1]
    request = scheduler.get_request(request_id)
    assert request is not None
    assert request.finish_reason == "stop"


def test_a_stop_string_inside_a_round_ends_the_answer(make: Make) -> None:
    plain = make(tiny.headed())
    whole = ask(plain, max_tokens=24)
    tokens(plain, whole)
    request = plain.get_request(whole)
    assert request is not None
    stop = request.output_text[3:5]
    expected = ask(plain, stop=(stop,))
    scheduler = make(tiny.headed(), mtp_num_draft_tokens=4, **DRAFTING)
    scheduler.batch._head = Oracle(alone())
    request_id = ask(scheduler, stop=(stop,))
    assert tokens(scheduler, request_id) == tokens(plain, expected)
    assert scheduler.requests[request_id].output_text == plain.requests[expected].output_text


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 0.8, "seed": 5},
        {"temperature": 1.0, "top_p": 0.8, "min_p": 0.02, "seed": 6},
        {"repetition_penalty": 1.4},
        {"temperature": 0.7, "seed": 7, "presence_penalty": 0.6, "frequency_penalty": 0.4},
    ],
    ids=str,
)
@pytest.mark.parametrize("oracle", [False, True], ids=["wrong", "right"])
def test_sampled_and_penalised_answers_are_those_without_drafts(
    make: Make, options: dict[str, Any], oracle: bool
) -> None:
    plain = make(tiny.headed())
    expected = tokens(plain, ask(plain, **options))
    scheduler = make(tiny.headed(), mtp_num_draft_tokens=2, **DRAFTING)
    if oracle:
        scheduler.batch._head = Oracle(expected, spoil=True)
    request_id = ask(scheduler, **options)
    assert tokens(scheduler, request_id) == expected
    assert drafts(scheduler, request_id)
    assert scheduler.get_stats()["mtp"]["accepted"] or not oracle


@pytest.mark.parametrize("joins_at", [4, 7, 12])
def test_a_row_steps_aside_for_another_and_comes_back(make: Make, joins_at: int) -> None:
    scheduler = make(tiny.headed(), mtp_num_draft_tokens=2, **DRAFTING)
    scheduler.batch._head = Oracle(alone(length=60), spoil=True)
    first = ask(scheduler, max_tokens=60)
    for _ in range(joins_at):
        scheduler.step()
    second = ask(scheduler, SEEN, (PICTURE,), max_tokens=8)
    while not scheduler.requests[second].status.finished:
        scheduler.step()
        if scheduler.requests[second].num_output_tokens == 4:
            assert [entry["mtp"]["off"] for entry in scheduler.get_running_requests_info()] == ["batch", "batch"]
            meanwhile = drafts(scheduler, first)
    assert scheduler.requests[second].output_tokens == alone(SEEN, (PICTURE,), 8)
    assert tokens(scheduler, first) == alone(length=60)
    assert drafts(scheduler, first) > meanwhile
    assert scheduler.get_stats()["mtp"]["bypass_counts"]["batch"] >= 7


def test_a_prompt_that_was_restored_drafts_all_the_same(make: Make) -> None:
    scheduler = make(tiny.headed(), mtp_num_draft_tokens=2, **DRAFTING)
    first = ask(scheduler, SEEN, (PICTURE,))
    assert tokens(scheduler, first) == alone(SEEN, (PICTURE,))
    second = ask(scheduler, SEEN, (PICTURE,))
    assert tokens(scheduler, second) == alone(SEEN, (PICTURE,))
    assert scheduler.requests[second].cached_tokens > 0
    assert drafts(scheduler, second)


def test_rows_too_unlike_to_share_a_batch_draft_side_by_side(make: Make) -> None:
    long = tiny.chat("the sea " * 60)
    scheduler = make(tiny.headed(), mtp_num_draft_tokens=2, **DRAFTING)
    first, second = ask(scheduler, SEA), ask(scheduler, long)
    assert tokens(scheduler, second) == alone(long)
    assert tokens(scheduler, first) == alone()
    assert drafts(scheduler, first)
    assert drafts(scheduler, second)


def test_an_abort_between_rounds_leaves_the_next_request_whole(make: Make) -> None:
    scheduler = make(tiny.headed(), mtp_num_draft_tokens=2, **DRAFTING)
    scheduler.batch._head = Oracle(alone(length=60), spoil=True)
    first = ask(scheduler, max_tokens=60)
    while not drafts(scheduler, first):
        scheduler.step()
    second = ask(scheduler)
    assert scheduler.abort_request(first)
    assert tokens(scheduler, second) == alone()
    assert scheduler.requests[first].finish_reason == "abort"
    assert scheduler.requests[first].output_tokens == alone(length=60)[: scheduler.requests[first].num_output_tokens]


def test_a_failed_check_costs_the_row_nothing_but_its_drafts(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = make(tiny.headed(), mtp_num_draft_tokens=2, **DRAFTING)
    scheduler.batch._head = Oracle(alone(), spoil=True)
    keep, calls = Verification.keep, iter(range(100))

    def failing(check: Verification, count: int) -> None:
        if next(calls) == 3:
            raise RuntimeError("the device gave up")
        keep(check, count)

    monkeypatch.setattr(Verification, "keep", failing)
    request_id = ask(scheduler)
    assert tokens(scheduler, request_id) == alone()
    figures = scheduler.get_stats()["mtp"]
    assert figures["errors"] == 1
    assert figures["bypass_counts"]["error"] > 5
    assert scheduler.requests[request_id].mtp_off == "error"


def test_leaving_a_check_without_keeping_restores_the_caches() -> None:
    port = open_port(*tiny.headed())

    def run() -> None:
        cache, delta = port.make_cache(), mx.array([[0]])
        port.decode(mx.array([5]), cache, delta)
        before = [np.array(array) for layer in cache for array in layer.state]
        with port.verify(mx.array([7, 8, 9]), cache, delta) as check:
            mx.eval(check.logits)
        after = [np.array(array) for layer in cache for array in layer.state]
        assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
        with port.verify(mx.array([7, 8, 9]), cache, delta) as check:
            check.keep(2)
        kept, stepped = port.decode(mx.array([4]), cache, delta), port.make_cache()
        for token in (5, 7, 8):
            port.decode(mx.array([token]), stepped, delta)
        assert np.allclose(np.array(kept), np.array(port.decode(mx.array([4]), stepped, delta)), atol=1e-4)

    device.home().run_here(run)


def test_what_cannot_draft_says_why(make: Make) -> None:
    scheduler = make(tiny.headed(), **DRAFTING)
    request_id = ask(scheduler, logits_processors=(lambda seen, logits: logits,))
    assert tokens(scheduler, request_id) == alone()
    assert scheduler.requests[request_id].mtp_off == "logits_processors"
    assert scheduler.get_stats()["mtp"]["bypass_counts"] == {"logits_processors": 25}

    without = make(tiny.dense(), **DRAFTING)
    request_id = ask(without)
    tokens(without, request_id)
    assert without.requests[request_id].mtp_off == "no_head"
    assert without.get_stats()["mtp"]["effective_draft_tokens"] == 0

    off = make(tiny.headed())
    request_id = ask(off)
    tokens(off, request_id)
    assert off.requests[request_id].mtp_off == "disabled"
    assert off.get_stats()["mtp"]["bypass_counts"] == {}


def test_drafting_can_be_switched_while_a_request_runs(make: Make) -> None:
    scheduler = make(tiny.headed(), mtp_num_draft_tokens=2)
    request_id = ask(scheduler)
    for _ in range(8):
        scheduler.step()
    assert not drafts(scheduler, request_id)
    assert scheduler.apply_config(dataclasses.replace(scheduler.config, **DRAFTING)) == set()
    assert tokens(scheduler, request_id) == alone()
    assert drafts(scheduler, request_id)


def test_auto_measures_plain_decoding_before_it_drafts(make: Make) -> None:
    scheduler = make(tiny.headed(), enable_mtp=True)
    request_id = ask(scheduler, max_tokens=60)
    reasons: list[str | None] = []
    while scheduler.has_requests():
        scheduler.step()
        reasons += [entry["mtp"]["off"] for entry in scheduler.get_running_requests_info()]
    assert tokens(scheduler, request_id) == alone(length=60)
    assert set(reasons[: reasons.index("measuring") + 24]) <= {None, "measuring"}
    figures = scheduler.get_stats()["mtp"]
    assert figures["attempted"] > 0
    assert figures["speedup"] == pytest.approx(figures["mtp_tps"] / figures["plain_tps"])


def test_helpers() -> None:
    assert [agreed(guesses, [1, 2, 3]) for guesses in ([1, 2], [1, 5], [5, 2])] == [2, 1, 0]
    assert until_stop([4, 5, 6], frozenset({5})) == [4, 5]
    assert until_stop([4, 5, 6], frozenset()) == [4, 5, 6]


@pytest.mark.parametrize(("count", "least"), [(1, 0.75), (2, 0.5)])
def test_the_demo_models_head_guesses_well(
    make: Make, pocket: tiny.Loaded, count: int, least: float, capsys: pytest.CaptureFixture[str]
) -> None:
    plain, scheduler = make(pocket), make(pocket, mtp_num_draft_tokens=count, **DRAFTING)
    messages = [{"role": "user", "content": "Count to 12."}]
    asked = {"messages": messages, "max_tokens": 48, "temperature": 0.0}
    expected, request_id = plain.add_request(**asked), scheduler.add_request(**asked)
    assert tokens(plain, expected) == tokens(scheduler, request_id)
    assert plain.requests[expected].output_text == scheduler.requests[request_id].output_text
    figures = scheduler.get_stats()["mtp"]
    assert figures["acceptance_rate"] >= least
    before, after = (s.get_stats()["batch_generator"]["generation_tps"] for s in (plain, scheduler))
    with capsys.disabled():
        print(f"\n  {count} drafts: {figures['acceptance_rate']:.0%} accepted, {after / before:.2f} times as fast")


def test_the_loader_finds_the_head_and_gives_it_the_models_type(pocket: tiny.Loaded) -> None:
    model, _ = pocket
    assert has_prediction_head(POCKET)
    assert model.mtp.fc.weight.dtype == model.language_model.model.embed_tokens.weight.dtype
    assert Head.of(tiny.dense()[0]) is None
