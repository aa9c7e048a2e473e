"""The scheduler's face: adding, aborting, stepping, streaming, starting and stopping, and figures that add up."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import threading
from collections.abc import Callable
from concurrent.futures import wait
from itertools import pairwise
from typing import Any

import mlx.core as mx
import pytest

import engine
from engine import (
    EngineError,
    MLLMScheduler,
    MLLMSchedulerConfig,
    RequestOutput,
    RequestRejected,
    RequestStatus,
    device,
)
from tests.engine import scripted, tiny

PHASES = {"queued", "preparing", "vision", "prefill", "generation"}


@pytest.fixture
def scheduler(make: Callable[..., MLLMScheduler], monkeypatch: pytest.MonkeyPatch) -> MLLMScheduler:
    """A scheduler on a port without a model: instant, and its answers are known."""
    return make(scripted.loaded(monkeypatch))


def ids(scheduler: MLLMScheduler, prompt: str) -> list[int]:
    return list(scheduler.port.tokenizer.encode(prompt))


def endless(scheduler: MLLMScheduler) -> str:
    """A prompt whose answer ends only by its limit."""
    scheduler.port.stop_ids = frozenset()
    return "go on"


def finish(scheduler: MLLMScheduler) -> list[RequestOutput]:
    outputs: list[RequestOutput] = []
    while scheduler.has_requests():
        outputs += scheduler.step().outputs
    return outputs


async def read(scheduler: MLLMScheduler, request_id: str) -> list[RequestOutput]:
    return [output async for output in scheduler.stream_outputs(request_id)]


async def until(condition: Callable[[], Any]) -> None:
    while not condition():  # noqa: ASYNC110 - the condition is any state, not one that announces itself
        await asyncio.sleep(0)


# -------------------------------------------------------------------- adding


def test_a_request_gets_the_id_it_asks_for_or_a_fresh_one(scheduler):
    assert scheduler.add_request("a", request_id="mine") == "mine"
    fresh = {scheduler.add_request("a"), scheduler.add_request("a")}
    assert len(fresh | {"mine"}) == 3
    assert scheduler.get_num_waiting() == 3
    assert scheduler.get_request("mine").sampling_params == engine.SamplingParams()


def test_an_id_is_refused_while_it_is_taken(scheduler):
    scheduler.add_request("a", request_id="x", max_tokens=1)
    with pytest.raises(RequestRejected, match="already a request with the id “x”"):
        scheduler.add_request("b", request_id="x")
    finish(scheduler)
    with pytest.raises(RequestRejected):
        scheduler.add_request("b", request_id="x")
    scheduler.remove_finished_request("x")
    scheduler.add_request("b", request_id="x")


def test_an_unknown_keyword_is_a_type_error(scheduler):
    with pytest.raises(TypeError, match="tempreature"):
        scheduler.add_request("a", tempreature=0.3)
    assert not scheduler.has_requests()


@pytest.mark.parametrize(
    "bad",
    [
        {"max_tokens": 0},
        {"max_tokens": 1.5},
        {"temperature": -0.1},
        {"temperature": float("nan")},
        {"top_p": 1.1},
        {"top_k": -1},
        {"top_k": 2.5},
        {"min_p": 2},
        {"presence_penalty": 3},
        {"frequency_penalty": -3},
        {"repetition_penalty": 0},
        {"stop": [""]},
    ],
    ids=str,
)
def test_an_impossible_parameter_is_refused_by_name(scheduler, bad):
    with pytest.raises(RequestRejected, match=next(iter(bad))):
        scheduler.add_request("a", **bad)
    assert not scheduler.has_requests()


def test_prompt_and_messages_exclude_each_other(scheduler):
    with pytest.raises(RequestRejected, match="either a prompt or messages"):
        scheduler.add_request("a", messages=[{"role": "user", "content": "a"}])
    with pytest.raises(RequestRejected, match="either a prompt or messages"):
        scheduler.add_request()


def test_no_limit_means_the_configured_one(make, monkeypatch):
    scheduler = make(scripted.loaded(monkeypatch), default_max_tokens=7)
    scheduler.add_request(endless(scheduler), request_id="x", max_tokens=None, temperature=0.0)
    assert finish(scheduler)[-1].completion_tokens == 7


def test_another_thread_is_refused_with_a_sentence(scheduler):
    errors: list[Exception] = []

    def elsewhere() -> None:
        for use in (lambda: scheduler.add_request("a"), scheduler.step, lambda: MLLMScheduler(*tiny.hybrid())):
            try:
                use()
            except EngineError as error:
                errors.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert [str(error) for error in errors] == [
        "The model belongs to another thread. Load, run and close it on one and the same thread."
    ] * 3


# -------------------------------------------------------------------- stepping


def test_a_step_tells_what_it_did(scheduler):
    prompt = endless(scheduler)
    assert scheduler.step().has_work is False
    scheduler.add_request(prompt, request_id="x", max_tokens=2, temperature=0.0)
    first = scheduler.step()
    assert first.scheduled_request_ids == ["x"]
    assert first.num_scheduled_tokens == len(ids(scheduler, prompt))
    assert first.has_work
    outputs, steps = [], [first]
    while scheduler.has_requests():
        steps.append(scheduler.step())
        outputs += steps[-1].outputs
    assert [step.scheduled_request_ids for step in steps[1:]] == [[]] * (len(steps) - 1)
    assert [step.finished_request_ids for step in steps] == [set()] * (len(steps) - 1) + [{"x"}]
    assert scheduler.finished_req_ids == {"x"}
    assert [output.completion_tokens for output in outputs] == [1, 2]
    assert [output.finished for output in outputs] == [False, True]
    scheduler.step()
    assert scheduler.finished_req_ids == set()


def test_the_pieces_make_up_the_text_and_a_stop_token_gives_none(scheduler):
    prompt = next(p for p in map("x".__mul__, range(1, 500)) if 4 < len(scripted.answer(ids(scheduler, p), 50)) < 30)
    expected = scripted.answer(ids(scheduler, prompt), 50)
    scheduler.add_request(prompt, request_id="x", max_tokens=50, temperature=0.0)
    outputs = finish(scheduler)
    assert outputs[-1].finish_reason == "stop"
    assert list(outputs[-1].output_token_ids) == expected
    assert "".join(output.new_text for output in outputs) == outputs[-1].output_text
    assert outputs[-1].output_text == scheduler.port.tokenizer.decode(expected[:-1], skip_special_tokens=True)
    assert [token for output in outputs for token in output.new_token_ids] == expected


def test_stop_ids_and_stop_strings_end_an_answer(scheduler):
    prompt = endless(scheduler)
    tokens = scripted.answer(ids(scheduler, prompt), 60)
    fifth = tokens.index(tokens[5])
    scheduler.add_request(prompt, request_id="id", max_tokens=60, temperature=0.0, stop_token_ids=[tokens[5]])
    output = finish(scheduler)[-1]
    assert (output.finish_reason, list(output.output_token_ids)) == ("stop", tokens[: fifth + 1])
    whole = scheduler.port.tokenizer.decode(tokens, skip_special_tokens=True)
    cut = next(char for char in whole[3:] if char.isascii() and char.isprintable())
    scheduler.add_request(prompt, request_id="text", max_tokens=60, temperature=0.0, stop=cut)
    outputs = finish(scheduler)
    assert outputs[-1].finish_reason == "stop"
    assert outputs[-1].output_text == "".join(output.new_text for output in outputs) == whole[: whole.index(cut)]


def test_stepping_by_hand_is_refused_while_the_loop_runs(scheduler, run):
    async def work() -> None:
        await scheduler.start()
        with pytest.raises(RuntimeError, match="await stop"):
            scheduler.step()
        await scheduler.stop()

    run(work())
    assert scheduler.step().has_work is False


def test_finished_requests_stay_readable_the_last_256(scheduler):
    for number in range(300):
        scheduler.add_request("a", request_id=str(number), max_tokens=1, temperature=0.0)
    finish(scheduler)
    kept = set(scheduler.requests)
    assert len(kept) == 256
    assert "299" in kept
    request = scheduler.remove_finished_request("299")
    assert request is not None
    assert request.status in (RequestStatus.FINISHED_LENGTH_CAPPED, RequestStatus.FINISHED_STOPPED)
    assert scheduler.get_request("299") is None
    assert scheduler.remove_finished_request("299") is None
    scheduler.add_request("a", request_id="live")
    assert scheduler.remove_finished_request("live") is None
    assert scheduler.num_requests_processed == 300


# -------------------------------------------------------------------- aborting


def test_an_abort_of_nobody_is_false(scheduler):
    assert scheduler.abort_request("nobody") is False
    scheduler.add_request("a", request_id="x", max_tokens=1)
    finish(scheduler)
    assert scheduler.abort_request("x") is False


@pytest.mark.parametrize("phase", ["waiting", "vision", "prefill", "generation"])
def test_an_abort_from_another_thread_in_every_phase(phase, make):
    limits = {"prefill_step_size": 16, "chunked_prefill_tokens": 16, "max_num_seqs": 2, "unit_budget_ms": 1.0}
    scheduler = make(tiny.dense(), **limits)
    other = tiny.chat("the other one")
    scheduler.add_request(other, request_id="other", max_tokens=40, temperature=0.0)
    if phase == "waiting":
        scheduler.add_request(other, request_id="second", max_tokens=40, temperature=0.0)
    prompt = tiny.chat("look at this for a while and then tell me all about it", 1)
    scheduler.add_request(prompt, [tiny.picture(160, 160, 1)], request_id="x", max_tokens=40, temperature=0.0)

    def entry() -> dict[str, Any]:
        return next(info for info in scheduler.get_running_requests_info() if info["request_id"] == "x")

    reached = {"waiting": lambda: entry()["prompt_tokens"] > 0, "generation": lambda: entry()["completion_tokens"] > 2}
    while not reached.get(phase, lambda: entry()["phase"] == phase)():
        scheduler.step()
    before = len(scheduler.get_request("x").output_tokens)
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(scheduler.abort_request("x")))
    thread.start()
    thread.join()
    outputs = scheduler.step().outputs
    assert found == [True]
    assert outputs[0].request_id == "x"
    assert (outputs[0].finish_reason, outputs[0].completion_tokens) == ("abort", before)
    assert scheduler.batch.row("x") is None
    assert finish(scheduler)[-1].finish_reason == "length"


# -------------------------------------------------------------------- streaming


def test_requests_stream_side_by_side(scheduler, run):
    async def work() -> list[list[RequestOutput]]:
        await scheduler.start()
        names = [await scheduler.add_request_async("say " * n, max_tokens=20, temperature=0.0) for n in range(1, 6)]
        assert set(scheduler.output_queues) == set(names)
        streams = await asyncio.gather(*(read(scheduler, name) for name in names))
        assert not scheduler.output_queues
        await scheduler.stop()
        return streams

    for n, outputs in enumerate(run(work()), 1):
        expected = scripted.answer(ids(scheduler, "say " * n), 20)
        assert [token for output in outputs for token in output.new_token_ids] == expected
        assert "".join(output.new_text for output in outputs) == outputs[-1].output_text
        assert [output.finished for output in outputs] == [False] * (len(outputs) - 1) + [True]


def test_leaving_a_stream_early_aborts(scheduler, run):
    async def work() -> None:
        await scheduler.start()
        name = await scheduler.add_request_async(endless(scheduler), max_tokens=100_000 - 500, temperature=1.0)
        stream = scheduler.stream_outputs(name)
        async for _ in stream:
            break
        await stream.aclose()
        await until(lambda: not scheduler.has_requests())
        assert scheduler.get_request(name).finish_reason == "abort"
        assert not scheduler.output_queues
        await scheduler.stop()

    run(work())


def test_a_cancelled_reader_aborts_its_request(scheduler, run):
    async def work() -> None:
        await scheduler.start()
        task = asyncio.create_task(scheduler.generate(endless(scheduler), max_tokens=90_000, temperature=1.0))
        await until(lambda: scheduler.get_num_running())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: not scheduler.has_requests())
        await scheduler.stop()

    run(work())


def test_an_unknown_stream_ends_at_once(scheduler, run):
    assert run(read(scheduler, "nobody")) == []


def test_generate_returns_the_whole_answer_or_the_error(scheduler, run):
    prompt = endless(scheduler)

    async def work() -> list[RequestOutput]:
        with pytest.raises(RequestRejected, match="await start"):
            await scheduler.generate(prompt)
        await scheduler.start()
        found = [await scheduler.generate(prompt, max_tokens=9, temperature=0.0), await scheduler.generate("")]
        await scheduler.stop()
        return found

    answer, empty = run(work())
    assert list(answer.output_token_ids) == scripted.answer(ids(scheduler, prompt), 9)
    assert (empty.finish_reason, empty.error is not None) == ("error", True)


def test_requests_added_before_the_start_stream_after_it(scheduler, run):
    name = scheduler.add_request("early", max_tokens=5, temperature=0.0)

    async def work() -> list[RequestOutput]:
        await scheduler.start()
        outputs = await read(scheduler, name)
        await scheduler.stop()
        return outputs

    assert run(work())[-1].finished


# -------------------------------------------------------------------- starting and stopping


def test_start_stop_start(scheduler, run):
    def tasks() -> list[str]:
        return [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("braid")]

    async def work() -> None:
        for _ in range(3):
            await asyncio.gather(scheduler.start(), scheduler.start())
            await scheduler.start()
            assert tasks() == ["braid-scheduler"]
            assert (await scheduler.generate("again", max_tokens=3, temperature=0.0)).finish_reason
            await asyncio.gather(scheduler.stop(), scheduler.stop())
            await scheduler.stop()
            assert tasks() == []

    run(work())
    run(work())


def test_stop_ends_every_stream(make, run):
    scheduler = make(tiny.hybrid(), max_num_seqs=2)

    async def work() -> list[list[RequestOutput]]:
        await scheduler.start()
        names = [await scheduler.add_request_async(tiny.chat("x" * 50), max_tokens=5000) for _ in range(4)]
        readers = [asyncio.create_task(read(scheduler, name)) for name in names]
        await until(lambda: scheduler.get_request(names[0]).num_output_tokens > 3)
        await scheduler.stop()
        return await asyncio.gather(*readers)

    for outputs in run(work()):
        assert outputs[-1].finish_reason == "abort"
    assert not scheduler.requests
    assert not scheduler.output_queues
    assert scheduler.batch.count == 0


def test_a_restart_during_a_stop_runs_afterwards(make, run):
    scheduler = make(tiny.hybrid())

    async def work() -> RequestOutput:
        await scheduler.start()
        await scheduler.add_request_async(tiny.chat("x" * 200), max_tokens=5000)
        await until(scheduler.get_num_running)
        await asyncio.gather(scheduler.stop(), scheduler.start())
        answer = await scheduler.generate(tiny.chat("hi"), max_tokens=3, temperature=0.0)
        await scheduler.stop()
        return answer

    assert run(work()).finish_reason == "length"


def test_reset_ends_streams_and_leaves_the_scheduler_usable(make, run):
    scheduler = make(tiny.hybrid(), prefill_step_size=16)

    async def work() -> None:
        await scheduler.start()
        for _ in range(6):
            names = [await scheduler.add_request_async(tiny.chat("y" * 90), max_tokens=500) for _ in range(2)]
            readers = [asyncio.create_task(read(scheduler, name)) for name in names]
            await until(scheduler.get_num_running)
            scheduler.reset()
            assert not scheduler.requests
            assert not scheduler.has_requests()
            answer = await scheduler.generate(tiny.chat("hi"), max_tokens=3, temperature=0.0, request_id=names[0])
            assert answer.finish_reason == "length"
            for outputs in await asyncio.gather(*readers):
                assert [output.finish_reason for output in outputs if output.finished] == ["abort"]
        await scheduler.stop()

    run(work())


def test_a_fault_of_the_scheduler_itself_ends_requests_and_not_the_loop(scheduler, run, monkeypatch):
    async def work() -> None:
        await scheduler.start()
        settle = scheduler.batch.settle

        def broken(*_: Any) -> Any:
            monkeypatch.setattr(scheduler.batch, "settle", settle)
            raise ZeroDivisionError("a bug of ours")

        monkeypatch.setattr(scheduler.batch, "settle", broken)
        failed = await scheduler.generate(endless(scheduler), max_tokens=50)
        assert failed.finish_reason == "error"
        assert (await scheduler.generate("next", max_tokens=2)).finish_reason in ("length", "stop")
        await scheduler.stop()

    run(work())


# -------------------------------------------------------------------- figures


def test_the_figures_equal_an_independent_count(make, run):
    loaded = tiny.dense()
    scheduler = make(loaded, max_num_seqs=3, enable_prefix_cache=False, enable_vision_cache=False)
    outputs: list[RequestOutput] = []
    encode = loaded[1].tokenizer.encode
    texts = [tiny.chat("a" * (20 + 9 * n), n % 2) for n in range(6)]

    async def work() -> dict[str, Any]:
        await scheduler.start()
        assert scheduler.get_stats()["batch_generator"] == dict.fromkeys(
            scheduler.get_stats()["batch_generator"], 0
        ) | {"peak_memory": scheduler.get_stats()["metal_peak_memory_gb"]}
        names = []
        for n, text in enumerate(texts):
            images = [tiny.picture(64, 64 + 32 * n, n)] if n % 2 else None
            names.append(await scheduler.add_request_async(text, images, max_tokens=4 + n, temperature=0.0))
        for stream in await asyncio.gather(*(read(scheduler, name) for name in names)):
            outputs.extend(stream)
        stats = scheduler.get_stats()
        await scheduler.stop()
        return stats

    stats = run(work())
    ends = [output for output in outputs if output.finished]
    prompt_tokens = [
        len(encode(text)) + (n % 2) * ((64 // 32) * (64 + 32 * n) // 32 - 1) for n, text in enumerate(texts)
    ]
    assert [output.prompt_tokens for output in ends] == prompt_tokens
    assert stats["total_prompt_tokens"] == sum(prompt_tokens)
    generated = sum(len(output.new_token_ids) for output in outputs)
    assert stats["total_completion_tokens"] == generated == sum(4 + n for n in range(6))
    assert (stats["num_requests_processed"], stats["num_running"], stats["num_waiting"]) == (6, 0, 0)
    done = stats["batch_generator"]
    assert done["generation_tokens"] == generated
    assert done["prompt_tokens"] == sum(prompt_tokens) - 6  # the last token of each prompt is the first decode step's
    assert done["num_images_processed"] == 3
    assert done["prompt_tps"] == pytest.approx(done["prompt_tokens"] / done["prompt_time"])
    assert done["generation_tps"] == pytest.approx(generated / done["generation_time"])
    assert done["vision_time"] > 0


def test_the_entry_of_each_request_tells_where_it_stands(make):
    scheduler = make(tiny.dense(), prefill_step_size=16, max_num_seqs=1, unit_budget_ms=1.0)
    picture = tiny.picture(160, 160, 1)
    scheduler.add_request(tiny.chat("describe it", 1), [picture], request_id="x", max_tokens=12, temperature=0.0)
    scheduler.add_request(tiny.chat("wait"), request_id="y", max_tokens=1)
    wait(scheduler.intake._jobs.values())  # the first to arrive is the first to be admitted among those prepared
    seen: list[tuple[str, float]] = []
    while scheduler.get_request("x").finish_reason is None:
        scheduler.step()
        if len(entries := scheduler.get_running_requests_info()) < 2:
            break
        x, y = entries
        assert (x["request_id"], y["request_id"]) == ("x", "y")
        assert (y["status"], y["ttft_s"], y["tokens_per_second"]) == ("waiting", None, None)
        assert x["status"] == "running"
        assert x["prompt_tokens"] == scheduler.get_request("x").num_prompt_tokens > 25
        assert x["completion_tokens"] == len(scheduler.get_request("x").output_tokens)
        assert x["max_tokens"] == 12
        assert (x["ttft_s"] is None) == (x["completion_tokens"] == 0)
        assert (x["tokens_per_second"] is None) == (x["completion_tokens"] < 2)
        assert x["elapsed_s"] >= (x["ttft_s"] or 0.0) >= 0.0
        seen.append((x["phase"], x["progress"]))
    phases = [phase for phase, _ in seen]
    assert [phase for n, phase in enumerate(phases) if phase not in phases[:n]] == ["vision", "prefill", "generation"]
    for phase in ("vision", "prefill", "generation"):
        progress = [share for other, share in seen if other == phase]
        assert progress == sorted(progress)
        assert 0.0 <= progress[0] <= progress[-1] <= 1.0
    assert {info["phase"] for info in scheduler.get_running_requests_info()} <= PHASES


def test_a_live_setting_changes_at_once_and_the_others_are_named(scheduler):
    changed = MLLMSchedulerConfig(max_num_seqs=2, default_max_tokens=5, unit_budget_ms=20.0)
    assert scheduler.apply_config(changed) == set()
    assert scheduler.config == changed
    assert scheduler.batch.planner.unit_budget_ms == 20.0
    for number in range(5):
        scheduler.add_request(endless(scheduler), request_id=str(number), max_tokens=None, temperature=0.0)
    most = 0
    while scheduler.has_requests():
        scheduler.step()
        most = max(most, scheduler.get_num_running())
    assert most == 2
    assert scheduler.get_request("0").num_output_tokens == 5


def test_one_that_is_still_being_prepared_keeps_its_seat(make, monkeypatch):
    scheduler = make(scripted.loaded(monkeypatch), max_num_seqs=1)
    may_go_on = threading.Event()
    prepare = scheduler.intake._prompt

    def slow(request: Any, *rest: Any) -> Any:
        if request.request_id == "first":
            may_go_on.wait(10)
        return prepare(request, *rest)

    monkeypatch.setattr(scheduler.intake, "_prompt", slow)
    scheduler.add_request("the first one", request_id="first", max_tokens=2, temperature=0.0)
    scheduler.add_request("the second one", request_id="second", max_tokens=2, temperature=0.0)
    while "second" not in scheduler._ready:
        scheduler._begin()  # step() would wait for the first one
    assert scheduler.get_num_running() == 0
    may_go_on.set()
    ended = [output.request_id for output in finish(scheduler) if output.finished]
    assert ended == ["first", "second"]


class Held(os.PathLike[str]):
    """A picture's path that preparation gets only after a while; tells whether anybody let it go on."""

    def __init__(self) -> None:
        self.reached, self.released, self.freed = threading.Event(), threading.Event(), False

    def __fspath__(self) -> str:
        self.reached.set()
        self.freed = self.released.wait(3.0)
        return "/nowhere.png"


