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
    assert seen == [("loading", 0.5, "Loading weights"), ("ready", 1.0, "")]
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
