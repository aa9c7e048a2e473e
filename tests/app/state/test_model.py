import asyncio
from pathlib import Path

import pytest

from app.state.model import Model
from engine.config import MLLMSchedulerConfig
from engine.errors import EngineError, ModelLoadError
from tests.fakes import FakeLoader, FakeScheduler


def watched(model):
    seen = []
    model.changed.connect(lambda: seen.append((model.status, model.progress, model.stage)))
    return seen


def test_loading_goes_through_its_stages_to_ready(run, loop):
    scheduler = FakeScheduler()
    model = Model(Path("resources/pocket"), MLLMSchedulerConfig(), FakeLoader(scheduler))
    seen = watched(model)
    assert (model.name, model.status) == ("Pocket", "loading")
    run(model.load())
    assert seen == [("loading", 0.0, ""), ("loading", 0.5, "Loading weights"), ("ready", 1.0, "")]
    assert model.takes_images
    assert run(model.answering()) is scheduler


def test_a_known_failure_is_told_by_its_sentence(run, loop):
    error = ModelLoadError("The folder holds no model. Choose another.")
    model = Model(Path("x"), MLLMSchedulerConfig(), FakeLoader(FakeScheduler(), error))
    run(model.load())
    assert (model.status, model.error) == ("failed", str(error))
    with pytest.raises(EngineError, match="holds no model"):
        run(model.answering())


def test_an_unknown_failure_is_logged_and_told_without_its_name(run, loop, records):
    records.expect("Loading .* failed")
    model = Model(Path("x"), MLLMSchedulerConfig(), FakeLoader(FakeScheduler(), KeyError("weights")))
    run(model.load())
    assert model.status == "failed"
    assert "KeyError" not in model.error


def test_no_model_at_all_is_told(run, loop):
    model = Model(None, MLLMSchedulerConfig())
    run(model.load())
    assert model.status == "absent"
    with pytest.raises(EngineError, match="Choose one"):
        run(model.answering())


def test_closing_stops_the_scheduler_once(run, loop):
    scheduler = FakeScheduler()
    model = Model(Path("x"), MLLMSchedulerConfig(), FakeLoader(scheduler))
    run(model.load())
    run(model.close())
    run(model.close())
    assert scheduler.stopped
    with pytest.raises(EngineError, match="unloaded"):
        run(model.answering())


def test_closing_waits_for_a_load_that_cannot_be_stopped_as_long_as_it_is_told(run, loop):
    async def go():
        begun, imported = asyncio.Event(), asyncio.Event()

        async def load(path, config, on_progress):
            try:
                begun.set()
                await asyncio.Event().wait()
            finally:
                await imported.wait()  # as a module that is being imported: cancelling does not end it

        model = Model(Path("x"), MLLMSchedulerConfig(), load)
        loading = asyncio.ensure_future(model.load())
        await begun.wait()
        assert not await model.close(0.05)
        assert not loading.done()
        imported.set()
        assert await model.close()
        await loading
        assert await model.close(0.05)

    run(go())


A, B = Path("models/a"), Path("models/b")


@pytest.fixture
def loader():
    return FakeLoader(FakeScheduler())


@pytest.fixture
def switching(run, loop, loader):
    """Run a test's body with a loaded model that it can change; afterwards nothing may be in memory."""

    def switching(body):
        async def whole():
            model = Model(A, MLLMSchedulerConfig(), loader, embedded=Path("resources/pocket"))
            await model.load()
            await body(model)
            await model.close()
            assert loader.resident == []
            assert loader.most == 1

        run(whole())

    return switching


def test_another_model_takes_over_and_the_first_gives_its_memory_back(switching, loader):
    async def body(model):
        first = loader.scheduler
        model.choose(B)
        assert (model.status, model.name, model.scheduler, model.takes) == ("loading", "B", None, frozenset())
        scheduler = await model.answering()
        assert first.stopped
        assert scheduler is loader.scheduler is not first
        assert (model.status, model.takes_images, loader.resident) == ("ready", True, [B])

    switching(body)


def test_quick_changes_end_with_the_last_and_never_hold_two(switching, loader):
    async def body(model):
        for path in (B, A, B, A, B):
            model.choose(path)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        await model.answering()
        assert (model.path, loader.resident) == (B, [B])

    switching(body)


