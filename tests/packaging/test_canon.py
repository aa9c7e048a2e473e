"""The demo model's canonical prompts can be drawn, and its recipe describes the model that is shipped."""

import importlib.util
import shutil
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "resources" / "pocket"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"pocket_{name}", ROOT / "packaging" / "pocket" / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


canon = load("canon")


@pytest.mark.parametrize("spec", canon.SPECS, ids=lambda spec: spec[0])
def test_a_spec_draws_exactly_its_colours_on_its_ground(spec):
    _, size, ground, shapes, questions = spec
    image = canon.draw(size, ground, shapes)
    assert image.size == size
    colours = {colour for _, colour in image.getcolors(maxcolors=16)}
    assert colours == {ground} | {canon.C[colour] for _, colour, *_ in shapes}
    assert questions


@pytest.mark.parametrize("spec", canon.OCR, ids=lambda spec: spec[2])
def test_a_text_fits_its_picture(spec):
    size, ground, *_ = spec
    pixels = np.asarray(canon.draw_text(*spec))
    inked = np.argwhere((pixels != ground).any(axis=2))
    assert pixels.shape == (size[1], size[0], 3)
    assert inked.size
    assert inked.min() > 0
    assert (inked.max(axis=0) < np.array(pixels.shape[:2]) - 1).all()


@pytest.mark.parametrize("clip", canon.VIDEOS, ids=lambda clip: clip[0])
def test_a_clip_changes_from_its_first_to_its_last_frame(clip):
    frames = clip[1]()
    assert frames.shape[1:] == (128, 128, 3)
    assert frames.dtype == np.uint8
    assert (frames[0] != frames[-1]).any()


def test_an_unknown_shape_is_refused():
    with pytest.raises(ValueError, match="blob"):
        canon.draw((64, 64), canon.W, [("blob", "red", 32, 32, 10)])


def test_fragile_prompts_are_prompts():
    asked = {(name, question) for name, *_, questions in canon.SPECS for question, _ in questions}
    assert canon.FRAGILE - {("which both", "")} <= asked


def test_the_recipe_writes_the_shipped_configuration(tmp_path):
    shutil.copy(MODEL / "tokenizer.json", tmp_path)
    load("write_config").write(tmp_path)
    written = [path for path in tmp_path.iterdir() if path.name != "tokenizer.json"]
    assert len(written) == 5
    for path in written:
        assert path.read_text() == (MODEL / path.name).read_text(), path.name
