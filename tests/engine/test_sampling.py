"""A row's tokens follow its own rules and its own seed, whoever stands beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine import MLLMScheduler, SamplingParams, device
from engine.sampling import RowSampler, sample
from tests.engine import tiny

LOGITS = [2.0, 1.5, 1.0, -1.0, -4.0, 0.5]


def in_unit(work: Callable[[], Any]) -> Any:
    return device.home().run_here(work)


def draws(count: int, logits: list[float], **params: Any) -> Counter[int]:
    """Tokens drawn at ``count`` positions from the same logits."""
    sampler = RowSampler(SamplingParams(**{"top_p": 1.0, **params}), (), seed=1)

    def run() -> list[int]:
        return [int(sample(mx.array([logits]), [sampler]).item()) for _ in range(count)]

    return Counter(in_unit(run))


def softmax(logits: Any) -> np.ndarray:
    powers = np.exp(np.array(logits) - np.max(logits))
    return powers / powers.sum()


def assert_frequencies(found: Counter[int], probabilities: np.ndarray) -> None:
    """Each share within four standard deviations: a fixed seed, so it either always holds or never."""
    count = found.total()
    for token, share in enumerate(probabilities):
        assert abs(found[token] / count - share) <= 4 * np.sqrt(share * (1 - share) / count), token


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_tokens_are_drawn_as_often_as_they_are_likely(temperature):
    assert_frequencies(draws(1500, LOGITS, temperature=temperature), softmax(np.array(LOGITS) / temperature))


@pytest.mark.parametrize(
    ("params", "kept"),
    [
        ({"top_k": 2}, [0, 1]),
        ({"top_k": 1}, [0]),
        ({"top_p": 0.6}, [0, 1]),
        ({"top_p": 0.0}, [0]),
        ({"min_p": 0.3}, [0, 1, 2]),
        ({"min_p": 1.0}, [0]),
        ({"top_k": 4, "min_p": 0.3, "top_p": 0.6}, [0, 1]),
    ],
)
def test_truncation_keeps_the_likeliest_and_their_proportions(params, kept):
    expected = np.zeros(len(LOGITS))
    expected[kept] = softmax([LOGITS[token] for token in kept])
    assert_frequencies(draws(800, LOGITS, temperature=1.0, **params), expected)


def test_repetition_penalty_damps_prompt_and_answer_alike():
    sampler = RowSampler(SamplingParams(temperature=0.0, repetition_penalty=2.0), (0, 4), seed=0)
    shaped = in_unit(lambda: np.array(sampler.shape(mx.array([LOGITS]))))
    np.testing.assert_allclose(shaped, [[1.0, 1.5, 1.0, -1.0, -8.0, 0.5]])
    in_unit(lambda: sampler.took(mx.array([1])))
    shaped = in_unit(lambda: np.array(sampler.shape(mx.array([LOGITS]))))
    np.testing.assert_allclose(shaped, [[1.0, 0.75, 1.0, -1.0, -8.0, 0.5]])


def test_presence_counts_once_and_frequency_every_time_and_the_prompt_never():
    sampler = RowSampler(SamplingParams(temperature=0.0, presence_penalty=0.5, frequency_penalty=0.25), (1, 1), seed=0)
    in_unit(lambda: sampler.shape(mx.array([LOGITS])))
    for token in (0, 0, 2):
        in_unit(lambda token=token: sampler.took(mx.array([token])))
    shaped = in_unit(lambda: np.array(sampler.shape(mx.array([LOGITS]))))
    np.testing.assert_allclose(shaped, [[1.0, 1.5, 0.25, -1.0, -4.0, 0.5]])


def test_a_resumed_sampler_stands_where_the_first_one_stood():
    params = SamplingParams(temperature=0.8, repetition_penalty=1.3, frequency_penalty=0.2)
    first = RowSampler(params, (3,), seed=7)
    tokens = in_unit(lambda: [int(sample(mx.array([LOGITS]), [first]).item()) for _ in range(6)])
    again = RowSampler(params, (3,), seed=7).resumed(tokens[:3])
    assert in_unit(lambda: [int(sample(mx.array([LOGITS]), [again]).item()) for _ in range(3)]) == tokens[3:]


def test_seeds_and_positions_give_keys_of_their_own():
    keys = {
        tuple(np.array(in_unit(RowSampler(SamplingParams(), (), seed, position=position).key)).tolist())
        for seed in range(20)
        for position in range(20)
    }
    assert len(keys) == 400


def asks() -> dict[str, dict[str, Any]]:
    picture = tiny.picture(96, 64, 3)
    hot = {"temperature": 1.3, "top_p": 0.95}
    return {
        "greedy": {"prompt": tiny.chat("one"), "temperature": 0.0},
        "seed 1": {"prompt": tiny.chat("two"), "seed": 1, **hot},
        "seed 2": {"prompt": tiny.chat("two"), "seed": 2, **hot},
        "picture": {"prompt": tiny.chat("what", 1), "images": [picture], "seed": 1, "top_k": 5, **hot},
        "penalties": {
            "prompt": tiny.chat("aaaa"),
            "temperature": 0.0,
            "repetition_penalty": 1.4,
            "presence_penalty": 1,
        },
        "drawn and penalised": {"prompt": tiny.chat("b"), "seed": 4, "frequency_penalty": 1.5, "min_p": 0.01, **hot},
        "processor": {"prompt": tiny.chat("c"), "temperature": 0.0, "logits_processors": [even_tokens_only]},
    }


def even_tokens_only(tokens: mx.array, logits: mx.array) -> mx.array:
    return mx.where(mx.arange(logits.shape[-1]) % 2 == 0, logits, -mx.inf)


def answers(scheduler: MLLMScheduler, requests: dict[str, dict[str, Any]]) -> dict[str, tuple[int, ...]]:
    for name, request in requests.items():
        scheduler.add_request(request_id=name, max_tokens=14, **request)
    while scheduler.has_requests():
        scheduler.step()
    found = {name: scheduler.remove_finished_request(name) for name in requests}
    assert all(request is not None and request.finish_reason == "length" for request in found.values())
    return {name: tuple(request.output_tokens) for name, request in found.items() if request}


def test_rows_with_rules_of_their_own_answer_beside_each_other_as_alone(tiny_model, make):
    together = answers(make(tiny_model, prefill_step_size=16), asks())
    alone = make(tiny_model)
    for name, request in asks().items():
        assert answers(alone, {name: request})[name] == together[name], name
    assert together["seed 1"] != together["seed 2"]
    assert all(token % 2 == 0 for token in together["processor"])
    plain = {**asks()["penalties"], "repetition_penalty": 1.0, "presence_penalty": 0}
    assert answers(alone, {"plain": plain})["plain"] != together["penalties"]


def test_without_a_seed_two_answers_differ(make):
    request = {"prompt": tiny.chat("two"), "temperature": 1.5, "top_p": 1.0}
    scheduler = make(tiny.hybrid())
    scheduler.port.stop_ids = frozenset()  # which chance draws now and then
    found = answers(scheduler, {"a": request, "b": request})
    assert found["a"] != found["b"]


def test_a_processor_sees_prompt_and_answer_up_to_the_token_before(make):
    seen: list[list[int]] = []

    def record(tokens: mx.array, logits: mx.array) -> mx.array:
        seen.append(tokens.tolist())
        return logits

    scheduler = make(tiny.hybrid())
    request = {"prompt": tiny.chat("d"), "temperature": 0.0, "logits_processors": [record]}
    tokens = answers(scheduler, {"one": request})["one"]
    prompt = tiny.processor().tokenizer.encode(tiny.chat("d"))
    assert seen == [[*prompt, *tokens[:count]] for count in range(14)]