def test_the_loop_goes_on_while_a_stop_waits_for_a_preparation(make, run):
    scheduler, held = make(tiny.hybrid()), Held()

    async def go() -> None:
        await scheduler.start()
        await scheduler.add_request_async(tiny.chat("x", 1), [held])
        await asyncio.to_thread(held.reached.wait)
        asyncio.get_running_loop().call_later(0.1, held.released.set)
        await scheduler.stop()

    run(go())
    assert held.freed


def test_a_stream_that_cannot_be_lent_stays_at_home_whatever_is_configured(make, run, monkeypatch):
    scheduler, home = make(tiny.hybrid()), device.home()
    for name in ("lending", "_lends"):
        monkeypatch.setattr(home, name, True)

    async def go() -> RequestOutput:
        with monkeypatch.context() as wrong:
            wrong.setattr(device.mx, "arange", mx.zeros)
            await scheduler.start()
        scheduler.apply_config(dataclasses.replace(scheduler.config, unit_budget_ms=50))
        answer = await scheduler.generate(tiny.chat("x"), max_tokens=4)
        assert not scheduler.lending
        await scheduler.stop()
        return answer

    assert run(go()).completion_tokens == 4


def test_the_last_of_two_quick_changes_holds_and_the_next_question_knows_it(scheduler, run):
    async def go() -> RequestOutput:
        await scheduler.start()
        first = scheduler.config
        scheduler.apply_config(dataclasses.replace(first, max_num_seqs=3, max_kv_size=2))
        scheduler.apply_config(dataclasses.replace(first, max_kv_size=4))
        answer = await scheduler.generate("abc", max_tokens=9)
        assert scheduler.config == dataclasses.replace(first, max_kv_size=4)
        await scheduler.stop()
        return answer

    answer = run(go())
    assert (answer.finish_reason, answer.completion_tokens) == ("length", 1)


