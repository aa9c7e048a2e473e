import pytest
from pydantic import ValidationError

from app.presets import Preset, Sampling
from app.settings import Generation


def test_a_chat_s_own_choices_take_the_place_of_the_settings():
    options = Generation(temperature=0.2, top_p=0.8, thinking=True).options()
    chosen = Sampling(temperature=0.0, seed=7, thinking=False).over(options)
    assert chosen == options | {"temperature": 0.0, "seed": 7, "template_options": {"enable_thinking": False}}
    assert Sampling().over(options) == options


@pytest.mark.parametrize("text", ['{"temperature": -1}', "[]", "nonsense", '{"seed": "x"}'])
def test_what_cannot_be_used_is_left_to_the_settings(text):
    assert Sampling.from_json(text) == Sampling()


def test_choices_come_back_as_they_were_kept():
    sampling = Sampling(temperature=1.5, max_tokens=64, thinking=True)
    assert Sampling.from_json(sampling.to_json()) == sampling
    assert Sampling().to_json() == "{}"


def test_a_preset_has_a_name():
    with pytest.raises(ValidationError):
        Preset(name="")
