"""Whatever arrives, is aborted or fails, in any order: limits hold, no row leaks, every request ends exactly once."""

from __future__ import annotations

import asyncio
import logging
import random
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine import MLLMScheduler, MLLMSchedulerConfig, RequestOutput
from tests.engine import scripted, tiny
from tests.engine.solo import solo

LENGTHS = [1, 2, 17, 246, 250, 254, 505, 700, 760, 1500]
"""Caches grow in steps of 256 tokens: rows around a border change their group while they grow."""

adds = st.tuples(st.just("add"), st.sampled_from(LENGTHS), st.integers(1, 40), st.integers(0, 3))
aborts = st.tuples(st.just("abort"), st.integers(0, 9))
steps = st.tuples(st.just("steps"), st.integers(1, 12))
faults = st.sets(st.integers(0, 60), max_size=4)
configs = st.builds(
    MLLMSchedulerConfig,
    max_num_seqs=st.integers(1, 6),
    prefill_batch_size=st.integers(1, 4),
    completion_batch_size=st.integers(1, 5),
    prefill_step_size=st.sampled_from([16, 100, 1024]),
    chunked_prefill_tokens=st.sampled_from([0, 16, 300]),
    enable_prefix_cache=st.booleans(),
)


@dataclass
class Run:
    """One scheduler under a random schedule, checked after every step."""

    scheduler: MLLMScheduler
    prompts: dict[str, tuple[list[int], int]] = field(default_factory=dict)
    ends: Counter[str] = field(default_factory=Counter)
    last: dict[str, RequestOutput] = field(default_factory=dict)
    tokens: Counter[str] = field(default_factory=Counter)
    text: dict[str, str] = field(default_factory=dict)
    aborted: set[str] = field(default_factory=set)

    def add(self, length: int, tokens: int, letter: int) -> None:
        prompt, name = chr(ord("a") + letter) * length, f"request {len(self.prompts)}"
        self.scheduler.add_request(prompt, request_id=name, max_tokens=tokens, temperature=0.0)
        self.prompts[name] = (self.scheduler.port.tokenizer.encode(prompt), tokens)

    def abort(self, number: int) -> None:
        """From another thread, as a window's buttons or a server's connections would."""
        name = f"request {number}"
        if _elsewhere(lambda: self.scheduler.abort_request(name)):
            assert not self.ends[name]
            self.aborted.add(name)
        else:
            assert name not in self.prompts or self.ends[name]

    def steps(self, count: int) -> None:
        for _ in range(count):
            wait(self.scheduler.intake._jobs.values())  # preparation is instant here, so that a schedule is repeatable
            for output in self.scheduler.step().outputs:
                self._take(output)
            self._check()

    def drain(self) -> None:
        for _ in range(3000):
            if not self.scheduler.has_requests():
                self.steps(1)  # what the last rows have computed goes to the prefix cache
                return
            self.steps(1)
        pytest.fail(f"still at work: {self.scheduler.get_running_requests_info()}")

    def _take(self, output: RequestOutput) -> None:
        name = output.request_id
        assert not self.ends[name]
        assert len(output.new_token_ids) + self.tokens[name] == output.completion_tokens == len(output.output_token_ids)
        self.tokens[name] = output.completion_tokens
        self.text[name] = self.text.get(name, "") + output.new_text
        assert self.text[name] == output.output_text
        self.ends[name] += output.finished
        self.last[name] = output

    def _check(self) -> None:
        scheduler, config = self.scheduler, self.scheduler.config
        batch = scheduler.batch
        assert len(scheduler.running) == batch.count <= config.max_num_seqs
        assert batch.decoding <= config.completion_batch_size
        assert len(batch._prefills) + len(batch._joining) <= max(config.prefill_batch_size, config.max_num_seqs)
        assert len({row.request_id for row in batch.rows}) == len(batch.rows)
        assert set(scheduler.request_id_to_uid) == set(scheduler.running)
        live = set(self.prompts) - set(self.ends.keys() - {name for name, count in self.ends.items() if not count})
        assert live == {request.request_id for request in scheduler.waiting} | set(scheduler.running)


