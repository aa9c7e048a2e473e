"""What earlier turns have computed is reused by content, exactly, within bounds, never in place of something else."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_vlm.models.cache import ArraysCache, KVCache, RotatingKVCache
from PIL import Image, ImageDraw

from engine import MLLMRequest, MLLMScheduler, MLLMSchedulerConfig, device, prefill, prefix_cache
from engine.models import layers
from engine.prefill import Prefill
from engine.prefix_cache import PrefixCache
from tests.engine import families, tiny

Message = dict[str, Any]
SYSTEM: Message = {"role": "system", "content": "You answer in full sentences, and you are careful with colours."}
A, B = (96, 128, 1), (96, 128, 2)


def user(text: str, *pictures: tuple[int, int, int]) -> Message:
    parts = [{"type": "image", "image": tiny.picture(*picture)} for picture in pictures]
    return {"role": "user", "content": [*parts, {"type": "text", "text": text}]}


def finish(scheduler: MLLMScheduler) -> None:
    steps = 0
    while scheduler.has_requests() or scheduler.batch.next_unit() is not None:
        scheduler.step()
        steps += 1
        assert steps < 3000


def ask(scheduler: MLLMScheduler, messages: Sequence[Message], tokens: int = 8) -> MLLMRequest:
    request_id = scheduler.add_request(messages=messages, max_tokens=tokens, temperature=0.0)
    while scheduler.has_requests():
        scheduler.step()
    request = scheduler.get_request(request_id)
    assert request is not None
    assert request.error is None
    return request


class Warm:
    """A scheduler with caches beside one without; every answer is compared."""

    def __init__(self, make: Callable[..., MLLMScheduler], loaded: Any, **config: Any) -> None:
        self.scheduler = make(loaded, **config)
        self.cold = make(loaded, enable_prefix_cache=False, enable_vision_cache=False)
        self.cold.intake.history = self.scheduler.intake.history

    def ask(self, messages: Sequence[Message], tokens: int = 8) -> MLLMRequest:
        expected = ask(self.cold, messages, tokens)
        request = ask(self.scheduler, messages, tokens)
        assert request.output_tokens == expected.output_tokens
        assert (expected.cached_tokens, expected.cache_hit_type) == (0, None)
        assert request.cache_hit_type == ("memory" if request.cached_tokens else None)
        return request

    def turn(self, messages: list[Message], question: Message, tokens: int = 8) -> MLLMRequest:
        """Ask and put question and answer into the conversation."""
        messages.append(question)
        request = self.ask(messages, tokens)
        messages.append({"role": "assistant", "content": request.output_text})
        return request

    @property
    def stats(self) -> dict[str, Any]:
        return self.scheduler.get_stats()["memory_aware_cache"]


@pytest.fixture
def warm(make: Any, tiny_model: Any) -> Warm:
    return Warm(make, tiny_model)


# -------------------------------------------------------------------- what must be reused


def test_a_conversation_computes_each_turn_once(warm: Warm) -> None:
    chat = [SYSTEM]
    first = warm.turn(chat, user("what is in the picture?", A))
    assert first.cached_tokens == 0
    second = warm.turn(chat, user("and the colours?"))
    # Everything before it, but for the reply's last token, which nobody has fed.
    assert second.cached_tokens == first.num_prompt_tokens + first.num_output_tokens - 1
    third = warm.turn(chat, user("compare with this one", B))
    assert third.cached_tokens == second.num_prompt_tokens + second.num_output_tokens - 1
    again = warm.ask(chat[:-1])
    assert again.cached_tokens == third.num_prompt_tokens - 1  # no prefill at all
    stats = warm.stats
    assert (stats["hits"], stats["misses"], stats["hit_rate"]) == (3, 1, 0.75)
    assert stats["tokens_saved"] == second.cached_tokens + third.cached_tokens + again.cached_tokens
    assert stats["entry_count"] == 1
    prompts = [first, second, third, again]
    fed = sum(request.num_prompt_tokens - 1 - request.cached_tokens for request in prompts)
    assert warm.scheduler.get_stats()["batch_generator"]["prompt_tokens"] == fed


def test_an_edited_last_question_keeps_all_before_it(warm: Warm) -> None:
    chat = [SYSTEM]
    first = warm.turn(chat, user("what is in the picture?", A))
    warm.turn(chat, user("and the colours of it, all of them, please, in a list?"))
    edited = warm.ask([*chat[:3], user("how many corners has it got?")])
    assert edited.cached_tokens >= first.num_prompt_tokens + first.num_output_tokens - 1


def test_an_edited_first_question_keeps_system_prompt_and_picture(warm: Warm) -> None:
    first = warm.turn([SYSTEM], user("what is in the picture?", A))
    edited = warm.ask([SYSTEM, user("how many corners has it got?", A)])
    picture = 96 * 128 // 32**2
    assert edited.cached_tokens >= len(str(SYSTEM["content"])) + picture
    assert edited.cached_tokens < first.num_prompt_tokens


def test_a_fork_and_its_origin_both_go_on(warm: Warm) -> None:
    chat = [SYSTEM]
    first = warm.turn(chat, user("what is in the picture?", A))
    fork = list(chat)
    second = warm.turn(chat, user("and the colours?"))
    forked = warm.turn(fork, user("how many of them?"))
    assert forked.cached_tokens >= first.num_prompt_tokens + first.num_output_tokens - 1
    on = warm.turn(chat, user("sure?"))
    assert on.cached_tokens == second.num_prompt_tokens + second.num_output_tokens - 1
    on = warm.turn(fork, user("sure?"))
    assert on.cached_tokens == forked.num_prompt_tokens + forked.num_output_tokens - 1
    assert warm.stats["entry_count"] == 2


def test_a_long_prompt_is_stored_on_the_way(make: Any, tiny_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run, chunk = 64, 32
    monkeypatch.setattr(prefix_cache, "RUN", run)
    warm = Warm(make, tiny_model, prefill_step_size=chunk)
    scheduler, take, copied = warm.scheduler, layers.take_attention, [0]

    def counted(cache: Any, row: int, length: int, start: int, stop: int) -> Any:
        copied[-1] += stop - start
        return take(cache, row, length, start, stop)

    monkeypatch.setattr(layers, "take_attention", counted)
    chat = [SYSTEM, user("a long story " * 60)]
    request_id = scheduler.add_request(messages=chat, max_tokens=2, temperature=0.0)
    while scheduler.has_requests():
        scheduler.step()
        copied.append(0)
    request = scheduler.get_request(request_id)
    assert request is not None
    assert request.num_prompt_tokens > 8 * run
    assert sum(copied) == request.num_prompt_tokens + 1, "each position once, up to the first token of the answer"
    assert max(copied) <= run + chunk
    chat.append({"role": "assistant", "content": request.output_text})
    assert warm.turn(chat, user("and then?")).cached_tokens >= request.num_prompt_tokens


@pytest.mark.parametrize("follow_up", [True, False], ids=["goes on", "asked again"])
def test_a_prefix_is_restored_a_layer_at_a_time_where_time_is_short(
    make: Any, tiny_model: Any, monkeypatch: pytest.MonkeyPatch, follow_up: bool
) -> None:
    warm = Warm(make, tiny_model)
    chat = [SYSTEM, user("what is in the picture?", A)]
    if follow_up:
        warm.turn(chat, user("and what else?"))
        chat.append(user("sure?"))
    else:
        warm.ask(chat)
    expected = ask(warm.cold, chat)
    scheduler = warm.scheduler
    beside = scheduler.get_request(scheduler.add_request("count", max_tokens=200, temperature=0.0))
    assert beside is not None
    while not beside.output_tokens:
        scheduler.step()
    clock = itertools.count()
    monkeypatch.setattr(prefill, "perf_counter", lambda: next(clock))
    before, restore = [], Prefill.restore

    def noted(self: Prefill, budget_s: float) -> None:
        before.append(beside.num_output_tokens)
        restore(self, budget_s)

    monkeypatch.setattr(Prefill, "restore", noted)
    request = scheduler.get_request(scheduler.add_request(messages=chat, max_tokens=8, temperature=0.0))
    assert request is not None
    while not request.status.finished:
        scheduler.step()
    assert request.output_tokens == expected.output_tokens
    assert request.cached_tokens
    assert len(before) > 2
    assert before == sorted(set(before)), "the other row goes on between any two layers"


def test_the_same_words_with_another_picture_reuse_nothing_from_the_picture_on(warm: Warm) -> None:
    chat = [SYSTEM]
    warm.turn(chat, user("what is in the picture?", A))
    other = warm.ask([SYSTEM, user("what is in the picture?", B)])
    after = ["<|vision_end|>", *"what is in the picture?", "<|im_end|>", "\n", "<|im_start|>", *"assistant\n"]
    before = other.num_prompt_tokens - len(after) - 96 * 128 // 32**2
    assert before - 10 <= other.cached_tokens <= before
    chat = [SYSTEM]
    warm.turn(chat, user("first this, then that", A, B))
    swapped = warm.ask([SYSTEM, user("first this, then that", B, A)])
    # The first picture is the one asked about before, but not what follows it.
    assert swapped.cached_tokens <= before + 96 * 128 // 32**2 + 2


def test_other_words_share_the_system_prompt(warm: Warm) -> None:
    warm.ask([SYSTEM, user("count to ten")])
    other = warm.ask([SYSTEM, user("what is the capital of France?")])
    assert other.cached_tokens >= len(str(SYSTEM["content"]))


def test_a_stopped_answer_goes_on_where_it_was(warm: Warm) -> None:
    chat = [SYSTEM, user("what is in the picture?", A)]
    scheduler = warm.scheduler
    request_id = scheduler.add_request(messages=chat, max_tokens=200, temperature=0.0)
    request = scheduler.get_request(request_id)
    assert request is not None
    while request.num_output_tokens < 9:
        scheduler.step()
    assert scheduler.abort_request(request_id)
    while scheduler.has_requests():
        scheduler.step()
    chat.append({"role": "assistant", "content": request.output_text})
    on = warm.turn(chat, user("go on"))
    assert on.cached_tokens >= request.num_prompt_tokens + request.num_output_tokens - 1


def test_rows_that_leave_a_batch_are_stored_each_as_its_own(warm: Warm) -> None:
    asked = {
        "text": ([SYSTEM, user("tell me something about the moon")], 9),
        "picture": ([SYSTEM, user("what is this?", A)], 5),
        "pair": ([SYSTEM, user("which one?", A, B)], 14),
    }
    for name, (messages, tokens) in asked.items():
        warm.scheduler.add_request(messages=messages, max_tokens=tokens, temperature=0.0, request_id=name)
    finish(warm.scheduler)
    for name, (messages, _) in asked.items():
        request = warm.scheduler.get_request(name)
        assert request is not None
        messages.append({"role": "assistant", "content": request.output_text})
        on = warm.turn(messages, user("sure?"))
        assert on.cached_tokens == request.num_prompt_tokens + request.num_output_tokens - 1, name


def test_a_stop_token_in_flight_is_part_of_what_was_consumed(make: Any) -> None:
    """Recurrent state cannot step back: the key must say that the stop token has been fed."""
    loaded = tiny.hybrid()
    warm = Warm(make, loaded)
    probe = ask(warm.cold, [SYSTEM, user("hello")], 6)
    stop = probe.output_tokens[3]
    cut = probe.output_tokens.index(stop) + 1
    for scheduler in (warm.scheduler, warm.cold):
        scheduler.add_request(
            messages=[SYSTEM, user("hello")],
            max_tokens=50,
            temperature=0.0,
            stop_token_ids=(stop,),
            request_id="stopped",
        )
        finish(scheduler)
    request = warm.scheduler.get_request("stopped")
    assert request is not None
    assert request.output_tokens == probe.output_tokens[:cut]
    ends = [node.end for node in warm.scheduler.caches.prefix.tree._entries.values()]
    assert max(ends) == request.num_prompt_tokens + cut


# -------------------------------------------------------------------- bounds


def conversations(warm: Warm, count: int) -> None:
    for number in range(count):
        warm.ask([user(f"{number}: tell me something else about the number {number}, at some length")], 2)


def test_bytes_are_bounded_and_the_oldest_conversation_goes_first(make: Any, tiny_model: Any) -> None:
    warm = Warm(make, tiny_model, prefix_cache_memory_mb=1)
    first = [SYSTEM, user("what is in the picture?", A, B)]
    warm.ask(first, 2)
    for number in range(12):
        warm.ask([user(f"{number} " * 90)], 2)
        assert warm.scheduler.caches.prefix.tree.nbytes <= 1_000_000
    stats = warm.stats
    assert stats["evictions"] > 0
    assert (stats["max_memory_mb"], stats["current_memory_mb"] <= 1.0) == (1.0, True)
    assert stats["memory_utilization"] == pytest.approx(stats["current_memory_mb"])
    assert warm.ask([user("11 " * 90)], 2).cached_tokens > 0
    assert warm.ask(first, 2).cached_tokens == 0


def test_the_sum_of_both_caches_is_bounded(make: Any) -> None:
    warm = Warm(make, tiny.dense(), cache_memory_mb=1)
    for seed in range(6):
        warm.ask([user("what is it? " * 20, (160, 160, seed))], 2)
        caches = warm.scheduler.caches
        assert caches.vision.nbytes + caches.prefix.tree.nbytes <= 1_000_000
    stats = warm.scheduler.get_stats()
    held = stats["vision_embedding_cache"]["max_memory_mb"] + stats["memory_aware_cache"]["max_memory_mb"]
    assert held == pytest.approx(1.0)


@pytest.mark.parametrize("by_bytes", [True, False])
def test_conversations_are_bounded_in_number(make: Any, by_bytes: bool) -> None:
    warm = Warm(make, tiny.hybrid(), prefix_cache_entries=2, use_memory_aware_cache=by_bytes)
    conversations(warm, 4)
    assert warm.stats["entry_count"] == 2
    assert (warm.stats["max_memory_mb"] > 0) is by_bytes
    assert warm.scheduler.apply_config(MLLMSchedulerConfig(prefix_cache_entries=1)) == set()
    assert warm.stats["entry_count"] == 1


def test_without_a_byte_bound_entries_alone_decide(make: Any) -> None:
    warm = Warm(make, tiny.dense(), use_memory_aware_cache=False, prefix_cache_memory_mb=0)
    conversations(warm, 3)
    assert warm.stats["entry_count"] == 3


def test_what_a_running_request_goes_on_from_stays(make: Any) -> None:
    warm = Warm(make, tiny.dense(), prefix_cache_entries=2)
    chat = [SYSTEM]
    first = warm.turn(chat, user("what is in the picture?", A))
    scheduler = warm.scheduler
    running = scheduler.add_request(messages=[*chat, user("and?")], max_tokens=400, temperature=0.0)
    for number in range(3):
        other = scheduler.add_request(messages=[user(f"{number}: something long enough to be stored, surely")])
        while other in scheduler.running or scheduler.get_num_waiting():
            scheduler.step()
            other_request = scheduler.get_request(other)
            assert other_request is not None
            if other_request.num_output_tokens > 2:
                scheduler.abort_request(other)
    assert running in scheduler.running
    again = ask(scheduler, chat[:2], 2)
    assert again.cached_tokens >= first.num_prompt_tokens - 1
    scheduler.abort_request(running)
    finish(scheduler)
    assert scheduler.caches.prefix._active == {}


def test_off_retains_nothing(make: Any, tiny_model: Any) -> None:
    scheduler = make(tiny_model, enable_prefix_cache=False, enable_vision_cache=False)
    for seed in range(5):
        ask(scheduler, [SYSTEM, user("what?", (64, 64, seed))])
    stats = scheduler.get_stats()
    assert not any(stats["memory_aware_cache"].values())
    assert scheduler.caches.prefix.tree.nbytes == scheduler.caches.vision.nbytes == 0
    assert scheduler.clear_runtime_caches() == {"vision_cache": False, "prefix_cache": False}


def test_switching_off_frees_at_once_and_on_starts_anew(make: Any) -> None:
    warm = Warm(make, tiny.dense())
    conversations(warm, 2)
    assert warm.scheduler.apply_config(MLLMSchedulerConfig(enable_prefix_cache=False)) == set()
    assert warm.scheduler.caches.prefix.tree.nbytes == 0
    conversations(warm, 1)
    assert warm.stats["entry_count"] == 0
    warm.scheduler.apply_config(MLLMSchedulerConfig())
    conversations(warm, 2)
    assert warm.stats["entry_count"] == 2


def test_clearing_while_a_request_runs_leaves_it_alone(warm: Warm) -> None:
    chat = [SYSTEM]
    warm.turn(chat, user("what is in the picture?", A))
    chat.append(user("and the colours?"))
    expected = ask(warm.cold, chat, 12)
    request_id = warm.scheduler.add_request(messages=chat, max_tokens=12, temperature=0.0)
    request = warm.scheduler.get_request(request_id)
    assert request is not None
    while request.num_output_tokens < 3:
        warm.scheduler.step()
    assert warm.scheduler.clear_runtime_caches() == {"vision_cache": True, "prefix_cache": True}
    assert warm.stats["entry_count"] == warm.stats["current_memory_mb"] == 0
    finish(warm.scheduler)
    assert request.output_tokens == expected.output_tokens
    assert warm.stats["entry_count"] == 1


def test_idle_entries_give_way_and_the_wanted_ones_last(make: Any) -> None:
    warm = Warm(make, tiny.dense())
    wanted = [SYSTEM, user("what is in the picture?", A)]
    warm.ask(wanted, 2)
    conversations(warm, 2)
    prefix = warm.scheduler.caches.prefix
    scheduler = warm.scheduler
    scheduler.add_request(messages=wanted, request_id="wanted")
    scheduler.intake.wait()
    scheduler._collect_prepared()
    key = scheduler._ready["wanted"].key
    before = prefix.tree.nbytes
    freed = prefix.evict(1, key)
    assert 0 < freed == before - prefix.tree.nbytes
    match = prefix.tree.find(key)
    assert match is not None
    assert match.length >= len(key) - 1
    assert prefix.evict(1 << 40, key) == before - freed
    assert prefix.tree.nbytes == 0
    scheduler.abort_request("wanted")
    finish(scheduler)


def test_many_short_chats_do_not_pile_up(make: Any, tiny_model: Any) -> None:
    scheduler = make(tiny_model, prefix_cache_entries=4)

    def held() -> int:
        finish(scheduler)
        device.home().run_here(mx.clear_cache)
        return mx.get_active_memory()

    for number in range(12):
        ask(scheduler, [user(f"{number:03d} is a number")], 2)
    before = held()
    for number in range(100, 130):
        ask(scheduler, [user(f"{number:03d} is a number")], 2)
    assert held() - before <= 30 * 1024
    assert scheduler.get_stats()["memory_aware_cache"]["entry_count"] == 4


# -------------------------------------------------------------------- failures


@pytest.mark.parametrize("layer", [0, 1])
def test_a_prefix_that_cannot_be_restored_is_computed(
    make: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, layer: int
) -> None:
    warm = Warm(make, tiny.dense())
    chat = [SYSTEM]
    warm.turn(chat, user("what is in the picture?", A))
    chat.append(user("and?"))
    expected = ask(warm.cold, chat)

    put, filled = layers.put_attention, []

    def fail(*args: Any) -> None:
        if len(filled) == layer:
            raise RuntimeError("no memory")
        filled.append(args)
        put(*args)

    monkeypatch.setattr(layers, "put_attention", fail)
    with caplog.at_level(logging.ERROR, "engine.prefill"):
        request = ask(warm.scheduler, chat)
    assert (request.output_tokens, request.cached_tokens) == (expected.output_tokens, 0)
    assert request.cache_hit_type is None
    assert warm.stats["tokens_saved"] == 0
    assert "could not be used" in caplog.text


def test_a_state_that_cannot_be_stored_costs_only_the_entry(
    make: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    warm = Warm(make, tiny.dense())

    def fail(*_: Any) -> None:
        raise RuntimeError("no memory")

    monkeypatch.setattr(layers, "take_attention", fail)
    with caplog.at_level(logging.ERROR, "engine.prefix_cache"):
        warm.ask([user("hello there")])
    assert "could not be kept" in caplog.text
    assert warm.stats["entry_count"] == 0


# -------------------------------------------------------------------- quantised storage


@pytest.mark.parametrize(("bits", "share"), [(8, 0.36), (4, 0.24)])
def test_stored_prefixes_shrink_and_running_ones_stay_exact(make: Any, bits: int, share: float) -> None:
    plain = Warm(make, tiny.dense())
    packed = make(
        tiny.dense(),
        kv_cache_quantization=True,
        kv_cache_quantization_bits=bits,
        kv_cache_quantization_group_size=32,
    )
    packed.intake.history = plain.scheduler.intake.history
    chat = [SYSTEM, user("what is in the picture?", A)]
    expected = plain.ask(chat)
    request = ask(packed, chat)
    assert request.output_tokens == expected.output_tokens
    ratio = packed.caches.prefix.tree.nbytes / plain.scheduler.caches.prefix.tree.nbytes
    assert ratio <= share
    on = ask(packed, [*chat, {"role": "assistant", "content": request.output_text}, user("and?")])
    assert on.cached_tokens == request.num_prompt_tokens + request.num_output_tokens - 1


@pytest.mark.parametrize(("bits", "error"), [(8, 0.01), (4, 0.12)])
def test_what_is_packed_comes_back_as_exactly_as_its_bits_allow(bits: int, error: float) -> None:
    def run() -> tuple[float, set[str]]:
        values = np.random.default_rng(0).normal(size=(1, 2, 40, 64)).astype(np.float32)
        codec = layers.Codec(bits, 32)
        packed = codec.pack({"0.k": mx.array(values), "0.v": mx.array(values[..., :40])})
        back = codec.unpack(packed)
        assert np.array_equal(np.array(back["0.v"]), values[..., :40])  # does not divide: plain
        return float(np.abs(np.array(back["0.k"]) - values).mean()), set(back)

    distance, names = device.home().run_here(run)
    assert names == {"0.k", "0.v"}
    assert 0 < distance < error


@pytest.mark.parametrize("size", [32, 64, 128])
def test_so_many_values_share_a_scale_as_are_configured(make: Any, size: int) -> None:
    scheduler = make(tiny.hybrid(), kv_cache_quantization=True, kv_cache_quantization_group_size=size)
    ask(scheduler, [user("hello there, whoever you are")])
    finish(scheduler)
    runs = [entry.data for entry in scheduler.caches.prefix.tree._entries if hasattr(entry.data, "codec")]
    assert {run.codec.group_size for run in runs} == {size}
    packed = {name for run in runs for name in run.arrays if name.endswith(".packed")}
    assert bool(packed) is (64 % size == 0)  # heads of 64 values: a larger group does not divide them, and stays plain
    scales = [run.arrays[name.replace(".packed", ".scales")] for run in runs for name in run.arrays if name in packed]
    assert {array.shape[-1] for array in scales} == ({64 // size} if packed else set())


def test_changing_how_prefixes_are_packed_starts_anew(make: Any) -> None:
    """What was rounded once must not come back after the switch is off again."""
    warm = Warm(make, tiny.dense())
    packed = MLLMSchedulerConfig(kv_cache_quantization=True, kv_cache_quantization_group_size=32)
    chat = [SYSTEM, user("what is in the picture?", A)]
    for config, bits in ((MLLMSchedulerConfig(), 0), (packed, 8), (MLLMSchedulerConfig(), 0)):
        assert warm.scheduler.apply_config(config) == set()
        request = warm.ask(chat)
        assert request.cached_tokens == 0
        finish(warm.scheduler)
        runs = [entry.data for entry in warm.scheduler.caches.prefix.tree._entries]
        assert {run.codec.bits for run in runs} == {bits}
    assert ask(warm.scheduler, chat).cached_tokens == request.num_prompt_tokens - 1


# -------------------------------------------------------------------- layers


def test_a_sliding_window_comes_back_whole_and_shares_no_buffer() -> None:
    def run() -> None:
        def feed(cache: Any, start: int, count: int) -> list[Any]:
            out = []
            for number in range(start, start + count):
                token = mx.full((1, 2, 1, 8), float(number))
                out.append([np.array(array) for array in cache.update_and_fetch(token, token)])
            return out

        live = RotatingKVCache(max_size=16, keep=0)
        feed(live, 0, 37)
        state = layers.take_state([live], 0)
        mx.eval(state.arrays)
        expected = feed(live, 37, 20)
        for _ in range(2):  # the first use must not spoil the second
            fresh = RotatingKVCache(max_size=16, keep=0)
            layers.put_state([fresh], state)
            assert fresh.offset == 37
            for one, other in zip(feed(fresh, 37, 20), expected, strict=True):
                assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))

    device.home().run_here(run)


def test_a_window_far_shorter_than_the_chat_is_gone_on_from_exactly(make: Any) -> None:
    """The same again, another last word, another turn, a fork: on layers that see 24 tokens back."""
    warm = Warm(make, families.gemma_3())
    question = user("Tell me about the sea, the wind and one small boat that could not find its harbour.", A)
    chat = [SYSTEM]
    first = warm.turn(chat, question, 40)
    again = warm.ask([SYSTEM, question], 40)
    assert again.cached_tokens == first.num_prompt_tokens - 1
    assert warm.ask(
        [SYSTEM, user("Tell me about the sea, the wind and one small boat that could not find its way.", A)]
    )
    second = warm.turn(chat, user("And its crew?"))
    assert second.cached_tokens >= first.num_prompt_tokens
    warm.ask([*chat[:3], user("And its captain?")])
    warm.ask([*chat, user("Sure?", B)])


def test_any_number_of_recurrent_state_arrays_is_kept() -> None:
    def run() -> None:
        live = ArraysCache(4)
        live.cache = [mx.full((1, number + 1), float(number)) for number in range(4)]
        state = layers.take_state([live], 0)
        fresh = ArraysCache(4)
        layers.put_state([fresh], state)
        assert [np.array(a).tolist() for a in fresh.cache] == [np.array(a).tolist() for a in live.cache]

    device.home().run_here(run)


def test_a_stored_run_does_not_keep_the_live_buffers_alive() -> None:
    def run() -> tuple[int, int]:
        live = KVCache()
        live.update_and_fetch(mx.zeros((1, 4, 3000, 64)), mx.zeros((1, 4, 3000, 64)))
        mx.eval(live.keys, live.values)
        taken = layers.take_attention([live], 0, 3000, 0, 100)
        mx.eval(taken)
        before = mx.get_active_memory()
        size = live.nbytes
        del live
        return before - mx.get_active_memory(), size

    freed, size = device.home().run_here(run)
    assert freed == size


def test_layers_of_another_length_than_said_are_refused() -> None:
    def run() -> None:
        live = KVCache()
        live.update_and_fetch(mx.zeros((1, 1, 5, 8)), mx.zeros((1, 1, 5, 8)))
        with pytest.raises(ValueError, match="holds 5 positions, not 4"):
            layers.take_attention([live], 0, 4, 0, 4)

    device.home().run_here(run)


def test_a_model_of_attention_only_has_no_state() -> None:
    assert not PrefixCache(lambda: [KVCache()]).stateful
    assert PrefixCache(lambda: [KVCache(), ArraysCache(2)]).stateful


# -------------------------------------------------------------------- the embedded model


def shapes(size: int) -> Image.Image:
    picture = Image.new("RGB", (size, size), (252, 252, 252))
    draw = ImageDraw.Draw(picture)
    draw.ellipse((size // 8, size // 4, size // 2, size * 5 // 8), fill=(220, 30, 30))
    return picture


def time_to_first_token(request: MLLMRequest) -> float:
    assert request.first_token_time is not None
    return request.first_token_time - request.arrival_time


def test_a_follow_up_about_a_picture_starts_in_a_quarter_of_the_time(make: Any, pocket: Any) -> None:
    question = {"role": "user", "content": [{"type": "image", "image": shapes(448)}, {"type": "text", "text": "Hi"}]}
    scheduler, cold = make(pocket), make(pocket, enable_prefix_cache=False, enable_vision_cache=False)
    ask(cold, [user("Hello.")], 4)  # warms the model
    first = ask(scheduler, [question], 10)
    chat = [question, {"role": "assistant", "content": first.output_text}, user("What colour is the circle?")]
    second = ask(scheduler, chat, 4)
    cold.intake.history = scheduler.intake.history
    expected = ask(cold, chat, 4)
    assert second.output_tokens == expected.output_tokens
    reused = second.cached_tokens / (first.num_prompt_tokens + first.num_output_tokens)
    ratio = time_to_first_token(second) / time_to_first_token(expected)
    assert reused >= 0.95
    assert ratio <= 0.25


def test_the_embedded_model_answers_alike_from_eight_bits(make: Any, pocket: Any) -> None:
    plain, packed = make(pocket), make(pocket, kv_cache_quantization=True, kv_cache_quantization_group_size=64)
    packed.intake.history = plain.intake.history
    chat: list[Message] = [{"role": "user", "content": "What is the capital of France?"}]
    for question in ("What is the capital of Japan?", "Count to 30.", "Thank you."):
        expected, request = ask(plain, chat, 24), ask(packed, chat, 24)
        assert request.output_tokens == expected.output_tokens
        chat += [{"role": "assistant", "content": request.output_text}, {"role": "user", "content": question}]
    assert request.cached_tokens > 0
    assert packed.caches.prefix.tree.nbytes < plain.caches.prefix.tree.nbytes


@pytest.mark.parametrize("lend_stream", [True, False])
def test_chats_on_the_loop_go_on_from_their_replies(make: Any, run: Any, tiny_model: Any, lend_stream: bool) -> None:
    """Decode steps that follow each other on the helper thread must not feed anything after a stop token."""
    scheduler = make(tiny_model, lend_stream=lend_stream)
    cold = make(tiny_model, enable_prefix_cache=False, enable_vision_cache=False)
    cold.intake.history = scheduler.intake.history
    stop = tuple(range(0, 200, 7))

    async def talk(number: int) -> list[tuple[list[Message], list[int]]]:
        chat, turns, stored = [SYSTEM], [], 0
        for turn in range(3):
            chat.append(user(f"{number}: and the {turn}. question?", *([A] if turn == number else [])))
            output = await scheduler.generate(messages=chat, max_tokens=40, temperature=0.0, stop_token_ids=stop)
            assert output.error is None
            assert output.cached_tokens >= stored
            stored = output.prompt_tokens - 1
            turns.append((list(chat), list(output.output_token_ids)))
            chat.append({"role": "assistant", "content": output.output_text})
        return turns

    async def work() -> list[tuple[list[Message], list[int]]]:
        await scheduler.start()
        together = await asyncio.gather(*(talk(number) for number in range(3)))
        await scheduler.stop()
        return [turn for turns in together for turn in turns]

    turns = run(work())
    assert any(len(tokens) < 40 for _, tokens in turns)
    for chat, tokens in turns:
        cold.add_request(messages=chat, max_tokens=40, temperature=0.0, stop_token_ids=stop, request_id="cold")
        finish(cold)
        expected = cold.remove_finished_request("cold")
        assert expected is not None
        assert tokens == expected.output_tokens


def test_a_reply_that_ended_by_itself_is_gone_on_from_as_a_whole(make: Any, run: Any, pocket: Any) -> None:
    scheduler = make(pocket)
    chat: list[Message] = []

    async def work() -> None:
        await scheduler.start()
        stored = 0
        for question in ("Hello.", "What is the capital of France?", "Thank you."):
            chat.append(user(question))
            output = await scheduler.generate(messages=chat, max_tokens=60, temperature=0.0)
            assert output.finish_reason == "stop"
            assert output.cached_tokens == stored
            stored = output.prompt_tokens + output.completion_tokens
            chat.append({"role": "assistant", "content": output.output_text})
        await scheduler.stop()

    run(work())
