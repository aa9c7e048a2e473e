"""A failure stays with its request: it ends once, with a sentence, and the others answer as if it had never been."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
import pytest

from engine import MLLMScheduler, RequestOutput, tensor_file
from engine.detokenizer import Detokenizer
from engine.models.encoding import Encoding
from engine.prompt import prepare_prompt
from tests.engine import cold_tier, tiny
from tests.engine.solo import solo

GOOD = {"good": tiny.chat("hello there"), "other": tiny.chat("what is the sea?")}


class Boom(Exception):
    """What the tests throw into the engine."""


def add(scheduler: MLLMScheduler, name: str, prompt: str, **more: Any) -> None:
    scheduler.add_request(prompt, request_id=name, **{"max_tokens": 12, "temperature": 0.0, **more})


def finish(scheduler: MLLMScheduler) -> dict[str, RequestOutput]:
    """Step until nothing is left; every request's last output, having checked that there is one of it only."""
    ended: dict[str, RequestOutput] = {}
    for _ in range(2000):
        for output in scheduler.step().outputs:
            assert output.request_id not in ended
            if output.finished:
                ended[output.request_id] = output
        if not scheduler.has_requests():
            break
    assert not scheduler.has_requests()
    assert scheduler.batch.count == 0
    return ended


def assert_good(
    ended: dict[str, RequestOutput], loaded: tuple[Any, Any], names: Sequence[str] = ("good", "other")
) -> None:
    for name in names:
        assert ended[name].finish_reason == "length"
        assert list(ended[name].output_token_ids) == solo(*loaded, GOOD[name], max_tokens=12)


def assert_failed(output: RequestOutput, sentence: str) -> None:
    assert output.finish_reason == "error"
    assert output.error is not None
    assert sentence in output.error
    assert "Boom" not in output.error


class Faulty:
    """Stands in for one method of a scheduler's port and raises whenever ``when`` says so."""

    def __init__(self, scheduler: MLLMScheduler, method: str, when: Callable[..., bool]) -> None:
        self.calls = 0
        self._method, self._when = getattr(scheduler.port, method), when

    def __call__(self, *args: Any) -> Any:
        self.calls += 1
        if self._when(self, *args):
            raise Boom("the device is on fire")
        return self._method(*args)


@pytest.fixture
def fault(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Faulty]:
    """Put a ``Faulty`` in place; taken away after the test, since schedulers of one model share its port."""

    def put(scheduler: MLLMScheduler, method: str, when: Callable[..., bool]) -> Faulty:
        faulty = Faulty(scheduler, method, when)
        monkeypatch.setattr(scheduler.port, method, faulty)
        return faulty

    return put


def test_a_raising_logits_processor_ends_only_its_request(tiny_model, make):
    def bad(tokens: mx.array, logits: mx.array) -> mx.array:
        if tokens.shape[0] > 40:
            raise Boom("no")
        return logits

    scheduler = make(tiny_model)
    add(scheduler, "good", GOOD["good"])
    add(scheduler, "bad", tiny.chat("a short one"), logits_processors=(bad,), max_tokens=60)
    add(scheduler, "other", GOOD["other"])
    ended = finish(scheduler)
    assert_good(ended, tiny_model)
    assert_failed(ended["bad"], "The model failed on this message (no). Try again")
    prompt = len(tiny.processor().tokenizer.encode(tiny.chat("a short one")))
    # What came before the failure is kept, but for the token that the failing step had not read yet.
    assert ended["bad"].completion_tokens == 40 - prompt


@pytest.mark.parametrize("call", range(1, 9))
def test_no_row_is_lost_at_whichever_step_a_failure_comes(call, make, fault):
    """A row whose last token is sampled but not read yet belongs to no batch any more; it is a member all the same."""
    scheduler = make(tiny.dense())
    add(scheduler, "short", GOOD["good"], max_tokens=3)
    add(scheduler, "middle", GOOD["good"], max_tokens=5)
    add(scheduler, "good", GOOD["good"])
    fault(scheduler, "decode", lambda self, *_: self.calls == call)
    ended = finish(scheduler)
    expected = solo(*tiny.dense(), GOOD["good"], max_tokens=12)
    for name, tokens in (("short", 3), ("middle", 5), ("good", 12)):
        assert list(ended[name].output_token_ids) == expected[:tokens], name