def _elsewhere(work: Callable[[], bool]) -> bool:
    """Do something on a thread of its own."""
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    config=configs,
    schedule=st.lists(st.one_of(adds, aborts, steps), min_size=1, max_size=24),
    decode_faults=faults,
    prefill_faults=faults,
)
def test_any_schedule(make_scripted, config, schedule, decode_faults, prefill_faults):
    scheduler, failures = make_scripted(config)
    scheduler.port.decode_faults, scheduler.port.prefill_faults = decode_faults, prefill_faults
    run = Run(scheduler)
    for action, *arguments in schedule:
        getattr(run, action)(*arguments)
    run.drain()
    assert set(run.prompts) == {name for name, count in run.ends.items() if count == 1}
    for name, (prompt, tokens) in run.prompts.items():  # some begin alike, and so go on from what others computed
        assert_right(run, name, scripted.answer(prompt, tokens), faulty=bool(decode_faults or prefill_faults))
    assert len(failures) == scheduler.port.faults  # and not one that was not scripted
    assert scheduler.num_requests_processed == len(run.prompts)
    assert scheduler.total_completion_tokens == sum(run.tokens.values())
    assert_empty(scheduler)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    config=configs,
    schedule=st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.sampled_from([1, 17, 40]), st.integers(1, 6), st.integers(0, 2)), aborts, steps
        ),
        min_size=1,
        max_size=8,
    ),
    decode_faults=st.sets(st.integers(0, 20), max_size=2),
    prefill_faults=st.sets(st.integers(0, 10), max_size=1),
)
def test_any_schedule_on_a_real_model(make, config, schedule, decode_faults, prefill_faults):
    scheduler = make(tiny.hybrid(), **{spec.name: getattr(config, spec.name) for spec in fields(config)})
    run = Run(scheduler)
    with faulty(scheduler, decode=decode_faults, prefill=prefill_faults) as raised:
        for action, *arguments in schedule:
            getattr(run, action)(*arguments)
        run.drain()
    for name, (prompt, tokens) in run.prompts.items():
        key = (tuple(prompt), tokens)
        if key not in _alone:
            _alone[key] = solo(*tiny.hybrid(), scheduler.port.tokenizer.decode(prompt), max_tokens=tokens)
        given_tokens, reason = list(run.last[name].output_token_ids), run.last[name].finish_reason
        assert given_tokens == _alone[key][: len(given_tokens)]
        assert reason == "length" or (reason == "abort" and name in run.aborted) or (reason == "error" and raised)
    assert_empty(scheduler)
    scheduler.intake.close()


@contextmanager
def faulty(scheduler: MLLMScheduler, **faults: Collection[int]) -> Iterator[list[str]]:
    """Methods of the port raise at these calls; gives a list of those that did."""
    raised: list[str] = []
    port = scheduler.port

    def wrap(method: str, numbers: Collection[int]) -> None:
        plain, calls = getattr(port, method), count()

        def call(*args: Any) -> Any:
            if next(calls) in numbers:
                raised.append(method)
                raise scripted.Fault(method)
            return plain(*args)

        setattr(port, method, call)

    for method, numbers in faults.items():
        wrap(method, numbers)
    try:
        yield raised
    finally:
        for method in faults:
            delattr(port, method)


