import pytest

from app.state import vitals as module
from app.state.vitals import Vitals


@pytest.fixture
def vitals(model):
    return Vitals(model)


async def request(scheduler, id="r"):
    await scheduler.add_request_async(messages=[], request_id=id)
    return scheduler.sent[-1]


def test_nobody_watching_reads_nothing(run, until, vitals, scheduler, monkeypatch):
    monkeypatch.setattr(module, "_INTERVAL_MS", 5)
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
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])

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


def test_answers_are_told_apart_by_the_chats_that_show_them(run, until, library, model, scheduler, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    vitals = Vitals(model, lambda: library.tabs)
    first = library.current

    async def go():
        for text in ("Kitchen", "Street"):
            library.current.composer.set_text(text)
            library.current.composer.send()
            library.new_chat()
        await until(lambda: len(scheduler.sent) == 2)
        kitchen, street = scheduler.sent
        vitals.watch(True)
        assert vitals.latest.streams == ()  # nothing is written yet
        kitchen.tokens_per_second, street.tokens_per_second = 41.0, 7.0
        vitals._sample()
        for _ in range(4):
            clock[0] += 0.25
            for _ in range(10):
                kitchen.say("x")
            vitals._sample()
        kitchen_now, street_now = vitals.latest.streams
        assert (kitchen_now.chat_id, kitchen_now.name, kitchen_now.tokens_per_second) == (first.id, "Kitchen", 41.0)
        assert kitchen_now.history == (0.0, 40.0, 40.0, 40.0, 40.0)
        assert street_now.history == (0.0,) * 5
        kitchen.end()
        await until(lambda: not first.answering)
        vitals._sample()
        assert [stream.name for stream in vitals.latest.streams] == ["Street"]
        vitals.watch(False)
        street.end()

    run(go())


@pytest.mark.parametrize("cache", ["prefix", "vision", "ssd"])
def test_one_cache_is_cleared_and_the_others_stay(vitals, scheduler, cache):
    vitals.clear(cache)
    assert scheduler.cleared == [cache]