def test_changing_there_and_back_while_it_loads_settles_on_the_first(switching, loader, until):
    async def body(model):
        loader.go.clear()
        model.choose(B)
        await until(lambda: loader.resident == [B])
        model.choose(A)
        loader.go.set()
        await model.answering()
        assert loader.resident == [A]

    switching(body)


def test_choosing_what_is_there_changes_nothing(switching, loader):
    async def body(model):
        model.choose(A)
        assert (model.status, loader.asked) == ("ready", [A])

    switching(body)


def test_a_load_can_be_stopped_and_the_question_that_waited_is_told(switching, loader, until):
    async def body(model):
        loader.go.clear()
        model.choose(B)
        waiting = asyncio.ensure_future(model.answering())
        await until(lambda: model.progress == 0.5)
        model.unload()
        with pytest.raises(EngineError, match="Loading was stopped"):
            await waiting
        assert (model.status, loader.resident, model.path) == ("unloaded", [], B)
        loader.go.set()
        assert await model.answering() is loader.scheduler  # the next question loads it

    switching(body)


def test_a_failure_keeps_its_sentence_and_the_embedded_model_can_take_over(switching, loader):
    async def body(model):
        loader.error = ModelLoadError("“b” is not complete.")
        model.choose(B)
        with pytest.raises(EngineError, match="not complete"):
            await model.answering()
        assert (model.status, model.error, model.can_fall_back) == ("failed", "“b” is not complete.", True)
        loader.error = None
        model.fall_back()
        await model.answering()
        assert (model.name, model.status, model.can_fall_back) == ("Pocket", "ready", False)

    switching(body)


def test_a_model_that_ends_badly_does_not_hold_the_next_one_up(switching, loader, records):
    records.expect("Unloading failed")

    async def body(model):
        async def stop():
            loader.resident.remove(A)
            raise RuntimeError("stuck")

        loader.scheduler.stop = stop
        model.choose(B)
        assert await model.answering() is loader.scheduler

    switching(body)


def test_it_is_unloaded_after_idling_and_the_next_question_loads_it_again(switching, loader, until):
    async def body(model):
        model.unload_after(0.02 / 60)
        await until(lambda: model.status == "unloaded")
        await until(lambda: loader.resident == [])
        assert model.error is None
        model.unload_after(None)
        assert await model.answering() is loader.scheduler
        assert loader.asked == [A, A]

    switching(body)


def test_an_answer_keeps_it_from_being_unloaded(switching, until):
    async def body(model):
        scheduler = await model.answering()
        await scheduler.add_request_async(messages=[], request_id="r")
        model.unload_after(0.02 / 60)
        read = scheduler.info_read
        await until(lambda: scheduler.info_read > read + 6)
        assert model.status == "ready"
        scheduler.sent[0].end()
        await until(lambda: model.status == "unloaded")

    switching(body)


def test_settings_go_to_the_engine_and_to_the_next_load(switching, loader):
    async def body(model):
        config = MLLMSchedulerConfig(max_num_seqs=3)
        model.configure(config)
        assert model.pending == {"max_num_seqs"}
        assert not model.takes_now("max_num_seqs")
        assert model.takes_now("enable_mtp")
        model.reload()
        await model.answering()
        assert loader.configs[-1] is config
        assert model.pending == frozenset()

    switching(body)


def test_a_closed_model_loads_nothing_more(switching, loader):
    async def body(model):
        await model.close()
        model.choose(B)
        with pytest.raises(EngineError, match="unloaded"):
            await model.answering()
        assert loader.asked == [A]

    switching(body)


def test_settings_chosen_while_it_loads_are_not_lost(run, until):
    scheduler = FakeScheduler()
    load = FakeLoader(scheduler, at_once=False)
    model = Model(Path("x"), MLLMSchedulerConfig(), load)

    async def go():
        loading = asyncio.ensure_future(model.load())
        await until(lambda: model.progress == 0.5)
        model.configure(MLLMSchedulerConfig(enable_mtp=True, max_num_seqs=3))
        load.go.set()
        await loading

    run(go())
    assert scheduler.config.enable_mtp
    assert model.pending == {"max_num_seqs"}