@pytest.mark.parametrize("seed", range(6))
def test_threads_that_abort_while_the_loop_runs(make_scripted, run, seed):
    """Sixty requests, a few device failures, and three threads that abort whatever they come upon."""
    rng = random.Random(seed)
    config = MLLMSchedulerConfig(max_num_seqs=6, prefill_step_size=100, lend_stream=bool(seed % 2))
    scheduler, _ = make_scripted(config)
    scheduler.port.decode_faults = set(rng.sample(range(200), 4))
    scheduler.port.prefill_faults = set(rng.sample(range(60), 2))
    asked = [(chr(97 + number % 4) * rng.choice(LENGTHS[:6]), rng.randrange(1, 40)) for number in range(60)]
    aborted: set[str] = set()
    over = threading.Event()

    def abort(choose: random.Random) -> None:
        while not over.wait(0.002):
            name = f"request {choose.randrange(60)}"
            if scheduler.abort_request(name):
                aborted.add(name)

    async def read(number: int) -> list[RequestOutput]:
        prompt, tokens = asked[number]
        name = f"request {number}"
        await scheduler.add_request_async(prompt, request_id=name, max_tokens=tokens, temperature=0.0)
        return [output async for output in scheduler.stream_outputs(name)]

    async def work() -> list[list[RequestOutput]]:
        await scheduler.start()
        threads = [threading.Thread(target=abort, args=(random.Random(seed * 10 + n),)) for n in range(3)]
        for thread in threads:
            thread.start()
        try:
            return await asyncio.gather(*(read(number) for number in range(60)))
        finally:
            over.set()
            for thread in threads:
                thread.join()
            while scheduler.batch._groups:  # noqa: ASYNC110 - what the last rows have computed is stored first
                await asyncio.sleep(0)
            assert_empty(scheduler)
            await scheduler.stop()

    streams = run(work())
    for number, outputs in enumerate(streams):
        prompt, tokens = asked[number]
        expected = scripted.answer(scheduler.port.tokenizer.encode(prompt), tokens)
        assert [output.finished for output in outputs] == [False] * (len(outputs) - 1) + [True]
        assert "".join(output.new_text for output in outputs) == outputs[-1].output_text
        told = [token for output in outputs for token in output.new_token_ids]
        assert told == list(outputs[-1].output_token_ids) == expected[: len(told)]
        reason = outputs[-1].finish_reason
        assert reason in ("abort", "error") or told == expected
        assert reason != "abort" or f"request {number}" in aborted
    assert scheduler.num_requests_processed == 60
    assert not scheduler.output_queues


_alone: dict[tuple[tuple[int, ...], int], list[int]] = {}


def assert_right(run: Run, name: str, expected: list[int], *, faulty: bool) -> None:
    output = run.last[name]
    tokens = list(output.output_token_ids)
    assert tokens == expected[: len(tokens)]
    if output.finish_reason == "abort":
        assert name in run.aborted
    elif output.finish_reason == "error":
        assert faulty
        assert output.error
    else:
        assert tokens == expected
        assert output.finish_reason == ("stop" if tokens[-1] in scripted.STOPS else "length")
        shown = tokens[:-1] if tokens[-1] in scripted.STOPS else tokens
        if "think>" not in output.output_text:  # written, though special
            assert output.output_text == run.scheduler.port.tokenizer.decode(shown, skip_special_tokens=True)


def assert_empty(scheduler: MLLMScheduler) -> None:
    assert scheduler.batch.count == 0
    assert not scheduler.batch._groups
    assert not scheduler._ready
    assert not scheduler.uid_to_request_id
    assert not scheduler.intake._jobs
    assert not scheduler.caches.prefix._active


@pytest.fixture
def make_scripted(monkeypatch: pytest.MonkeyPatch) -> Any:
    failures: list[str] = []

    def note(record: logging.LogRecord) -> bool:
        failures.append(record.getMessage())
        return False

    monkeypatch.setattr(logging.getLogger("engine.scheduler"), "filters", [note])
    loaded = scripted.loaded(monkeypatch)
    made: list[MLLMScheduler] = []

    def make(config: MLLMSchedulerConfig) -> tuple[MLLMScheduler, list[str]]:
        while made:  # hypothesis runs many examples within one test
            close(made.pop())
        failures.clear()
        made.append(MLLMScheduler(*loaded, config))
        return made[-1], failures

    yield make
    while made:
        close(made.pop())


def close(scheduler: MLLMScheduler) -> None:
    scheduler.reset()
    scheduler.intake.close()


@pytest.mark.parametrize("lengths", [(17, 700, 760), (700, 17, 760), (1500, 700, 17, 17, 700), (250, 700, 250, 1500)])
@pytest.mark.parametrize("gap", [0, 1, 2, 3, 5])
def test_a_row_that_joins_a_group_just_as_it_merges_with_another_is_not_lost(make_scripted, lengths, gap):
    scheduler, failures = make_scripted(MLLMSchedulerConfig())
    run = Run(scheduler)
    for length in lengths:
        run.add(length, 40, 3)
        run.steps(gap)
    run.drain()
    assert not failures
    for name, (prompt, tokens) in run.prompts.items():
        assert_right(run, name, scripted.answer(prompt, tokens), faulty=False)