def test_a_decode_step_that_fails_once_costs_nobody_an_answer(tiny_model, make, fault):
    scheduler = make(tiny_model)
    add(scheduler, "good", GOOD["good"])
    add(scheduler, "other", GOOD["other"])
    add(scheduler, "drawn", tiny.chat("x"), temperature=1.0, seed=5)
    fault(scheduler, "decode", lambda self, *_: self.calls == 6)
    ended = finish(scheduler)
    assert_good(ended, tiny_model)
    alone = make(tiny_model)
    add(alone, "drawn", tiny.chat("x"), temperature=1.0, seed=5)
    assert ended["drawn"].output_token_ids == finish(alone)["drawn"].output_token_ids


def test_a_picture_is_seen_again_after_a_failed_decode_step(tiny_model, make, fault):
    scheduler = make(tiny_model)
    picture = tiny.picture(96, 64, 1)
    scheduler.add_request(tiny.chat("what?", 1), [picture], request_id="picture", max_tokens=12, temperature=0.0)
    fault(scheduler, "decode", lambda self, *_: self.calls == 5)
    expected = solo(*tiny_model, tiny.chat("what?", 1), [picture], max_tokens=12)
    assert list(finish(scheduler)["picture"].output_token_ids) == expected


def test_a_row_that_fails_every_step_is_retried_once_and_lost_alone(tiny_model, make, fault):
    scheduler = make(tiny_model)
    add(scheduler, "good", GOOD["good"])
    add(scheduler, "bad", tiny.chat("bad"))
    add(scheduler, "other", GOOD["other"])
    faulty = fault(scheduler, "decode", lambda _, *__: any("bad" in ids for ids in stepping(scheduler)))
    ended = finish(scheduler)
    assert_good(ended, tiny_model)
    assert_failed(ended["bad"], "The model failed on this message (the device is on fire). Try again")
    assert ended["bad"].completion_tokens == 0
    assert faulty.calls <= 2 + 2 * 13  # once together, once alone, then each good row by itself


def stepping(scheduler: MLLMScheduler) -> list[list[str]]:
    """Ids of the rows of the group whose step runs: the one taken last from the turn."""
    return [[row.request_id for row in scheduler.batch._groups[-1].rows]]


def test_a_device_that_never_works_again_ends_every_request_and_not_the_scheduler(make, fault):
    scheduler = make(tiny.hybrid())
    for name in ("a", "b", "c"):
        add(scheduler, name, GOOD["good"])
    broken = True
    fault(scheduler, "decode", lambda *_: broken)
    ended = finish(scheduler)
    assert {output.finish_reason for output in ended.values()} == {"error"}
    broken = False
    add(scheduler, "good", GOOD["good"])
    assert_good(finish(scheduler), tiny.hybrid(), ["good"])


def test_a_failing_prefill_ends_only_its_request(tiny_model, make, fault):
    scheduler = make(tiny_model, prefill_step_size=16)
    add(scheduler, "good", GOOD["good"])
    add(scheduler, "bad", tiny.chat("b" * 60))
    add(scheduler, "other", GOOD["other"])
    fault(scheduler, "prefill", lambda _, chunk, __: ord("b") - 33 in chunk.ids[-2:])
    ended = finish(scheduler)
    assert_good(ended, tiny_model)
    assert_failed(ended["bad"], "The model failed on this message")


@pytest.mark.parametrize(
    "error",
    [RuntimeError("[malloc] Unable to allocate 99 bytes: out of memory"), MemoryError()],
    ids=["device", "host"],
)
@pytest.mark.parametrize("method", ["prefill", "decode"])
def test_memory_that_runs_out_is_told_as_such(method, error, make, monkeypatch):
    scheduler = make(tiny.hybrid())
    add(scheduler, "big", tiny.chat("big"))

    def full(*_: Any) -> None:
        raise error

    monkeypatch.setattr(scheduler.port, method, full)
    assert_failed(finish(scheduler)["big"], "There was not enough memory for this answer. Close other chats")


def test_a_picture_the_tower_fails_on_ends_only_its_request(tiny_model, make, fault):
    scheduler = make(tiny_model)
    add(scheduler, "good", GOOD["good"])
    scheduler.add_request(tiny.chat("x", 1), [tiny.picture(64, 64, 1)], request_id="bad", temperature=0.0)
    add(scheduler, "other", GOOD["other"])
    fault(scheduler, "encode", lambda *_: True)
    ended = finish(scheduler)
    assert_good(ended, tiny_model)
    assert_failed(ended["bad"], "The model failed on this message")


