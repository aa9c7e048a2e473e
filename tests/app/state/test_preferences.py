import json
import os
import threading

import pytest

from app import settings as settings_file
from app.settings import Settings
from app.state import preferences as module
from app.state.preferences import Preferences


@pytest.fixture
def path(tmp_path):
    return tmp_path / "settings.json"


@pytest.fixture
def preferences(model, path):
    made = Preferences(Settings(), model, path)
    yield made
    made.close()


def told(preferences):
    keys = []
    preferences.changed.connect(keys.append)
    return keys


def test_a_change_reaches_the_engine_and_is_told(preferences, scheduler):
    keys = told(preferences)
    assert preferences.enter("engine.cache_memory_mb", "900") is None
    assert scheduler.config.cache_memory_mb == preferences.settings.engine.cache_memory_mb == 900
    assert preferences.choose("engine.cache_memory_mb", 900) is None
    assert keys == ["engine.cache_memory_mb"]
    assert (preferences.timing("engine.cache_memory_mb"), preferences.waits("engine.cache_memory_mb")) == ("now", False)


def test_what_the_engine_takes_later_waits_until_it_is_taken_back(preferences, scheduler):
    key = "engine.max_num_seqs"
    assert preferences.timing(key) == "next load"
    preferences.choose(key, 4)
    assert preferences.waits(key)
    assert scheduler.config.max_num_seqs == 16
    preferences.reset(key)
    assert not preferences.waits(key)


@pytest.mark.parametrize(
    ("key", "value"),
    [("engine.max_num_seqs", 0), ("generation.temperature", 9.0), ("font_scale", 300), ("appearance", "pink")],
)
def test_an_impossible_value_changes_nothing(preferences, scheduler, key, value):
    keys, before = told(preferences), preferences.settings.model_copy(deep=True)
    refusal = preferences.choose(key, value)
    assert refusal.endswith(".")
    assert "=" not in refusal
    assert "validation" not in refusal
    assert preferences.settings == before
    assert keys == []


def test_what_the_engine_refuses_is_told_in_its_words_and_not_kept(preferences, scheduler):
    scheduler.refuse = "This model cannot draft. Leave it off."
    assert preferences.choose("engine.enable_mtp", True) == scheduler.refuse
    assert not preferences.settings.engine.enable_mtp


def test_a_folder_that_cannot_be_written_is_refused(preferences, tmp_path):
    assert "may not write" in preferences.choose("engine.ssd_cache_dir", str(tmp_path / "none"))
    assert preferences.choose("engine.ssd_cache_dir", str(tmp_path)) is None
    assert preferences.choose("engine.ssd_cache_dir", None) is None


def test_a_page_is_reset_alone(preferences):
    for key, value in (("engine.enable_mtp", True), ("engine.cache_memory_mb", 5), ("generation.top_k", 3)):
        preferences.choose(key, value)
    preferences.reset_page("Cache")
    assert preferences.is_default("engine.cache_memory_mb")
    assert not preferences.is_default("engine.enable_mtp")
    assert not preferences.is_default("generation.top_k")


def test_many_changes_are_written_once_after_a_second(run, until, preferences, path, monkeypatch):
    saves = []
    save = settings_file.save
    monkeypatch.setattr(settings_file, "save", lambda *args: (saves.append(threading.current_thread()), save(*args)))
    assert preferences._timer.interval() == 1000
    preferences._timer.setInterval(20)

    async def go():
        for size in range(90, 100):
            preferences.choose("font_scale", size)
        assert not path.exists()
        await until(path.exists)

    run(go())
    assert json.loads(path.read_text())["font_scale"] == 99
    assert len(saves) == 1
    assert saves[0] is not threading.main_thread()


def test_closing_writes_what_is_left(preferences, path):
    preferences.choose("notifications", False)
    preferences.close()
    assert settings_file.load(path)[0].notifications is False


def test_a_disk_that_takes_nothing_is_told_once_and_the_choice_holds(run, until, preferences, records, monkeypatch):
    records.expect("settings could not be saved")

    def full(_):
        raise OSError(28, "No space left on device")

    sentences = []
    preferences.failed.connect(sentences.append)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        preferences.choose("font_scale", 120)
        preferences._save()
        run(until(lambda: sentences))
    assert len(sentences) == 1
    assert preferences.value("font_scale") == 120


def test_what_braid_has_chosen_is_told_as_the_engine_measures_it(preferences, scheduler):
    assert preferences.derived("engine.vision_cache_mb") is None
    scheduler.figures = {
        "vision_embedding_cache": {"max_memory_mb": 155.0},
        "memory_aware_cache": {"max_memory_mb": 1085.0},
        "memory_budget_gb": 14.4,
    }
    scheduler.model_config.text_config = type("Text", (), {"max_position_embeddings": 4096})
    known = {name: preferences.derived(f"engine.{name}") for name in ("vision_cache_mb", "cache_memory_mb")}
    assert known == {"vision_cache_mb": 155.0, "cache_memory_mb": 1240.0}
    assert preferences.derived("engine.prefix_cache_memory_mb") == 1085.0
    assert preferences.derived("engine.memory_limit_gb") == 14.4
    assert preferences.derived("engine.max_kv_size") == 4096
    assert preferences.derived("generation.seed") is None


def test_idle_unloading_is_in_force_at_once(preferences, model):
    assert preferences.enter("unload_after_minutes", "5") is None
    assert model._idle._limit_s == 300
    preferences.choose("unload_after_minutes", None)
    assert model._idle._limit_s is None


def test_without_a_model_changes_wait_for_one(qapp, path):
    from app.state.model import Model
    from engine.config import MLLMSchedulerConfig

    preferences = Preferences(Settings(), Model(None, MLLMSchedulerConfig()), None)
    assert preferences.choose("engine.enable_mtp", True) is None
    assert preferences.timing("engine.enable_mtp") == "next load"
    assert preferences.timing("appearance") == "now"
    assert preferences.derived("engine.memory_limit_gb") is None
    preferences.close()
    assert module._SAVE_AFTER_MS == 1000
