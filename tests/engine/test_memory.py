"""Pricing and admission, on machines of several sizes and in a running scheduler."""

from __future__ import annotations

import re
from typing import Any

import mlx.core as mx
import pytest

from engine import device
from engine.memory import GB, Activations, CacheCost, Demand, LayerCost, Machine, Pricing, judge, never_fits
from engine.models.port import Features
from tests.engine import families, tiny
from tests.engine.conftest import ROOT, Make, Run

# A 4B model in 4 bits: 36 layers of 8 KV heads of 128 in half precision, 147 kB a token.
_FOUR_B = Pricing(CacheCost((LayerCost(per_token=147_456.0, step=256),)), 1024, Activations(500_000.0))
_WEIGHTS = int(2.6 * GB)


def _verdict(machine_gb: float, tokens: int, running: int = 0, available_gb: float | None = None) -> int:
    total = int(machine_gb * GB)
    others = [Demand(tokens)] * running
    held = sum(map(_FOUR_B.lasting, others))
    return judge(
        _FOUR_B,
        Demand(tokens),
        others,
        active=_WEIGHTS + held,
        held=held,
        budget=Machine(total, total).budget(),
        available=int((available_gb or machine_gb) * GB) - _WEIGHTS - held,
    ).shortfall


@pytest.mark.parametrize(
    ("machine_gb", "tokens", "rows"),
    [(8, 8_192, 3), (16, 8_192, 9), (24, 32_768, 3), (64, 32_768, 11)],
)
def test_a_machine_takes_as_many_chats_as_fit_and_no_more(machine_gb: float, tokens: int, rows: int) -> None:
    assert _verdict(machine_gb, tokens, rows - 1) <= 0
    assert _verdict(machine_gb, tokens, rows) > 0


def test_other_programs_count_even_when_the_budget_would_allow_it() -> None:
    assert _verdict(24, 8_192) == 0
    assert _verdict(24, 8_192, available_gb=_WEIGHTS / GB + 1.0) > 0


def test_a_budget_leaves_the_system_its_share_and_the_users_value_wins() -> None:
    for total in (8, 16, 24, 64, 512):
        machine = Machine(int(total * GB), int(total * GB))
        assert total * GB - machine.budget() >= 0.8 * GB
    assert Machine(int(8 * GB), 0).budget(int(30 * GB)) == 30 * GB


def test_no_limit_of_the_device_is_moved() -> None:
    """A wired limit raised by a program has brought whole systems down; a buffer cache is emptied, not capped."""
    moved = re.compile(r"\bset_(wired|memory|cache)_limit\b")
    sources = [path for path in (ROOT / "engine").rglob("*.py") if moved.search(path.read_text("utf-8"))]
    assert not sources


def test_running_rows_are_priced_at_their_full_length() -> None:
    growing = [Demand(32_768)]
    budget = _WEIGHTS + _FOUR_B.lasting(growing[0]) + int(1.5 * GB)
    young = judge(_FOUR_B, Demand(16_384), growing, active=_WEIGHTS, held=0, budget=budget, available=budget * 2)
    assert young.shortfall > 0
    assert "Waiting for memory" in young.reason


def test_what_stays_free_is_what_is_left_when_everybody_has_grown() -> None:
    growing, need = [Demand(8_192)], _FOUR_B.lasting(Demand(4_096)) + _FOUR_B.passing(Demand(8_192))
    budget = _WEIGHTS + _FOUR_B.lasting(growing[0]) + need + 12_345
    found = judge(_FOUR_B, Demand(4_096), growing, active=_WEIGHTS, held=0, budget=budget, available=budget * 2)
    assert (found.shortfall, found.spare) == (0, 12_345)


def test_sliding_layers_stop_growing_and_recurrent_ones_never_do() -> None:
    sliding, recurrent = LayerCost(per_token=100, step=1, window=512), LayerCost(fixed=4_096)
    cost = CacheCost((sliding, recurrent))
    assert cost.bytes(10_000, chunk=64) == 100 * (511 + 64) + 4_096
    assert cost.bytes(100, chunk=64) == 100 * 100 + 4_096


def test_activations_use_the_guess_until_something_was_measured() -> None:
    activations = Activations(100.0)
    assert activations.bytes(10) == 1_000
    activations.learn(10, 50)
    activations.learn(20, 60)
    assert activations.bytes(10) == 50


def test_a_conversation_too_large_for_the_machine_is_told_with_numbers() -> None:
    sentence = never_fits(_FOUR_B, Demand(200_000), int(4 * GB))
    assert "30" in sentence
    assert "4 GB" in sentence