@pytest.mark.parametrize("block", [0, 1, 3])
def test_a_picture_the_tower_fails_on_half_way_ends_only_its_request(block, tiny_model, make, monkeypatch):
    """At the first block, at a later one, and at the merger after the last."""
    scheduler = make(tiny_model, unit_budget_ms=1.0)
    add(scheduler, "good", GOOD["good"])
    scheduler.add_request(tiny.chat("x", 1), [tiny.picture(160, 160, 1)], request_id="bad", temperature=0.0)
    add(scheduler, "other", GOOD["other"])
    advance, calls = Encoding.advance, []

    def broken(self: Encoding, budget_s: float) -> bool:
        calls.append(budget_s)
        if len(calls) > block:
            raise Boom("the tower is on fire")
        return advance(self, 0.0)

    monkeypatch.setattr(Encoding, "advance", broken)
    ended = finish(scheduler)
    assert_good(ended, tiny_model)
    assert_failed(ended["bad"], "The model failed on this message (the tower is on fire)")
    assert len(calls) == block + 1
    monkeypatch.undo()
    scheduler.add_request(tiny.chat("x", 1), [tiny.picture(160, 160, 1)], request_id="again", temperature=0.0)
    assert finish(scheduler)["again"].error is None


def test_what_fails_after_the_last_token_costs_only_what_would_have_been_kept(make, monkeypatch, caplog):
    """The unit that stores what a finished row has computed belongs to no request any more."""
    scheduler = make(tiny.hybrid())
    add(scheduler, "good", GOOD["good"])
    while not scheduler.batch.decoding:
        scheduler.step()
    monkeypatch.setattr(scheduler.caches.prefix, "store", raising("no room"))
    assert_good(finish(scheduler), tiny.hybrid(), ["good"])
    while scheduler.step().has_work:
        pass
    assert not scheduler.batch._groups
    assert "unit failed" in caplog.text
    monkeypatch.undo()
    add(scheduler, "other", GOOD["other"])
    assert_good(finish(scheduler), tiny.hybrid(), ["other"])


def test_a_check_of_drafts_that_fails_costs_nobody_an_answer(make, monkeypatch):
    scheduler = make(tiny.headed(), enable_mtp=True, mtp_policy="always")
    monkeypatch.setattr(scheduler.port, "verify", raising("the check is on fire"))
    add(scheduler, "good", GOOD["good"])
    assert_good(finish(scheduler), tiny.hybrid(), ["good"])
    assert scheduler.get_stats()["mtp"]["errors"] > 0


def test_a_disk_whose_reader_fails_costs_only_the_time(make, monkeypatch, tmp_path, caplog):
    config = {"ssd_cache_dir": tmp_path / "ssd"}
    cold_tier.identify(tiny.hybrid()[0], tmp_path / "model", monkeypatch)
    prompt = tiny.chat("a long question that is worth its place on the disk, since it goes on and on and on")
    scheduler = make(tiny.hybrid(), **config)
    add(scheduler, "first", prompt)
    first = finish(scheduler)["first"]
    cold_tier.write(scheduler)
    scheduler.caches.close()
    scheduler = make(tiny.hybrid(), **config)
    monkeypatch.setattr(tensor_file, "read", raising("not enough memory"))
    add(scheduler, "again", prompt)
    add(scheduler, "good", GOOD["good"])
    ended = finish(scheduler)
    assert_good(ended, tiny.hybrid(), ["good"])
    assert (ended["again"].output_token_ids, ended["again"].cached_tokens) == (first.output_token_ids, 0)
    assert "could not be read" in caplog.text
    scheduler.caches.close()


@pytest.mark.parametrize("part", ["engine.spill.to_host", "engine.tensor_file.write"])
def test_a_disk_whose_writer_fails_costs_only_what_would_have_been_kept(part, make, monkeypatch, tmp_path, caplog):
    """Copying to the host is a unit, writing has its own thread: neither is tried for ever; closing does not hang."""
    cold_tier.identify(tiny.hybrid()[0], tmp_path / "model", monkeypatch)
    scheduler = make(tiny.hybrid(), ssd_cache_dir=tmp_path / "ssd")
    monkeypatch.setattr(part, raising("not enough memory", RuntimeError))
    add(scheduler, "good", GOOD["good"])
    assert_good(finish(scheduler), tiny.hybrid(), ["good"])
    cold_tier.write(scheduler)
    scheduler.caches.close()
    assert not list((tmp_path / "ssd").rglob("*.safetensors*"))
    assert "failed" in caplog.text or "could not be copied" in caplog.text


def raising(words: str, kind: type[Exception] = Boom) -> Callable[..., Any]:
    """Stands in for anything and fails."""

    def fail(*_: Any, **__: Any) -> Any:
        raise kind(words)

    return fail


