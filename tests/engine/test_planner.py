"""Which unit comes next and how large: decode and prefill alternate, prefills take turns, sizes follow cost."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cost_model import MISS_FACTOR, PATIENCE, SMALLEST_CHUNK, CostModel
from engine.planner import FIRST_IDLE_CHUNK, IDLE_FACTOR, Planner, PrefillState

A, B, C = (PrefillState(name, 1000) for name in "abc")


def planner(
    budget_ms: float = 80.0, step: int = 1024, chunk: int = 0, costs: dict[int, float] | None = None
) -> Planner:
    model = CostModel()
    for _ in range(2):  # one sample is not trusted: it may have compiled kernels
        for size, seconds in (costs or {}).items():
            model.learn(size, seconds)
    return Planner(budget_ms, step, chunk, model)


def kinds(plan: Planner, count: int, decoding: int, prefills: list[PrefillState]) -> list[str]:
    decisions = [plan.next(decoding, prefills) for _ in range(count)]
    return [f"{decision.kind} {decision.request_id}".strip() for decision in decisions if decision]


def test_nothing_to_do_is_no_unit():
    assert planner().next(0, []) is None


def test_decoding_alone_decodes_and_prefill_alone_prefills():
    assert kinds(planner(), 3, 2, []) == ["decode"] * 3
    assert kinds(planner(), 3, 0, [A]) == ["prefill a"] * 3


def test_every_prefill_unit_is_followed_by_a_decode_step():
    assert kinds(planner(), 6, 1, [A]) == ["decode", "prefill a"] * 3


def test_prefills_take_turns_and_a_newcomer_is_next():
    plan = planner()
    assert kinds(plan, 4, 0, [A, B]) == ["prefill a", "prefill b", "prefill a", "prefill b"]
    assert kinds(plan, 4, 0, [A, B, C]) == ["prefill c", "prefill a", "prefill b", "prefill c"]


def test_a_request_that_comes_again_under_its_old_name_is_a_newcomer():
    plan = planner()
    kinds(plan, 3, 0, [A, B])
    kinds(plan, 1, 0, [B])
    assert kinds(plan, 1, 0, [A, B]) == ["prefill a"]


def test_a_picture_takes_its_turn_like_a_chunk():
    picture = PrefillState("p", 500, vision=True)
    assert kinds(planner(), 4, 1, [A, picture]) == ["decode", "prefill a", "decode", "vision p"]


def test_a_unit_is_small_while_rows_decode_and_larger_alone():
    plan = planner(costs={1: 0.007, 8: 0.01, 16: 0.02, 32: 0.04, 64: 0.08, 128: 0.16, 256: 0.32, 512: 0.64, 1024: 1.28})
    assert plan.next(1, [A]).kind == "decode"
    beside = plan.next(1, [A])
    assert (beside.tokens, beside.size, beside.budget_s) == (64, 64, 0.08)
    assert not plan.budget_missed
    alone = plan.next(0, [A])
    assert (alone.tokens, alone.budget_s) == (768, 0.08 * IDLE_FACTOR)


def test_a_chunk_never_goes_past_what_remains_or_past_the_step_size():
    plan = planner(step=100)
    assert plan.next(0, [PrefillState("a", 7)]).tokens == 7
    for _ in range(20):
        decision = plan.next(0, [PrefillState("a", 5000)])
        assert decision.tokens <= 100
        plan.costs.learn(decision.tokens, 1e-6)


def test_a_configured_chunk_size_holds_while_rows_decode_only():
    plan = planner(
        chunk=17, costs={1: 0.01, 8: 0.01, 16: 0.01, 32: 0.02, 64: 0.04, 128: 0.08, 256: 0.16, 512: 0.3, 1024: 2.0}
    )
    plan.next(1, [A])
    assert plan.next(1, [A]).tokens == 17
    assert plan.next(0, [A]).tokens == 512
    small = planner(step=16, chunk=64)
    small.next(1, [A])
    assert small.next(1, [A]).tokens == 16


def test_the_first_chunk_of_an_unknown_model_is_modest():
    assert planner().next(0, [A]).tokens == FIRST_IDLE_CHUNK
    plan = planner()
    plan.next(1, [A])
    assert plan.next(1, [A]).tokens == SMALLEST_CHUNK


def test_single_tokens_are_fed_where_they_are_the_fastest_that_keeps_the_budget():
    # Seconds by size as measured with the demo model on a slow CPU.
    plan = planner(costs={1: 0.012, 8: 0.25, 16: 0.295, 32: 0.458})
    plan.next(1, [A])
    decision = plan.next(1, [A])
    assert (decision.tokens, decision.size) == (6, 1)
    assert not plan.budget_missed
    assert plan.next(1, [A]).kind == "decode"
    assert plan.next(1, [PrefillState("a", 4)]).tokens == 4


def test_where_even_a_single_token_misses_the_budget_the_best_rate_within_four_wins_and_is_told():
    costs = {1: 0.2, 8: 0.25, 16: 0.295, 32: 0.458}
    plan = planner(costs=costs)
    plan.next(1, [A])
    assert plan.next(1, [A]).tokens == 16  # 0.458 s is more than four times 80 ms
    assert plan.budget_missed
    plan = planner(budget_ms=120.0, costs=costs)
    plan.next(1, [A])
    assert plan.next(1, [A]).tokens == 32
    plan = planner(budget_ms=10.0, costs=costs)
    plan.next(1, [A])
    assert plan.next(1, [A]).tokens == 1


def forwards(plan: Planner, cost: Callable[[int], float], compiling_s: float, units: int) -> list[int]:
    """Sizes that the planner chooses where a forward of a new size compiles its kernels first."""
    sizes: list[int] = []
    for _ in range(units):
        plan.next(1, [A])
        size = plan.next(1, [A]).size
        plan.costs.learn(size, cost(size) + (0 if size in sizes else compiling_s))
        sizes.append(size)
    return sizes


def test_kernels_that_compile_at_first_do_not_keep_chunks_small():
    sizes = forwards(planner(), lambda size: 0.02 + size * 5e-5, compiling_s=2.0, units=20)
    assert sizes.index(1024) <= 14
    assert sizes[-1] == 1024


def test_what_a_new_shape_costs_once_rules_no_size_out():
    sizes = forwards(planner(), lambda size: 0.05 + size * 5e-5, compiling_s=0.015, units=16)
    assert sizes[-1] == 512  # 0.076 s, and 0.091 s the first time


def test_the_largest_size_within_the_budget_is_found():
    sizes = forwards(planner(), lambda size: 0.01 + size * 1e-4, compiling_s=0.0, units=12)
    assert sizes[-1] == 512


def test_sizes_beyond_the_budget_are_tried_a_few_times_at_most():
    sizes = forwards(planner(), lambda size: 0.001 + size * 0.005, compiling_s=0.0, units=50)
    # As on a CPU: 0.071 s for 14 tokens, 0.081 s for 16.
    assert sizes.count(14) >= 45
    assert set(sizes) == {8, 14, 16}


def test_between_powers_of_two_the_size_is_the_largest_that_keeps_the_budget():
    model = planner(costs={1: 0.012, 8: 0.04, 16: 0.092}).costs
    assert model.best_size(0.08, 1024) == 12
    assert model.best_size(0.08, 11) == 10
    model.learn(12, 0.09)
    assert model.best_size(0.08, 1024) == 10
    model.learn(10, 0.07)
    assert model.best_size(0.08, 1024) == 8, "10 tokens would take more for each"
    model.learn(12, 0.05)
    assert model.best_size(0.08, 1024) == 12


def test_a_size_between_that_missed_the_budget_is_tried_again_later():
    model = planner(costs={1: 0.012, 8: 0.04, 16: 0.092}).costs
    model.learn(12, 0.09)
    sizes = []
    for _ in range(40):
        sizes.append(model.best_size(0.08, 1024))
        model.learn(sizes[-1], {8: 0.04, 10: 0.053, 12: 0.066, 16: 0.092}[sizes[-1]])
    assert sizes[:8] == [10] * 8
    assert sizes[-1] == 12


def test_of_sizes_about_as_fast_the_larger_is_taken():
    costs = {1: 0.02, 8: 0.04, 16: 0.085, 32: 0.2}
    assert planner(costs=costs).costs.best_size(0.1, 1024) == 16


def test_a_flat_cost_near_the_budget_is_no_reason_for_small_chunks():
    # As on a GPU that takes as long to submit 8 tokens as 1,024.
    sizes = forwards(planner(), lambda size: 0.075 + size * 5e-6, compiling_s=0.5, units=18)
    assert sizes[-1] == 768  # 0.079 s


def test_single_tokens_are_not_worth_it_where_a_chunk_is_many_times_faster():
    # As on a GPU without a kernel for a long recurrence.
    plan = planner()
    sizes = forwards(plan, lambda size: 0.008 if size == 1 else 0.16 + size * 1e-4, compiling_s=0.0, units=12)
    assert sizes[-1] == 1024
    assert plan.budget_missed


def test_two_unlucky_samples_keep_chunks_small_for_a_while_only():
    plan = planner()
    for size, seconds in ((8, 0.021), (16, 0.061), (8, 0.022), (16, 0.055)):
        plan.costs.learn(size, seconds)
    sizes = forwards(plan, lambda size: 0.02 + size * 5e-5, compiling_s=0.0, units=24)
    assert sizes[0] == 8
    assert sizes[-1] == 1024


def test_a_size_that_was_slow_by_bad_luck_is_soon_tried_again():
    plan = planner()
    for size, seconds in ((64, 0.016), (64, 0.017), (128, 0.014), (128, 0.015), (256, 0.06), (256, 0.063)):
        plan.costs.learn(size, seconds)
    sizes = forwards(plan, lambda size: 0.012 + size * 2e-5, compiling_s=0.0, units=16)
    assert sizes[:7] == [128] * 7
    assert max(sizes) == 1024


def test_a_large_size_that_was_fast_vouches_for_smaller_ones():
    costs = CostModel()
    costs.learn(8, 2.0)
    costs.learn(64, 0.02)
    assert costs.predict(8) == costs.predict(32) == pytest.approx(0.02)


def test_a_cost_is_the_least_of_the_newest_samples_and_interpolated_between_sizes():
    costs = CostModel()
    assert costs.predict(64) is None
    assert costs.largest() == 0
    costs.learn(64, 2.0)
    costs.learn(64, 1.0)
    assert costs.predict(64) == pytest.approx(1.0)
    assert costs.predict(128) == costs.predict(32) == pytest.approx(1.0)  # one size tells nothing of growth
    costs.learn(50, 99.0)  # the rest of a prompt says nothing about a size
    costs.learn(2, 0.001)
    assert costs.predict(64) == pytest.approx(1.0)
    assert costs.largest() == 64
    for _ in range(4):
        costs.learn(64, 3.0)
    assert costs.predict(64) == pytest.approx(3.0)
    costs.learn(16, 1.0)
    costs.learn(16, 1.0)
    assert costs.predict(32) == pytest.approx(1.0 + 2.0 / 3)
    assert costs.predict(128) == pytest.approx(3.0 + 2.0 * 64 / 48)


def test_what_was_measured_long_ago_is_measured_again():
    costs = {1: 0.001, 8: 0.04, 16: 0.1}
    plan = planner(costs=costs)
    sizes = set()
    for _ in range(300):
        plan.next(1, [A])
        decision = plan.next(1, [A])
        sizes.add(decision.size)
        plan.costs.learn(decision.size, costs[decision.size])
    assert sizes == {1, 8, 16}


@given(
    seconds=st.lists(st.floats(1e-4, 10.0), min_size=9, max_size=9),
    budget_s=st.floats(1e-3, 10.0),
)
def test_the_chosen_size_keeps_the_budget_unless_one_within_four_is_four_times_faster(seconds, budget_s):
    sizes = [1, 8, 16, 32, 64, 128, 256, 512, 1024]
    plan = planner(budget_ms=budget_s * 1e3, costs=dict(zip(sizes, seconds, strict=True)))
    # More tokens never take less.
    costs = {1: seconds[0]} | {size: min(seconds[place:]) for place, size in enumerate(sizes) if place}
    size = plan.costs.best_size(budget_s, 1024)
    rates = {known: known / cost for known, cost in costs.items()}
    keeping = max((rate for known, rate in rates.items() if costs[known] <= budget_s), default=0.0)
    fastest = max((rate for known, rate in rates.items() if costs[known] <= MISS_FACTOR * budget_s), default=0.0)
    if keeping and PATIENCE * keeping >= fastest:
        assert plan.costs.predict(size) <= budget_s
        assert size / plan.costs.predict(size) >= 0.81 * keeping
    elif fastest:
        assert rates[size] >= 0.9 * fastest
    else:
        assert costs[size] == min(costs.values())


@given(most=st.integers(1, 4096), budget_s=st.floats(1e-3, 10.0), seconds=st.floats(1e-4, 10.0))
def test_no_chunk_is_larger_than_allowed(most, budget_s, seconds):
    plan = planner(budget_ms=budget_s * 1e3, step=most)
    for _ in range(20):
        decision = plan.next(0, [PrefillState("a", 10_000)])
        assert 1 <= decision.size <= decision.tokens <= most
        plan.costs.learn(decision.size, seconds)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=60))
def test_nobody_starves(rounds):
    """Decoding rows wait for one prefill unit at most, and a prefill for one turn of each other prefill."""
    plan = planner()
    since_decode, waited = 0, {}
    for decoding, count in rounds:
        prefills = [PrefillState(name, 1000) for name in "abcd"[:count]]
        decision = plan.next(decoding, prefills)
        since_decode = 0 if not decoding or (decision and decision.kind == "decode") else since_decode + 1
        assert since_decode <= 1
        turns = decision.request_id if decision else ""
        waited = {state.request_id: waited.get(state.request_id, 0) + bool(turns) for state in prefills}
        waited.pop(turns, None)
        assert all(turn <= 4 for turn in waited.values())
