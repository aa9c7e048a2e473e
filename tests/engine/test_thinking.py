"""A thinking budget closes the block in time, changes nothing before, and holds in a batch and with drafts."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine import MLLMScheduler, RequestRejected, device
from engine.models.port import Port
from engine.think_tags import ThinkTags
from engine.thinking import ThinkingBudget, ThinkTokens, left_open
from tests.engine import tiny
from tests.engine.conftest import Make

THINK = ThinkTokens(opens=1, closes=2)
QUESTION: dict[str, Any] = {
    "messages": [{"role": "user", "content": "What is 7 + 8?"}],
    "template_options": {"enable_thinking": True},
    "max_tokens": 48,
    "temperature": 0.0,
}


@pytest.mark.parametrize(
    ("ids", "open_"), [([], False), ([5, 1, 6], True), ([1, 6, 2], False), ([1, 2, 1], True), ([2], False)]
)
def test_an_open_block_is_seen_in_the_prompt(ids: list[int], open_: bool) -> None:
    assert THINK.left_open(ids) is open_


def test_tokens_come_from_the_tokenizer() -> None:
    tokenizer = tiny.processor().tokenizer
    think = ThinkTokens.of(tokenizer)
    assert think is not None
    assert tokenizer.convert_ids_to_tokens([think.opens, think.closes]) == ["<think>", "</think>"]


def allowed(rule: ThinkingBudget) -> set[int]:
    return set(np.flatnonzero(np.isfinite(np.array(rule.apply(mx.zeros((1, 5)))[0]))))


def test_inside_a_spent_block_only_its_end_may_come_and_none_is_opened_after() -> None:
    def run() -> None:
        rule = ThinkingBudget(THINK, 2, opened=True)
        seen = [allowed(rule)]
        for token in (3, 4, 2, 3):
            rule.took(mx.array([token]))
            seen.append(allowed(rule))
        every = {0, 1, 2, 3, 4}
        assert seen == [every, every, {2}, every - {1}, every - {1}]
        assert allowed(rule.resumed([3])) == every
        assert allowed(rule.resumed([3, 4])) == {2}

    device.home().run_here(run)


def test_a_fork_goes_on_by_itself() -> None:
    def run() -> None:
        rule = ThinkingBudget(THINK, 1, opened=True)
        twin = rule.fork()
        twin.took(mx.array([3]))
        assert allowed(twin) == {2}
        assert allowed(rule) == {0, 1, 2, 3, 4}

    device.home().run_here(run)


def thought(scheduler: MLLMScheduler, **options: Any) -> tuple[list[int], list[int]]:
    """Tokens before and after the end of the block."""
    request_id = scheduler.add_request(**QUESTION | options)
    while scheduler.has_requests():
        scheduler.step()
    request = scheduler.get_request(request_id)
    assert request is not None
    assert request.finish_reason == "stop"
    end = request.output_tokens.index(scheduler.processor.tokenizer.convert_tokens_to_ids("</think>"))
    return request.output_tokens[:end], request.output_tokens[end + 1 :]


def test_the_demo_model_stops_thinking_in_time_and_answers(make: Make, pocket: tiny.Loaded) -> None:
    scheduler = make(pocket)
    free, answer = thought(scheduler)
    assert len(free) > 3
    assert answer
    short, answer = thought(scheduler, thinking_budget=3)
    assert short == free[:3]
    assert answer
    assert thought(scheduler, thinking_budget=0)[0] == []
    assert thought(scheduler, thinking_budget=len(free))[0] == free


@pytest.mark.parametrize("budget", [1, 3])
def test_drafts_and_neighbours_change_nothing(make: Make, pocket: tiny.Loaded, budget: int) -> None:
    scheduler = make(pocket)
    expected = thought(scheduler, thinking_budget=budget)
    scheduler.add_request("hello there", max_tokens=40, temperature=0.0)
    assert thought(scheduler, thinking_budget=budget) == expected
    config = dataclasses.replace(scheduler.config, enable_mtp=True, mtp_policy="always", mtp_num_draft_tokens=2)
    scheduler.apply_config(config)
    assert thought(scheduler, thinking_budget=budget) == expected
    assert scheduler.get_stats()["mtp"]["attempted"] > 0


def test_a_rebuilt_row_keeps_its_count(make: Make, pocket: tiny.Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = thought(make(pocket), thinking_budget=3)
    decode, calls = Port.decode, iter(range(1000))

    def failing(port: Port, *args: Any) -> mx.array:
        if next(calls) == 3:
            raise RuntimeError("the device gave up")
        return decode(port, *args)

    monkeypatch.setattr(Port, "decode", failing)
    assert thought(make(pocket), thinking_budget=3) == expected


@pytest.mark.parametrize("value", [-1, 1.5, True])
def test_an_impossible_budget_is_refused(make: Make, value: Any) -> None:
    with pytest.raises(RequestRejected, match="thinking_budget"):
        make(tiny.hybrid()).add_request("hi", thinking_budget=value)


@pytest.mark.parametrize("on", [True, False])
def test_a_request_tells_whether_its_prompt_has_opened_a_block(make: Make, pocket: tiny.Loaded, on: bool) -> None:
    scheduler = make(pocket)
    request_id = scheduler.add_request(
        messages=[{"role": "user", "content": "Count to 3."}], max_tokens=2, template_options={"enable_thinking": on}
    )
    while scheduler.has_requests():
        scheduler.step()
    request = scheduler.get_request(request_id)
    assert request is not None
    assert request.begins_thinking == on


def test_a_block_is_seen_where_its_tags_are_no_tokens_of_their_own() -> None:
    words = {1: "hello", 2: "<th", 3: "ink>", 4: "\n", 5: "</think>"}
    tokenizer = SimpleNamespace(
        get_added_vocab=dict, decode=lambda ids, skip_special_tokens: "".join(words[i] for i in ids)
    )
    assert left_open(tokenizer, [1, 2, 3, 4])
    assert not left_open(tokenizer, [1, 2, 3, 4, 5, 4])
    assert not left_open(tokenizer, [1])


def test_gemmas_channels_are_blocks_too() -> None:
    tokenizer = SimpleNamespace(get_added_vocab=lambda: {"<|channel>": 100, "<channel|>": 101})
    assert ThinkTokens.of(tokenizer) == ThinkTokens(100, 101)
    assert ThinkTags.of(tokenizer).opening == "<|channel>thought\n"
    assert left_open(tokenizer, [7, 100, 8, 9])
    assert not left_open(tokenizer, [7, 100, 8, 9, 101])


def test_tags_stand_in_the_text_also_where_they_are_special_tokens(make: Make) -> None:
    scheduler = make(tiny.hybrid())
    prompt = tiny.chat("Why?") + "<think>"
    request_id = scheduler.add_request(prompt, max_tokens=12, temperature=0.0, thinking_budget=3)
    while scheduler.has_requests():
        scheduler.step()
    request = scheduler.get_request(request_id)
    assert request is not None
    assert request.begins_thinking
    tokenizer = scheduler.processor.tokenizer
    end = request.output_tokens.index(tokenizer.convert_tokens_to_ids("</think>"))
    assert end == 3
    before, after = request.output_tokens[:end], request.output_tokens[end + 1 :]
    assert "</think>" in tokenizer.all_special_tokens
    words = [tokenizer.decode(part, skip_special_tokens=True) for part in (before, after)]
    assert request.output_text == "</think>".join(words)