@pytest.mark.parametrize(
    "messages",
    [
        [{}],
        [{"role": "user"}],
        [{"role": "user", "content": 5}],
        [{"role": "user", "content": [{"text": "no type"}]}],
        [{"role": "user", "content": [{"type": "text"}]}],
        ["words"],
    ],
)
def test_what_is_no_conversation_is_refused_at_once(scheduler, messages):
    with pytest.raises(RequestRejected, match=r"message|part"):
        scheduler.add_request(messages=messages)
    assert not scheduler.has_requests()


def test_a_processor_that_wants_to_exit_ends_only_its_own_request(scheduler, run):
    def leave(tokens: Any, logits: Any) -> Any:
        raise SystemExit(3)

    async def work() -> list[str | None]:
        await scheduler.start()
        asks = [
            scheduler.generate("go on", max_tokens=4, temperature=0.0, logits_processors=(leave,)),
            scheduler.generate("go on too", max_tokens=4, temperature=0.0),
        ]
        ends = [output.finish_reason for output in await asyncio.gather(*asks)]
        await scheduler.stop()
        return ends

    endless(scheduler)
    assert run(work()) == ["error", "length"]


def test_only_so_many_prefills_run_at_once(make):
    scheduler = make(tiny.dense(), prefill_batch_size=2, prefill_step_size=16, enable_prefix_cache=False)
    for number in range(5):
        scheduler.add_request(tiny.chat(f"{number}" * 60), request_id=str(number), max_tokens=30, temperature=0.0)
    wait(scheduler.intake._jobs.values())
    most = 0
    while scheduler.has_requests():
        scheduler.step()
        phases = [entry["phase"] for entry in scheduler.get_running_requests_info() if entry["status"] == "running"]
        most = max(most, phases.count("prefill"))
        assert phases.count("prefill") <= 2
    assert most == 2


