"""The port gives the models what mlx-vlm's own code gives them: positions, picture features, deepstack, stop tokens."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import mlx.core as mx
import numpy as np
import pytest

from engine import ModelLoadError, device
from engine.models.families import open_port
from engine.models.port import _stop_ids
from engine.prefill import Prefill
from engine.prefix_cache import PrefixCache
from engine.prompt import prepare_prompt
from tests.engine import tiny
from tests.engine.solo import first_logits, inputs

PROMPTS = [
    pytest.param(tiny.chat("no picture at all"), [], id="text"),
    pytest.param(tiny.chat("one", 1), [(64, 96, 1)], id="one picture"),
    pytest.param(
        f"first {tiny.IMAGE}, some words, then {tiny.IMAGE}{tiny.IMAGE} end",
        [(128, 64, 1), (64, 64, 2), (96, 160, 3)],
        id="three pictures",
    ),
]


@pytest.fixture
def port(tiny_model):
    return open_port(*tiny_model)


@pytest.mark.parametrize(("prompt", "sizes"), PROMPTS)
def test_ids_patches_and_positions_are_those_of_mlx_vlm(prompt, sizes, port):
    images = [tiny.picture(*size) for size in sizes]
    ours, theirs = prepare_prompt(port, prompt, images), inputs(port.processor, prompt, images)
    assert list(ours.ids) == theirs["input_ids"][0].tolist()
    if images:
        assert [item.grid for item in ours.media] == [tuple(grid) for grid in theirs["image_grid_thw"].tolist()]
        np.testing.assert_array_equal(np.concatenate([item.patches for item in ours.media]), theirs["pixel_values"])
    grids = mx.array(theirs["image_grid_thw"]) if images else None
    positions, delta = device.home().run_here(
        lambda: tuple(map(np.array, port.model.language_model.get_rope_index(mx.array(theirs["input_ids"]), grids)))
    )
    np.testing.assert_array_equal(ours.positions, np.broadcast_to(positions.squeeze(), (3, len(ours.ids))))
    assert ours.rope_delta == int(delta.reshape(-1)[0])


@pytest.mark.parametrize("budget_s", [0.0, 60.0])
def test_a_picture_encoded_in_stages_equals_the_plain_tower(budget_s, port):
    item = prepare_prompt(port, tiny.chat("what?", 1), [tiny.picture(160, 96, 4)]).media[0]

    def plain():
        hidden, deepstack = port.model.vision_tower(mx.array(item.patches), mx.array([item.grid]))
        return [np.array(array) for array in (hidden, *deepstack)]

    encoding = port.encode(item)
    units = 1
    while not device.home().run_here(lambda: encoding.advance(budget_s)):
        units += 1
    assert units == (4 if budget_s == 0.0 else 1)  # three blocks one by one, and the merger
    assert encoding.features is not None
    expected = device.home().run_here(plain)
    got = [np.array(array) for array in (encoding.features.hidden, *encoding.features.deepstack)]
    for ours, theirs in zip(got, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert encoding.features.nbytes == sum(array.nbytes for array in expected)


def test_an_encoding_gives_the_tower_its_blocks_back_even_if_it_fails(port):
    item = prepare_prompt(port, tiny.chat("what?", 1), [tiny.picture(64, 64, 4)]).media[0]
    blocks = list(port.model.vision_tower.blocks)
    broken = replace(item, patches=item.patches[:, :7])
    with pytest.raises(ValueError, match="reshape"):
        device.home().run_here(lambda: port.encode(broken).advance(1.0))
    assert list(port.model.vision_tower.blocks) == blocks


@pytest.mark.parametrize("chunk", [16, 17, 64, 1000])
@pytest.mark.parametrize(("prompt", "sizes"), PROMPTS)
def test_the_logits_after_a_chunked_prefill_are_those_of_one_shot(prompt, sizes, chunk, port):
    images = [tiny.picture(*size) for size in sizes]
    row = SimpleNamespace(prompt=prepare_prompt(port, prompt, images), request=_no_output(), alone=False)
    prefill = Prefill(port, row, PrefixCache(port.make_cache))

    def run():
        while (item := prefill.next_picture()) is not None:
            encoding = port.encode(item)
            assert encoding.advance(60.0)
            prefill.supply(item, encoding.features)
        while prefill.remaining:
            prefill.advance(min(chunk, prefill.remaining), chunk)
        delta = mx.array([[prefill.row.prompt.rope_delta]])
        return np.array(port.decode(mx.array([prefill.last_token]), prefill.cache, delta)[0])

    expected = first_logits(port.model, port.processor, prompt, images)
    np.testing.assert_allclose(device.home().run_here(run), expected, atol=2e-4 * np.abs(expected).max())


def _no_output():
    return SimpleNamespace(output_tokens=[])


@pytest.mark.parametrize("size", [(64, 64), (100, 700), (3, 900), (900, 3), (1, 1), (2000, 1500)])
def test_the_tokens_a_picture_will_take_are_those_it_takes(size, port):
    prompt = prepare_prompt(port, tiny.chat("what?", 1), [tiny.picture(*size, 1)])
    assert port.image_tokens(*size) == prompt.media[0].tokens


def test_stop_tokens_are_the_union_of_all_sources(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"eos_token_id": 1}))
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 3]}))
    config = SimpleNamespace(eos_token_id=[4], text_config=SimpleNamespace(eos_token_id=5))
    criteria = SimpleNamespace(eos_token_ids=[6, 7])
    tokenizer = SimpleNamespace(eos_token_id=8, eos_token_ids=[9], stopping_criteria=criteria)
    model = SimpleNamespace(config=config, model_path=str(tmp_path))
    assert _stop_ids(model, tokenizer) == set(range(1, 10))


def test_a_family_nobody_knows_is_refused_with_a_sentence():
    model = SimpleNamespace(config=SimpleNamespace(model_type="lstm"))
    with pytest.raises(ModelLoadError, match=r"“lstm” are not supported yet\. Choose another model"):
        open_port(model, None)
