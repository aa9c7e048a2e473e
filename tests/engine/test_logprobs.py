"""Log-probabilities are the model's own, one entry per token, alone, in a batch and with drafts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from engine import MLLMScheduler, RequestOutput, RequestRejected
from tests.engine import tiny
from tests.engine.conftest import Make
from tests.engine.solo import first_logits

ASK = tiny.chat("tell me about the sea")


def outputs(scheduler: MLLMScheduler) -> dict[str, list[RequestOutput]]:
    found: dict[str, list[RequestOutput]] = {}
    while scheduler.has_requests():
        for output in scheduler.step().outputs:
            found.setdefault(output.request_id, []).append(output)
    return found


def last(scheduler: MLLMScheduler, **options: Any) -> RequestOutput:
    request_id = scheduler.add_request(ASK, **{"max_tokens": 12, "temperature": 0.0} | options)
    return outputs(scheduler)[request_id][-1]


def test_the_first_tokens_figures_are_the_models(make: Make, tiny_model: tiny.Loaded) -> None:
    output = last(make(tiny_model), logprobs=4)
    logits = first_logits(*tiny_model, ASK).astype(np.float64)
    expected = logits - np.log(np.exp(logits).sum())
    (token, value), *best = output.logprobs[0]
    assert token == output.output_token_ids[0] == best[0][0]
    assert value == best[0][1]
    order = np.argsort(-expected)[:4]
    assert [entry[0] for entry in best] == list(order)
    assert [entry[1] for entry in best] == pytest.approx(list(expected[order]), abs=1e-3)


def test_there_is_one_entry_per_token_at_every_step(make: Make) -> None:
    scheduler = make(tiny.hybrid())
    ids = [scheduler.add_request(ASK, max_tokens=9, seed=n, logprobs=n or None) for n in range(3)]
    streams = outputs(scheduler)
    for number, request_id in enumerate(ids):
        for output in streams[request_id]:
            assert len(output.logprobs) == (len(output.output_token_ids) if number else 0)
            for token, entry in zip(output.output_token_ids, output.logprobs, strict=False):
                assert entry[0][0] == token
                assert len(entry) == number + 1
                assert all(value <= 0 for _, value in entry)


def test_sampling_does_not_colour_them(make: Make) -> None:
    scheduler = make(tiny.hybrid())
    greedy = last(scheduler, logprobs=3, max_tokens=1)
    warm = last(scheduler, logprobs=3, max_tokens=1, temperature=1.5, top_p=0.1, repetition_penalty=2.0, seed=1)
    assert warm.logprobs[0][1:] == greedy.logprobs[0][1:]


def test_neighbours_and_drafts_change_nothing(make: Make, pocket: tiny.Loaded) -> None:
    plain = make(pocket)
    alone = last(plain, logprobs=2)
    plain.add_request(tiny.chat("hi"), max_tokens=16, temperature=0.0)
    beside = last(plain, logprobs=2)
    drafting = make(pocket, enable_mtp=True, mtp_policy="always", mtp_num_draft_tokens=2)
    drafted = last(drafting, logprobs=2)
    assert drafted.mtp_drafts > 0
    for other in (beside, drafted):
        assert other.output_token_ids == alone.output_token_ids
        for mine, theirs in zip(alone.logprobs, other.logprobs, strict=True):
            assert [token for token, _ in mine] == [token for token, _ in theirs]
            assert [value for _, value in mine] == pytest.approx([value for _, value in theirs], abs=1e-3)


def test_none_likeliest_still_tells_the_token_taken(make: Make) -> None:
    output = last(make(tiny.dense()), logprobs=0)
    assert [len(entry) for entry in output.logprobs] == [1] * 12
    assert all(math.isfinite(entry[0][1]) for entry in output.logprobs)


@pytest.mark.parametrize("value", [-1, 21, 2.0, True])
def test_an_impossible_number_is_refused(make: Make, value: Any) -> None:
    with pytest.raises(RequestRejected, match="logprobs"):
        make(tiny.hybrid()).add_request(ASK, logprobs=value)
