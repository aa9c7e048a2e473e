"""When drafting is worth it, from made-up speeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engine import MLLMRequest, MLLMSchedulerConfig, SamplingParams
from engine.speculation import Payoff, Speculation


def live(payoff: Payoff, tokens: int, speed: Callable[[bool], float]) -> int:
    """Decode tokens at the speeds given; how many came from rounds of two."""
    drafted = 0
    while tokens > 0:
        size = 2 if payoff.drafting else 1
        drafted += size * payoff.drafting
        tokens -= size
        payoff.learn(payoff.drafting, size, size / speed(payoff.drafting))
    return drafted


def test_both_ways_are_measured_before_one_is_chosen() -> None:
    payoff = Payoff()
    assert live(payoff, 24, lambda drafting: 100.0) == 0
    assert payoff.ratio is None
    assert payoff.drafting
    live(payoff, 24, lambda drafting: 150.0 if drafting else 100.0)
    assert payoff.ratio == pytest.approx(1.5)
    assert payoff.favourite is True


@pytest.mark.parametrize("gain", [1.5, 0.9, 0.3])
def test_the_slower_way_is_tried_ever_more_rarely(gain: float) -> None:
    payoff = Payoff()
    live(payoff, 60, lambda drafting: 100 * gain if drafting else 100.0)
    drafted = live(payoff, 100_000, lambda drafting: 100 * gain if drafting else 100.0)
    assert payoff.favourite is (gain > 1)
    assert (100_000 - drafted if gain > 1 else drafted) < 400


def test_a_hopeless_trial_ends_early() -> None:
    payoff = Payoff()
    live(payoff, 24, lambda drafting: 100.0)
    assert live(payoff, 100, lambda drafting: 20.0 if drafting else 100.0) == 8


def test_a_change_of_fortune_is_found() -> None:
    payoff = Payoff()
    live(payoff, 2_000, lambda drafting: 80.0 if drafting else 100.0)
    assert payoff.favourite is False
    live(payoff, 5_000, lambda drafting: 120.0 if drafting else 100.0)
    assert payoff.favourite is True


def test_a_favourite_that_slows_down_is_questioned_before_its_rest_is_over() -> None:
    payoff = Payoff()
    live(payoff, 400, lambda drafting: 90.0 if drafting else 100.0)
    assert payoff.favourite is False
    live(payoff, 400, lambda drafting: 90.0 if drafting else 50.0)
    assert payoff.favourite is True


def speculation(available: bool = True, **config: Any) -> Speculation:
    return Speculation(MLLMSchedulerConfig(enable_mtp=True, **config), available=available)


def plan(spec: Speculation, left: int = 100, **situation: bool) -> int:
    return spec.plan([MLLMRequest()], **{"alone": True, "suspect": False} | situation, left=left)


def test_drafts_never_pass_the_limit() -> None:
    spec = speculation(mtp_num_draft_tokens=4, mtp_policy="always")
    assert [plan(spec, left) for left in (100, 5, 4, 2, 1, 0)] == [4, 4, 3, 1, 0, 0]


@pytest.mark.parametrize(
    ("spec", "situation", "reason"),
    [
        (speculation(mtp_policy="always"), {"alone": False}, "batch"),
        (speculation(mtp_policy="always"), {"suspect": True}, "error"),
        (speculation(available=False), {}, "no_head"),
        (speculation(), {}, "measuring"),
    ],
    ids=["batch", "error", "no_head", "measuring"],
)
def test_each_bypass_is_counted_with_its_reason(spec: Speculation, situation: dict[str, bool], reason: str) -> None:
    assert plan(spec, **situation) == 0
    assert spec.snapshot()["bypass_counts"] == {reason: 1}


def test_three_failures_switch_it_off() -> None:
    spec = speculation(mtp_policy="always")
    for drafts in (1, 1, 0, 1):
        assert plan(spec) == 1
        spec.failed(drafts)
    assert plan(spec) == 0
    assert spec.snapshot()["errors"] == 3


def test_units_after_a_change_of_work_are_not_measured() -> None:
    spec = speculation()
    for _ in range(3):
        spec.learn("a", drafted=False, tokens=1, seconds=9.0)
    assert spec.payoff.plain.units == 0
    spec.learn("a", drafted=False, tokens=1, seconds=0.01)
    assert spec.snapshot()["plain_tps"] == pytest.approx(100.0)
    spec.other_unit()
    spec.learn("a", drafted=False, tokens=1, seconds=9.0)
    assert spec.snapshot()["plain_tps"] == pytest.approx(100.0)


def test_requests_that_rule_it_out_are_not_read_along() -> None:
    spec = speculation()
    strict = MLLMRequest(sampling_params=SamplingParams(logits_processors=(lambda seen, logits: logits,)))
    assert spec.reads_along(MLLMRequest())
    assert not spec.reads_along(strict)
    spec.payoff.favourite = False
    assert not spec.reads_along(MLLMRequest())


def test_tokens_per_round_are_counted_not_guessed() -> None:
    spec = speculation()
    assert spec.snapshot()["tokens_per_round"] == 0.0
    request = MLLMRequest()
    for accepted, tokens in ((1, 2), (0, 1), (1, 2), (1, 1)):  # the last round met the end of the reply
        spec.count(request, 1, accepted, tokens)
    figures = spec.snapshot()
    assert (figures["rounds"], figures["tokens_per_round"]) == (4, 1.5)
    assert (figures["attempted"], figures["accepted"], figures["acceptance_rate"]) == (4, 3, 0.75)
