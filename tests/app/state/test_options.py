import dataclasses

import pytest

from app.settings import Generation, Settings
from app.state.options import PAGES, of_page, options
from engine.config import MLLMSchedulerConfig


def test_every_field_of_the_engine_can_be_chosen():
    fields = {spec.name for spec in dataclasses.fields(MLLMSchedulerConfig)}
    assert {key.removeprefix("engine.") for key in options() if key.startswith("engine.")} == fields


def test_every_sampling_default_can_be_chosen():
    # The longest answer is the engine's default_max_tokens, for which None leaves room.
    fields = set(Generation.model_fields) - {"max_tokens"}
    assert {key.removeprefix("generation.") for key in options() if key.startswith("generation.")} == fields


def test_every_option_has_a_page_a_name_and_a_sentence_of_its_own():
    made = options().values()
    assert sum(len(of_page(page)) for page in PAGES) == len(made)
    assert len({option.label for option in made}) == len(made)
    assert all(option.help.endswith(".") and len(option.help) < 130 for option in made)
    assert PAGES[:2] == ("Cache", "MTP")


def test_defaults_are_those_of_the_program():
    settings = Settings()
    assert options()["engine.max_num_seqs"].default == settings.engine.max_num_seqs
    assert options()["generation.temperature"].default == settings.generation.temperature
    assert options()["font_scale"].default == settings.font_scale


def test_a_field_without_words_is_shown_as_the_engine_describes_it(monkeypatch):
    from app.state import options as module

    words = {key: value for key, value in module.WORDS.items() if key != "engine.unit_budget_ms"}
    monkeypatch.setattr(module, "WORDS", words)
    option = module.options.__wrapped__()["engine.unit_budget_ms"]
    assert (option.page, option.label, option.unit) == ("Advanced", "Unit budget ms", "ms")
    assert option.help == "Longest piece of work while answers stream."


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("engine.max_num_seqs", " 8 ", 8),
        ("engine.default_video_fps", "0,5", 0.5),
        ("generation.presence_penalty", "−1", -1.0),
        ("engine.prefix_cache_memory_mb", "12 000", 12_000),
        ("generation.seed", "9223372036854775807", 2**63 - 1),
    ],
)
def test_numbers_are_read_as_people_type_them(key, text, value):
    assert options()[key].parse(text) == value


@pytest.mark.parametrize(
    ("key", "text", "told"),
    [
        ("engine.max_num_seqs", "a lot", "“a lot” does not fit here: type a whole number from 1 to 1024."),
        ("engine.max_num_seqs", "", "Nothing is typed: type a whole number from 1 to 1024."),
        ("engine.max_num_seqs", "0", "0 does not fit here: type a whole number from 1 to 1024."),
        ("engine.max_num_seqs", "2.5", "“2.5” does not fit here: type a whole number from 1 to 1024."),
        ("engine.max_kv_size", "0", "0 does not fit here: type a whole number, 1 or more."),
        ("generation.top_p", "0", "0 does not fit here: type a number above 0, up to 1."),
        ("generation.temperature", "nan", "nan does not fit here: type a number from 0 to 5."),
        ("engine.memory_limit_gb", "inf", "inf does not fit here: type a number from 0.001 to 1000000."),
        ("font_scale", "9" * 400, "999999… does not fit here: type a whole number from 80 to 150."),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(key, text, told):
    with pytest.raises(ValueError, match="type a") as refusal:
        options()[key].parse(text)
    assert str(refusal.value) == told