def test_a_file_that_is_no_picture_ends_only_its_request(make, tmp_path):
    scheduler = make(tiny.hybrid())
    note = tmp_path / "note.png"
    note.write_text("not a picture")
    add(scheduler, "good", GOOD["good"])
    scheduler.add_request(tiny.chat("x", 1), [note], request_id="text")
    scheduler.add_request(tiny.chat("x", 1), [tmp_path / "gone.png"], request_id="gone")
    scheduler.add_request(tiny.chat("x", 2), [tiny.picture(64, 64, 1)], request_id="too few")
    scheduler.add_request("", request_id="empty")
    scheduler.add_request(messages=[{"role": "user", "content": [{"type": "smell"}]}], request_id="smell")
    ended = finish(scheduler)
    assert_good(ended, tiny.hybrid(), ["good"])
    assert_failed(ended["text"], "note.png")
    assert_failed(ended["gone"], "gone.png")
    assert_failed(ended["too few"], "The prompt has 2 picture slots, but 1")
    assert_failed(ended["empty"], "The prompt is empty")
    assert_failed(ended["smell"], "Parts of type “smell” are not supported")


def test_an_unforeseen_fault_in_preparation_ends_only_its_request(make, monkeypatch):
    scheduler = make(tiny.hybrid())
    prepare = scheduler.intake._prompt

    def broken(request: Any, *rest: Any) -> Any:
        if request.request_id == "bad":
            raise Boom("no such template")
        return prepare(request, *rest)

    monkeypatch.setattr(scheduler.intake, "_prompt", broken)
    add(scheduler, "good", GOOD["good"])
    add(scheduler, "bad", GOOD["good"])
    ended = finish(scheduler)
    assert_good(ended, tiny.hybrid(), ["good"])
    assert_failed(ended["bad"], "no such template")


def test_an_unforeseen_fault_while_a_token_becomes_text_ends_only_its_request(make, monkeypatch):
    scheduler = make(tiny.hybrid())
    add(scheduler, "bad", tiny.chat("bad"))
    add(scheduler, "good", GOOD["good"])
    scheduler.step()
    add_token = Detokenizer.add

    def broken(self: Detokenizer, token: int) -> str:
        row = scheduler.batch.row("bad")
        if row is not None and row.detokenizer is self:
            raise Boom("no such token")
        return add_token(self, token)

    monkeypatch.setattr(Detokenizer, "add", broken)
    ended = finish(scheduler)
    assert_good(ended, tiny.hybrid(), ["good"])
    assert_failed(ended["bad"], "no such token")


def test_a_prompt_beyond_the_context_is_refused_with_both_numbers(make):
    scheduler = make(tiny.hybrid(), max_kv_size=50)
    add(scheduler, "long", "x" * 50)
    add(scheduler, "fits", "x" * 49, max_tokens=20)
    add(scheduler, "room", "x" * 45, max_tokens=20)
    ended = finish(scheduler)
    assert_failed(ended["long"], "takes 50 tokens, but the model reads at most 50 including its answer. Shorten it")
    assert ended["long"].completion_tokens == 0
    assert [ended[name].completion_tokens for name in ("fits", "room")] == [1, 5]
    assert {ended[name].finish_reason for name in ("fits", "room")} == {"length"}


def test_pictures_count_towards_the_context(make):
    scheduler = make(tiny.hybrid(), max_kv_size=100)
    prompt, pictures = tiny.chat("what?", 2), [tiny.picture(224, 224, seed) for seed in range(2)]
    scheduler.add_request(prompt, pictures, request_id="long")
    tokens = len(prepare_prompt(scheduler.port, prompt, pictures).ids)
    assert tokens > 100 > tokens - 49
    assert_failed(finish(scheduler)["long"], f"takes {tokens} tokens, but the model reads at most 100")


def test_the_models_own_context_holds_where_none_is_configured(make):
    scheduler = make(tiny.hybrid())
    add(scheduler, "long", "x" * 32768)
    assert_failed(finish(scheduler)["long"], "takes 32,768 tokens, but the model reads at most 32,768")


@pytest.mark.parametrize("method", ["prefill", "decode"])
def test_memory_comes_back_after_a_failure(method, make, monkeypatch, fault):
    # pytest keeps every log record with its traceback, and that would keep the failed unit's arrays.
    monkeypatch.setattr(logging.getLogger("engine.scheduler"), "disabled", True)
    scheduler = make(tiny.hybrid(), enable_prefix_cache=False)
    for name in ("warm", "a"):
        if name == "a":
            active = scheduler.memory()["active"]
            fault(scheduler, method, lambda self, *_: self.calls > 3)
        add(scheduler, name, tiny.chat("x" * 300), max_tokens=8)
        add(scheduler, name + "2", tiny.chat("y" * 200), max_tokens=8)
        finish(scheduler)
    assert scheduler.memory()["active"] <= active + 4096
