"""A model folder is described without loading anything."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.errors import ModelLoadError
from engine.models import catalog
from engine.models.catalog import describe

POCKET = Path(__file__).parents[3] / "resources" / "pocket"


def _folder(path: Path, **config: Any) -> Path:
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps(config), "utf-8")
    (path / "model-00001.safetensors").write_bytes(b"x" * 100)
    (path / "model-00002.safetensors").write_bytes(b"x" * 50)
    return path


def test_the_demo_model_is_described() -> None:
    card = describe(POCKET)
    assert (card.name, card.family, card.supported, card.context) == ("pocket", "qwen3_5", True, 8192)
    assert card.takes == {"image", "video"}
    assert card.precision == "bfloat16"
    assert card.has_mtp
    assert card.size_bytes == (POCKET / "model.safetensors").stat().st_size


def test_a_cached_quantised_text_only_model(tmp_path: Path) -> None:
    folder = _folder(
        tmp_path / "models--mlx-community--Qwen3-VL-4B-4bit" / "snapshots" / "abc",
        model_type="qwen3_vl",
        quantization={"bits": 4, "group_size": 64},
        text_config={"max_position_embeddings": 262144},
        vision_config=None,
    )
    card = describe(folder)
    assert card.name == "Qwen3-VL-4B-4bit"
    assert card.precision == "4 bit"
    assert card.takes == frozenset()
    assert card.size_bytes == 150
    assert not card.has_mtp


def test_an_unknown_family_is_not_supported(tmp_path: Path) -> None:
    card = describe(_folder(tmp_path / "odd", model_type="odd_vl", vision_config={"depth": 1}))
    assert not card.supported
    assert card.takes == frozenset()
    assert card.context is None


@pytest.mark.parametrize("text", [None, "not json", "[1]"])
def test_what_is_no_model_is_refused_with_a_sentence(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "config.json").write_text(text)
    with pytest.raises(ModelLoadError, match=r"config\.json"):
        describe(tmp_path)


def test_every_supported_family_has_a_port() -> None:
    from engine.models import families

    assert set(catalog.FAMILIES) == set(families.FAMILIES)


def test_describing_loads_no_mlx() -> None:
    code = f"import sys, pathlib, engine.models.catalog as catalog; catalog.describe(pathlib.Path({str(POCKET)!r})); "
    code += "sys.exit(any(name.split('.')[0] in ('mlx', 'mlx_vlm', 'PySide6') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=POCKET.parents[1]).returncode == 0
