"""Models on this computer are found, described and judged by their files alone."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from engine.memory import Machine
from engine.models.fit import LONG_CHAT_TOKENS, Fit, cache_cost, estimate
from engine.models.local import examine, find_models, hub_cache, snapshot
from engine.models.weights import read_weights
from tests.engine.conftest import POCKET
from tests.hub import tiny_model

COMMIT = "abc123"
SECOND = "model-00002-of-00002.safetensors"


def put(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def needed() -> dict[str, bytes]:
    return {name: content for name, content in tiny_model().items() if "/" not in name and "consolidated" not in name}


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    put(tmp_path / "models--owner--Tiny-VL-4bit" / "snapshots" / COMMIT, needed())
    return tmp_path


def test_the_embedded_model_is_whole_and_has_a_head() -> None:
    model = examine(POCKET)
    assert (model.name, model.repo, model.problem, model.missing) == ("pocket", "", "", ())
    assert model.weights.prediction_head
    assert model.disk_bytes == sum(file.stat().st_size for file in POCKET.iterdir())


def test_a_model_of_the_hub_s_cache_is_known_by_its_id(cache: Path) -> None:
    (model,) = find_models(cache, ())
    assert (model.repo, model.name, model.problem) == ("owner/Tiny-VL-4bit", "Tiny-VL-4bit", "")
    assert model.home == cache / "models--owner--Tiny-VL-4bit"
    assert not model.weights.prediction_head


def test_missing_files_are_named(cache: Path) -> None:
    (cache / "models--owner--Tiny-VL-4bit" / "snapshots" / COMMIT / SECOND).unlink()
    (model,) = find_models(cache, ())
    assert model.missing == (SECOND,)
    assert f"not complete: {SECOND} is missing" in model.problem
    assert model.resumable


@pytest.mark.parametrize("length", [0, 5, 40, 1000])
def test_a_file_that_was_cut_counts_as_missing(tmp_path: Path, length: int) -> None:
    folder = put(tmp_path / "m", needed())
    os.truncate(folder / SECOND, length)
    assert read_weights(folder).missing == (SECOND,)
    assert not examine(folder).resumable  # nobody knows where it came from


def test_many_missing_files_are_counted(tmp_path: Path) -> None:
    index = {"weight_map": {str(n): f"model-{n}.safetensors" for n in range(6)}}
    folder = put(tmp_path / "m", needed() | {"model.safetensors.index.json": json.dumps(index).encode()})
    for file in folder.glob("*.safetensors"):
        file.unlink()
    assert "model-0.safetensors, model-1.safetensors, model-2.safetensors and 3 more are missing" in (
        examine(folder).problem
    )


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"weight_map": 3}'])
def test_a_damaged_index_counts_as_missing(tmp_path: Path, content: bytes) -> None:
    folder = put(tmp_path / "m", needed() | {"model.safetensors.index.json": content})
    assert examine(folder).missing == ("model.safetensors.index.json",)


def test_a_family_that_cannot_run_is_listed_with_the_reason(tmp_path: Path) -> None:
    put(tmp_path / "models--o--odd" / "snapshots" / COMMIT, tiny_model(family="odd_vl"))
    (model,) = find_models(tmp_path, ())
    assert "family “odd_vl”" in model.problem


def test_other_things_in_the_cache_are_not_models(tmp_path: Path) -> None:
    put(tmp_path / "models--o--pipeline" / "snapshots" / COMMIT, {"model_index.json": b"{}"})
    put(tmp_path / "models--o--tool" / "snapshots" / COMMIT, {"config.json": b'{"n": 1}'})
    put(tmp_path / "datasets--o--d" / "snapshots" / COMMIT, {"config.json": b"{}"})
    (tmp_path / "models--o--empty").mkdir()
    assert find_models(tmp_path, ()) == []


def test_the_snapshot_of_the_main_branch_is_taken_else_the_newest(tmp_path: Path) -> None:
    old, new = tmp_path / "snapshots" / "old", tmp_path / "snapshots" / "new"
    old.mkdir(parents=True)
    new.mkdir()
    os.utime(old, (1, 1))
    assert snapshot(tmp_path) == new
    (tmp_path / "refs").mkdir()
    (tmp_path / "refs" / "main").write_text("old\n")
    assert snapshot(tmp_path) == old
    (tmp_path / "refs" / "main").write_text("gone")
    assert snapshot(tmp_path) == new


def test_chosen_folders_are_searched_by_owner_and_model_and_nothing_twice(cache: Path, tmp_path: Path) -> None:
    chosen = tmp_path / "chosen"
    put(chosen / "owner" / "name", needed())
    shutil.copytree(POCKET, chosen / "pocket")
    put(chosen / ".hidden" / "name", needed())
    found = find_models(cache, [chosen, chosen / "pocket", chosen, tmp_path / "nowhere"])
    assert sorted(model.name for model in found) == ["Tiny-VL-4bit", "name", "pocket"]


def test_a_chosen_folder_may_be_a_model_itself(tmp_path: Path) -> None:
    assert [model.name for model in find_models(tmp_path, [POCKET])] == ["pocket"]


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"HF_HUB_CACHE": "/a"}, "/a"),
        ({"HUGGINGFACE_HUB_CACHE": "/b"}, "/b"),
        ({"HF_HOME": "/c"}, "/c/hub"),
        ({"XDG_CACHE_HOME": "/d"}, "/d/huggingface/hub"),
        ({}, str(Path("~/.cache/huggingface/hub").expanduser())),
    ],
)
def test_the_cache_is_where_the_hub_s_library_has_it(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: str
) -> None:
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert str(hub_cache()) == expected


# -------------------------------------------------------------------- whether it fits


def test_the_price_of_a_chat_equals_what_the_caches_measure(pocket: tuple[object, object]) -> None:
    from engine import device
    from engine.models.families import open_port

    port = open_port(*pocket)  # type: ignore[arg-type]
    measured = device.home().run_here(port.measure)
    item = 4 if device.home().backend == "cpu" else 2
    assert cache_cost(examine(POCKET).config, item) == measured


def test_weights_in_memory_equal_what_is_loaded(pocket: tuple[object, object]) -> None:
    from mlx.utils import tree_flatten

    from engine import device

    model, _ = pocket
    loaded = sum(array.nbytes for _, array in tree_flatten(model.parameters()))  # type: ignore[attr-defined]
    told = examine(POCKET).weights.loaded_bytes(as_float32=device.home().backend == "cpu")
    assert told == pytest.approx(loaded, rel=0.02)


def test_sliding_layers_cost_no_more_than_their_window() -> None:
    text = {"num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
    full = cache_cost(text, 2)
    sliding = cache_cost(text | {"sliding_window": 512, "sliding_window_pattern": 6}, 2)
    assert [layer.window for layer in sliding.layers] == [512] * 5 + [None]
    assert sliding.bytes(20_000) < full.bytes(20_000) / 4


def test_a_config_of_unknown_make_is_priced_by_its_weights_alone() -> None:
    fit = estimate({"model_type": "odd"}, 1000, None, Machine(10**10, 10**10), as_float32=False, limit=None)
    assert (fit.weights, fit.chat, fit.tokens) == (1000, 0, LONG_CHAT_TOKENS)


@pytest.mark.parametrize(("weights", "verdict"), [(7, "fits"), (13, "tight"), (16, "too large")])
def test_the_verdict_is_one_word(weights: int, verdict: str) -> None:
    machine = Machine(limit=16 * 10**9, available=10**9)
    fit = estimate({}, weights * 10**9, 8192, machine, as_float32=False, limit=None)
    assert (fit.verdict, fit.budget) == (verdict, int(0.9 * 16 * 10**9))


def test_the_person_s_own_limit_wins() -> None:
    fit = estimate({}, 5 * 10**9, 8192, Machine(16 * 10**9, 0), as_float32=False, limit=4 * 10**9)
    assert fit == Fit(5 * 10**9, 0, 4 * 10**9, 8192)
    assert fit.verdict == "too large"