def test_requests_are_admitted_in_the_order_of_their_arrival(make, monkeypatch):
    scheduler = make(scripted.loaded(monkeypatch), max_num_seqs=2)
    names = [str(number) for number in range(9)]
    for name in names:
        scheduler.add_request("x" * (90 - 10 * int(name)), request_id=name, max_tokens=3, temperature=0.0)
    wait(scheduler.intake._jobs.values())
    admitted = []
    while scheduler.has_requests():
        admitted += scheduler.step().scheduled_request_ids
    assert admitted == names


def test_slow_preparations_and_slow_units_are_logged(scheduler, monkeypatch, caplog):
    monkeypatch.setattr("engine.intake._SLOW_S", 0.0)
    monkeypatch.setattr("engine.scheduler._SLOW_UNIT_S", 0.0)
    prompt = endless(scheduler)
    with caplog.at_level("INFO", "engine"):
        scheduler.add_request(prompt, request_id="x", max_tokens=2, temperature=0.0)
        finish(scheduler)
    told = [(record.levelname, record.getMessage()) for record in caplog.records]
    tokens = len(ids(scheduler, prompt))
    assert any(text.startswith("Preparing x took") and f"({tokens} tokens)" in text for _, text in told)
    units = [text for level, text in told if level == "WARNING"]
    assert {text.split()[1] for text in units} >= {"prefill", "decode"}
    assert all("(0 waiting, 1 running)" in text for text in units if "decode" in text)


