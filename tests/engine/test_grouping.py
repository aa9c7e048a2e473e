"""Rows of like length decode together, others in groups of their own, and nobody's tokens change."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlx.utils import tree_flatten

from engine.grouping import FREE_SHARE, MOST_FREE_WASTE, MOST_WASTE, fits, mergeable, place, waste
from engine.memory import Verdict
from tests.engine import tiny
from tests.engine.conftest import Make
from tests.engine.solo import solo


def test_short_differences_cost_nothing_and_long_ones_are_counted() -> None:
    assert waste([]) == 0
    assert waste([10, 40, 200]) == 0
    assert waste([6_144, 256, 256, 256]) == pytest.approx(1 - 27 / 96)


@given(st.lists(st.integers(1, 20_000), min_size=1, max_size=40))
def test_placing_rows_one_after_another_never_wastes_too_much(lengths: list[int]) -> None:
    groups: list[list[int]] = []
    for length in lengths:
        index = place(length, groups)
        if index is None:
            groups.append([length])
        else:
            groups[index].append(length)
    assert all(waste(group) <= MOST_WASTE for group in groups)
    assert sum(map(len, groups)) == len(lengths)


def test_groups_that_became_alike_are_merged_within_the_batch_size() -> None:
    assert mergeable([[5_000], [300]], 8) is None
    assert mergeable([[5_000], [300], [4_800]], 8) == (0, 2)
    assert mergeable([[5_000, 5_000], [4_800]], 2) is None


def test_padding_that_is_small_beside_the_weights_is_cheaper_than_a_step_of_its_own() -> None:
    lengths = [1_536, 512, 256, 768]
    assert MOST_WASTE < waste(lengths) <= MOST_FREE_WASTE
    padding = 4 * 1_536 - sum(lengths)
    assert fits(lengths, free=padding)
    assert not fits(lengths, free=padding - 1)
    assert place(1_536, [[512, 256, 768]], free=padding) == 0
    assert place(1_536, [[512, 256, 768]]) is None
    assert mergeable([[1_536], [512, 256, 768]], 4, free=padding) == (0, 1)
    assert not fits([6_144, 256, 256, 256], free=1e9)  # most of the memory would be padding


def test_a_quarter_of_the_weights_may_be_padding_where_memory_is_left(
    tiny_model: Any, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = make(tiny_model)
    port = scheduler.port
    weights = sum(array.nbytes for _, array in tree_flatten(tiny_model[0].language_model.parameters()))
    assert port.weight_bytes == weights > 0
    assert scheduler.batch.free_padding == 0  # nobody is there to share a step with
    scheduler.add_request(tiny.chat("hello"), max_tokens=4)
    while scheduler.has_requests():
        scheduler.step()
    most = FREE_SHARE * weights / port.cache_cost.per_token
    assert scheduler.batch.free_padding == pytest.approx(most)
    for spare in (0, 1_000):
        monkeypatch.setattr("engine.admission.judge", lambda *_, spare=spare, **__: Verdict(0, spare=spare))
        scheduler.add_request(tiny.chat("hello"), max_tokens=4)
        while scheduler.has_requests():
            scheduler.step()
        assert scheduler.batch.free_padding == pytest.approx(spare / port.cache_cost.per_token)


def test_a_long_row_and_short_ones_decode_apart_and_equal_solo(tiny_model: Any, make: Make) -> None:
    prompts = [tiny.chat("long " * 300), tiny.chat("short"), tiny.chat("brief"), tiny.chat("tiny")]
    scheduler = make(tiny_model, prefill_step_size=512, chunked_prefill_tokens=512)
    ids = [scheduler.add_request(prompt, max_tokens=40, temperature=0.0) for prompt in prompts]
    sizes: set[tuple[int, ...]] = set()
    while scheduler.has_requests():
        scheduler.step()
        sizes.add(tuple(sorted(len(group.members) for group in scheduler.batch._groups)))
    assert (1, 3) in sizes
    assert all(waste([row.length for row in group.members]) <= MOST_WASTE for group in scheduler.batch._groups)
    for request_id, prompt in zip(ids, prompts, strict=True):
        assert scheduler.get_request(request_id).output_tokens == solo(*tiny_model, prompt, max_tokens=40)


def test_groups_merge_when_the_short_rows_have_grown(tiny_model: Any, make: Make) -> None:
    long, short = tiny.chat("x" * 560), tiny.chat("y" * 160)
    scheduler = make(tiny_model, prefill_step_size=512, chunked_prefill_tokens=512)
    pairs = [(long, 150), (short, 150)]
    ids = [scheduler.add_request(prompt, max_tokens=n, temperature=0.0) for prompt, n in pairs]
    seen: list[tuple[int, ...]] = []
    while scheduler.has_requests():
        scheduler.step()
        seen.append(tuple(sorted(len(group.members) for group in scheduler.batch._groups)))
    assert (1, 1) in seen
    assert (2,) in seen[seen.index((1, 1)) :]
    for request_id, (prompt, limit) in zip(ids, pairs, strict=True):
        assert scheduler.get_request(request_id).output_tokens == solo(*tiny_model, prompt, max_tokens=limit)
