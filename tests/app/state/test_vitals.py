import pytest

from app.state import speeds
from app.state import vitals as module
from app.state.vitals import Vitals


@pytest.fixture
def vitals(model):
    return Vitals(model)


async def request(scheduler, id="r"):
    await scheduler.add_request_async(messages=[], request_id=id)
    return scheduler.sent[-1]


def test_nobody_watching_reads_nothing(run, until, vitals, scheduler, monkeypatch):
    monkeypatch.setattr(module, "INTERVAL_MS", 5)
    vitals = Vitals(vitals._model)
    beats = []
    vitals.sampled.connect(lambda: beats.append(1))

    async def go():
        vitals.watch(True)
        await until(lambda: len(beats) >= 3)
        vitals.watch(False)
        return scheduler.stats_read

    read = run(go())
    assert not vitals._timer.isActive()
    assert read == len(beats)
    assert vitals.history == ()


def test_a_sample_shows_the_engine_s_figures_in_bytes(run, vitals, scheduler):
    async def go():
        await request(scheduler)
        vitals.watch(True)

    run(go())
    sample = vitals.latest
    assert (sample.active_bytes, sample.cache_bytes, sample.peak_bytes) == (250_000_000, 50_000_000, 500_000_000)
    assert (sample.limit_bytes, sample.backend, sample.rows, sample.waiting) == (7_000_000_000, "cpu", 1, 0)
    assert (sample.stall_p50_ms, sample.stall_p99_ms, sample.stall_max_ms) == (0.5, 3.0, 4.0)
    vitals.watch(False)


def test_speed_is_counted_tokens_over_measured_time(run, vitals, scheduler, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(speeds.time, "monotonic", lambda: clock[0])

    async def go():
        first = await request(scheduler)
        vitals.watch(True)
        for _ in range(8):
            clock[0] += 0.25
            for _ in range(10):
                first.say("x")
            vitals._sample()

    run(go())
    assert vitals.history == (0.0, *[40.0] * 8)
    assert vitals.latest.tokens_per_second == 40.0
    vitals.watch(False)


def test_watching_without_a_model_waits_for_it(run, vitals, model):
    loaded, model._loaded = model._loaded, None
    vitals.watch(True)
    assert vitals.latest is None
    model._loaded = loaded
    vitals._sample()
    assert vitals.latest is not None
    vitals.watch(False)


def test_a_model_that_goes_takes_its_figures_along(run, vitals, model):
    beats = []
    vitals.watch(True)
    vitals.sampled.connect(lambda: beats.append(vitals.latest))
    run(model.close())
    vitals._sample()
    vitals._sample()
    assert beats == [None]
    vitals.watch(False)


@pytest.fixture
def clock(monkeypatch):
    """The time in seconds, as the first item of a list."""
    now = [100.0]
    monkeypatch.setattr(speeds.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def asked(run, until, library, model, scheduler, clock):
    """Two chats, Kitchen and Street, that have asked; the panel watches them."""
    vitals = Vitals(model, lambda: library.tabs)

    async def go():
        for text in ("Kitchen", "Street"):
            library.current.composer.set_text(text)
            library.current.composer.send()
            library.new_chat()
        await until(lambda: len(scheduler.sent) == 2)
        vitals.watch(True)
        vitals._timer.stop()  # the test samples

    run(go())
    yield vitals
    vitals.watch(False)


def write(vitals, clock, *told):
    """A quarter of a second in which requests are given so many tokens each."""
    clock[0] += 0.25
    for request, tokens in told:
        for _ in range(tokens):
            request.say("x")
    vitals._sample()


def test_answers_are_told_apart_by_the_chats_that_show_them(run, until, asked, library, scheduler, clock):
    kitchen, street = scheduler.sent
    assert asked.latest.streams == ()  # nothing is written yet

    async def go():
        for _ in range(4):
            write(asked, clock, (kitchen, 10))
        assert [stream.name for stream in asked.latest.streams] == ["Kitchen"]
        write(asked, clock, (kitchen, 10), (street, 5))
        kitchen_now, street_now = asked.latest.streams
        first = library.tabs[0]
        assert (kitchen_now.chat_id, kitchen_now.name, kitchen_now.tokens_per_second) == (first.id, "Kitchen", 40.0)
        assert kitchen_now.history == (0.0, 40.0, 40.0, 40.0, 40.0, 40.0)
        assert (street_now.name, street_now.tokens_per_second) == ("Street", 5.0)
        kitchen.end()
        await until(lambda: not first.answering)
        asked._sample()
        assert [stream.name for stream in asked.latest.streams] == ["Street"]
        street.end()
        await until(lambda: not any(chat.answering for chat in library.tabs))

    run(go())


def test_the_chats_speeds_are_of_the_last_second_and_add_up_to_the_total(run, until, asked, library, scheduler, clock):
    kitchen, street = scheduler.sent
    steps = [(0, 0), (3, 0), (4, 0), (4, 7), (9, 8), (0, 8), (0, 1), (0, 0), (0, 0), (0, 0), (2, 0)]

    async def go():
        for number, (one, other) in enumerate(steps, 1):
            write(asked, clock, (kitchen, one), (street, other))
            last = [sum(step) for step in zip(*steps[max(0, number - 4) : number], strict=True)]
            speeds_now = [stream.tokens_per_second for stream in asked.latest.streams]
            assert sum(speeds_now) == pytest.approx(asked.latest.tokens_per_second)
            if number >= 4:
                assert speeds_now == pytest.approx(last)
        for request in (kitchen, street):
            request.end()
        await until(lambda: not any(chat.answering for chat in library.tabs))

    run(go())


def test_another_model_begins_a_fresh_history(run, asked, library, model, scheduler, clock):
    async def go():
        write(asked, clock, (scheduler.sent[0], 10))
        await model.close()
        asked._sample()

    run(go())
    assert asked.latest is None
    assert asked.history == ()


@pytest.mark.parametrize("cache", ["prefix", "vision", "ssd"])
def test_one_cache_is_cleared_and_the_others_stay(vitals, scheduler, cache):
    vitals.clear(cache)
    assert scheduler.cleared == [cache]