@pytest.mark.parametrize(("rows", "steps"), [(1, 32), (8, 32), (16, 16), (32, 8), (64, 8)])
def test_unused_buffers_go_every_so_many_steps(rows, steps, make, monkeypatch):
    scheduler = make(scripted.loaded(monkeypatch), max_num_seqs=rows, completion_batch_size=64, prefill_batch_size=64)
    for number in range(rows):
        scheduler.add_request(endless(scheduler), request_id=str(number), max_tokens=500, temperature=0.0)
    while scheduler.batch.decoding < rows or not scheduler.get_request(str(rows - 1)).num_output_tokens:
        scheduler.step()
    cleared: list[int] = []
    monkeypatch.setattr(mx, "clear_cache", lambda: cleared.append(scheduler.get_request("0").num_output_tokens))
    for _ in range(4 * steps):
        scheduler.step()
    assert len(cleared) == 4
    assert {later - earlier for earlier, later in pairwise(cleared)} == {steps}


@pytest.mark.parametrize("prefixes", [True, False])
@pytest.mark.parametrize("end", ["length", "abort", "error"])
def test_unused_buffers_go_after_each_request_that_has_run(end, prefixes, make, monkeypatch):
    scheduler = make(scripted.loaded(monkeypatch), enable_prefix_cache=prefixes)
    for name in ("x", "y"):
        scheduler.add_request(endless(scheduler), request_id=name, max_tokens=20, temperature=0.0)
    while scheduler.batch.decoding < 2 or scheduler.get_request("y").num_output_tokens < 2:
        scheduler.step()
    cleared: list[bool] = []
    monkeypatch.setattr(mx, "clear_cache", lambda: cleared.append(device.home().holds_stream))
    if end == "abort":
        scheduler.abort_request("x")
        scheduler.abort_request("y")
    if end == "error":
        scheduler.port.decode_faults = range(10_000)
    while scheduler.has_requests() or scheduler.step().has_work:
        scheduler.step()
    assert cleared
    assert all(cleared)
    assert scheduler.step().has_work is False


