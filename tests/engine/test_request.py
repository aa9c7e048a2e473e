"""Requests and outputs: names and defaults that scripts rely on, and ends that agree with each other."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args

import pytest

from engine import MLLMRequest, MLLMSchedulerOutput, RequestOutput, RequestStatus, SamplingParams
from engine.request import FinishReason

SAMPLING: dict[str, Any] = {
    "max_tokens": 256,
    "temperature": 0.7,
    "top_p": 0.9,
    "top_k": 0,
    "min_p": 0.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
    "seed": None,
    "stop": (),
    "stop_token_ids": (),
    "logits_processors": (),
    "json_schema": None,
    "thinking_budget": None,
    "logprobs": None,
}
REQUEST = (
    "request_id prompt images videos audio sampling_params arrival_time batch_uid status output_text output_tokens "
    "finish_reason num_prompt_tokens num_output_tokens mtp_drafts mtp_accepted first_token_time"
)
OUTPUT = (
    "request_id new_token_ids new_text output_token_ids output_text prompt_tokens completion_tokens cached_tokens "
    "mtp_drafts mtp_accepted finished finish_reason error"
)
STEP = "scheduled_request_ids num_scheduled_tokens finished_request_ids outputs has_work"


def names(kind: Any) -> set[str]:
    return {spec.name for spec in dataclasses.fields(kind)}


def test_sampling_has_these_defaults() -> None:
    params = SamplingParams()
    assert {spec.name: getattr(params, spec.name) for spec in dataclasses.fields(params)} == SAMPLING
    assert SamplingParams(stop="end").stop == ("end",)  # one string is not its letters


@pytest.mark.parametrize(
    ("kind", "expected"), [(MLLMRequest, REQUEST), (RequestOutput, OUTPUT), (MLLMSchedulerOutput, STEP)]
)
def test_requests_and_outputs_have_these_fields(kind: Any, expected: str) -> None:
    assert set(expected.split()) <= names(kind)


def test_every_end_has_one_status() -> None:
    ended = {status.value: status.name for status in RequestStatus if status.finished}
    assert ended == {
        "stop": "FINISHED_STOPPED",
        "length": "FINISHED_LENGTH_CAPPED",
        "abort": "FINISHED_ABORTED",
        "error": "FINISHED_ERROR",
    }
    assert set(ended) == set(get_args(FinishReason))
    assert [status.name for status in RequestStatus if not status.finished] == ["WAITING", "RUNNING"]
    assert MLLMRequest().status is RequestStatus.WAITING
