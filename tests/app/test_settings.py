import json
import os

import pytest
from pydantic import ValidationError

from app import settings
from app.settings import Settings
from engine.config import MLLMSchedulerConfig


@pytest.fixture
def path(tmp_path):
    return tmp_path / "config" / "settings.json"


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def test_a_missing_file_gives_the_defaults(path):
    assert settings.load(path) == (Settings(), None)


def test_what_was_saved_comes_back(path):
    chosen = Settings(appearance="dark", engine=MLLMSchedulerConfig(max_num_seqs=3, ssd_cache_dir="/tmp/x"))
    chosen.generation.temperature = 0.2
    settings.save(chosen, path)
    loaded, note = settings.load(path)
    assert loaded == chosen
    assert note is None


def test_impossible_values_cannot_be_assigned():
    chosen = Settings()
    with pytest.raises(ValidationError):
        chosen.appearance = "pink"
    with pytest.raises(ValidationError):
        chosen.generation.temperature = -1
    assert chosen == Settings()


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "3", '"text"', "\x00\x01", "[" * 5000, '{"model": "\\ud800"}', '{"\\ud800": 1}']
)
def test_a_damaged_file_boots_with_defaults_and_is_kept(path, content):
    write(path, content)
    loaded, note = settings.load(path)
    assert loaded == Settings()
    assert "damaged" in note
    assert (path.parent / "settings.bak.json").read_text() == content


def test_only_bad_keys_are_dropped_and_named(path):
    write(path, {
        "schema_version": 1, "appearance": "dark", "vitals_visible": "perhaps", "unknown": 1,
        "generation": {"temperature": 99, "top_p": 0.5, "bogus": 1},
        "engine": {"max_num_seqs": 0, "prefill_step_size": 64, "nonsense": True, "kv_cache_quantization_bits": 8},
    })  # fmt: skip
    loaded, note = settings.load(path)
    assert (loaded.appearance, loaded.vitals_visible) == ("dark", True)
    assert (loaded.generation.temperature, loaded.generation.top_p) == (0.7, 0.5)
    assert loaded.engine == MLLMSchedulerConfig(prefill_step_size=64)
    for name in (
        "vitals_visible",
        "unknown",
        "generation.temperature",
        "generation.bogus",
        "engine.max_num_seqs",
        "engine.nonsense",
    ):
        assert name in note
    for name in ("appearance", "top_p", "prefill_step_size"):
        assert name not in note
    assert "settings.bak.json" in note


@pytest.mark.parametrize("part", ["generation", "engine"])
@pytest.mark.parametrize("value", [None, 3, "text", []])
def test_a_part_of_the_wrong_kind_is_reset_alone(path, part, value):
    write(path, {"appearance": "light", part: value})
    loaded, note = settings.load(path)
    assert loaded == Settings(appearance="light")
    assert part in note


def test_a_newer_file_boots_with_what_is_known_and_is_kept(path):
    write(path, {"schema_version": 2, "appearance": "dark", "hologram": True})
    loaded, note = settings.load(path)
    assert loaded.appearance == "dark"
    assert "newer Braid" in note
    assert json.loads((path.parent / "settings.bak.json").read_text())["hologram"] is True


def test_an_older_file_is_migrated_step_by_step(path, monkeypatch):
    monkeypatch.setitem(settings.MIGRATIONS, 0, lambda raw: {"appearance": raw["theme"]})
    write(path, {"schema_version": 0, "theme": "dark"})
    loaded, note = settings.load(path)
    assert loaded.appearance == "dark"
    assert note is None


def test_a_failed_save_leaves_the_old_file_and_no_other(path, monkeypatch):
    settings.save(Settings(appearance="dark"), path)

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        settings.save(Settings(), path)
    assert settings.load(path)[0].appearance == "dark"
    assert [item.name for item in path.parent.iterdir()] == ["settings.json"]


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "1" + "0" * 400])
def test_numbers_that_no_machine_has_are_dropped(path, number):
    write(path, f'{{"font_scale": {number}, "engine": {{"memory_limit_gb": {number}, "max_num_seqs": {number}}}}}')
    loaded, note = settings.load(path)
    assert (loaded.font_scale, loaded.engine.max_num_seqs) == (100, 16)
    assert "engine.max_num_seqs" in note
    assert loaded.engine.memory_limit_gb is None


def test_a_request_is_told_whether_to_think():
    generation = settings.Generation(thinking=True)
    assert generation.options()["template_options"] == {"enable_thinking": True}
    assert "thinking" not in generation.options()