def test_figures_are_zero_before_the_first_request(scheduler):
    stats = scheduler.get_stats()
    counts = ("num_waiting", "num_running", "num_finished", "num_requests_processed")
    counts += ("total_prompt_tokens", "total_completion_tokens")
    assert [stats[name] for name in counts] == [0] * 6
    assert stats["requests"] == []
    for name in ("vision_embedding_cache", "memory_aware_cache"):
        assert not any(stats[name].values())
    names = {"hits", "misses", "hit_rate", "evictions", "tokens_saved", "current_memory_mb", "max_memory_mb"}
    assert set(stats["memory_aware_cache"]) == names | {"memory_utilization", "entry_count"}
    assert stats["ssd_cache"] == {}
    rates = {"enabled", "attempted", "accepted", "rejected", "errors", "acceptance_rate", "bypass_counts"}
    assert rates <= set(stats["mtp"])
    assert set(stats["loop_stall_ms"]) == {"p50", "p99", "max"}
    assert stats["backend"] in ("metal", "cuda", "cpu")


def test_the_room_for_caches_is_known_once_it_has_started(scheduler):
    async def main() -> dict[str, Any]:
        await scheduler.start()
        stats = scheduler.get_stats()
        await scheduler.stop()
        return stats

    stats = asyncio.run(main())
    assert all(stats[name]["max_memory_mb"] > 0 for name in ("vision_embedding_cache", "memory_aware_cache"))


def test_what_may_be_read_of_a_scheduler(scheduler):
    scheduler.add_request(endless(scheduler), request_id="x", max_tokens=5, temperature=0.0)
    assert [request.request_id for request in scheduler.waiting] == ["x"]
    scheduler.step()
    (uid,) = scheduler.uid_to_request_id
    assert scheduler.running == {"x": scheduler.requests["x"]}
    assert (scheduler.request_id_to_uid, scheduler.uid_to_request_id) == ({"x": uid}, {uid: "x"})
    assert scheduler.requests["x"].batch_uid == uid
    assert scheduler.model_config is scheduler.model.config
    assert scheduler.processor.tokenizer is scheduler.port.tokenizer
    assert scheduler.stop_tokens == scripted.STOPS
    finish(scheduler)
    assert (scheduler.num_requests_processed, scheduler.total_completion_tokens) == (1, 5)
    assert scheduler.total_prompt_tokens == scheduler.requests["x"].num_prompt_tokens
    assert scheduler.finished_req_ids == {"x"}