def test_priced_caches_are_what_the_model_allocates_within_one_growth_step(tiny_model: Any, make: Make) -> None:
    scheduler = make(tiny_model)
    request_id = scheduler.add_request(tiny.chat("word " * 60), max_tokens=24, temperature=0.0)
    while scheduler.get_request(request_id).num_output_tokens < 20:
        scheduler.step()
    (group,) = scheduler.batch._groups
    real = sum(layer.nbytes for layer in group._cache)
    (row,) = group.rows
    assert scheduler.pricing is not None
    cost = scheduler.pricing.cache
    one_step = sum(layer.per_token * layer.step for layer in cost.layers)
    assert 0 <= cost.bytes(row.length - 1) - real < one_step


def test_a_window_grows_no_further_however_long_the_answer(make: Make) -> None:
    scheduler, sizes = make(families.gemma_3()), []
    for name in ("one", "two"):
        scheduler.add_request(families.chat("tell me"), request_id=name, max_tokens=300, temperature=0.0)
    while scheduler.get_request("one").num_output_tokens < 250:
        scheduler.step()
        if scheduler.get_request("one").num_output_tokens > 50:
            (group,) = scheduler.batch._groups
            sizes.append(sum(layer.nbytes for layer in group._cache if hasattr(layer, "max_size")))
    assert 0 < max(sizes) == min(sizes)


def test_a_request_waits_for_memory_with_a_reason_and_starts_when_there_is_some(make: Make) -> None:
    scheduler = make(tiny.hybrid())
    first = scheduler.add_request(tiny.chat("one"), max_tokens=1_000, temperature=0.0)
    scheduler.step()
    assert scheduler.pricing is not None
    row = scheduler.batch.rows[0]
    room = 1.5 * scheduler.pricing.lasting(row.demand) + scheduler.pricing.passing(row.demand)
    scheduler.apply_config(_limited(scheduler.config, mx.get_active_memory() + int(room)))
    second = scheduler.add_request(tiny.chat("two"), max_tokens=1_000, temperature=0.0)
    while not scheduler.get_request(second).wait_reason:
        scheduler.step()
    info = {entry["request_id"]: entry for entry in scheduler.get_running_requests_info()}
    assert info[second]["status"] == "waiting"
    assert info[second]["detail"].startswith("Waiting for memory: it needs")
    scheduler.abort_request(first)
    while scheduler.get_request(second).num_output_tokens < 3:
        scheduler.step()
    assert scheduler.get_request(second).wait_reason == ""


def test_a_request_that_can_never_fit_ends_with_the_numbers(make: Make) -> None:
    scheduler = make(tiny.hybrid(), memory_limit_gb=0.001)
    request_id = scheduler.add_request(tiny.chat("much"), max_tokens=5_000, temperature=0.0)
    while not scheduler.get_request(request_id).status.finished:
        scheduler.step()
    request = scheduler.get_request(request_id)
    assert request.finish_reason == "error"
    assert "needs" in request.error
    assert "MB" in request.error


def test_idle_cache_entries_go_before_a_request_waits(make: Make) -> None:
    scheduler = make(tiny.hybrid())
    scheduler.caches.open()
    embeddings = device.home().run_here(lambda: _evaluated(mx.zeros((1_000, 12_500))))
    scheduler.caches.vision.put("seen", Features(embeddings))
    del embeddings
    idle = scheduler.caches.vision.nbytes
    assert idle == 50_000_000
    scheduler.step()
    second = scheduler.add_request(tiny.chat("two"), max_tokens=2, temperature=0.0)
    scheduler.intake.wait()
    assert scheduler.pricing is not None
    demand = Demand(len(tiny.chat("two")) + 2)
    need = scheduler.pricing.lasting(demand) + scheduler.pricing.passing(demand)
    scheduler.apply_config(_limited(scheduler.config, mx.get_active_memory() + need - idle // 2))
    while not scheduler.get_request(second).status.finished:
        scheduler.step()
    assert scheduler.get_request(second).finish_reason == "length"
    assert scheduler.caches.vision.nbytes == 0


def test_the_budget_recovers_by_itself_after_a_spike(make: Make, run: Run[Any]) -> None:
    scheduler = make(tiny.hybrid(), memory_limit_gb=0.001)

    async def ask() -> list[str | None]:
        await scheduler.start()
        refused = await scheduler.generate(tiny.chat("now"), max_tokens=5_000, temperature=0.0)
        scheduler.apply_config(_limited(scheduler.config, 10**10))
        answered = await scheduler.generate(tiny.chat("later"), max_tokens=3, temperature=0.0)
        await scheduler.stop()
        return [refused.finish_reason, answered.finish_reason]

    assert run(ask()) == ["error", "length"]


def _evaluated(array: mx.array) -> mx.array:
    mx.eval(array)
    return array


def _limited(config: Any, limit_bytes: int) -> Any:
    import dataclasses

    return dataclasses.replace(config, memory_limit_gb=max(limit_bytes / 1e9, 0.001))
