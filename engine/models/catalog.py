"""What a model folder holds, told by its files alone: no MLX, nothing loaded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import ModelLoadError
from engine.messages import MediaKind

_PICTURES: frozenset[MediaKind] = frozenset({"image"})
_MOVING: frozenset[MediaKind] = frozenset({"image", "video"})
_TEXT: frozenset[MediaKind] = frozenset()
FAMILIES: dict[str, frozenset[MediaKind]] = {
    "qwen3_5": _MOVING,
    "qwen3_5_moe": _MOVING,
    "qwen3_vl": _MOVING,
    "qwen3_vl_moe": _MOVING,
    "qwen2_vl": _MOVING,
    "qwen2_5_vl": _MOVING,
    "gemma3": _PICTURES,
    "gemma4": _MOVING | {"audio"},
    "gemma3_text": _TEXT,
    "gemma4_text": _TEXT,
    "llama": _TEXT,
    "qwen2": _TEXT,
    "qwen3": _TEXT,
    "qwen3_moe": _TEXT,
}
"""Supported families by the ``model_type`` of config.json, and what each takes."""


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What a model folder holds.

    Attributes:
        name: fit for a person.
        family: the ``model_type`` of its config.json.
        supported: whether Braid can run it.
        size_bytes: of its weights on disk.
        takes: kinds of media it reads.
        precision: such as ``4 bit`` or ``bfloat16``.
        context: most tokens of one conversation; None if config.json does not say.
        has_mtp: whether it carries a head that predicts several tokens at once.
    """

    name: str
    family: str
    supported: bool
    size_bytes: int
    takes: frozenset[MediaKind]
    precision: str
    context: int | None
    has_mtp: bool


def describe(folder: Path) -> ModelCard:
    """Read a model folder's config.json and the sizes of its weights.

    Raises:
        ModelLoadError: there is no readable config.json.
    """
    config = _config(folder)
    text = config.get("text_config") or config
    family = str(config.get("model_type", ""))
    return ModelCard(
        name=_name(folder),
        family=family,
        supported=family in FAMILIES,
        size_bytes=sum(file.stat().st_size for file in folder.glob("*.safetensors")),
        takes=_takes(config, FAMILIES.get(family, _TEXT)),
        precision=_precision(config, text),
        context=text.get("max_position_embeddings"),
        has_mtp=bool(text.get("mtp_num_hidden_layers") or text.get("num_nextn_predict_layers")),
    )


def _config(folder: Path) -> dict[str, Any]:
    file = folder / "config.json"
    try:
        config = json.loads(file.read_text("utf-8"))
    except FileNotFoundError as error:
        raise ModelLoadError(f"“{folder.name}” is not a model folder: it holds no config.json.") from error
    except (OSError, ValueError) as error:
        raise ModelLoadError(f"The config.json of “{folder.name}” cannot be read. Download the model again.") from error
    if not isinstance(config, dict):
        raise ModelLoadError(f"The config.json of “{folder.name}” cannot be read. Download the model again.")
    return config


def _name(folder: Path) -> str:
    """The folder's name; for a snapshot in the Hugging Face cache the repository's."""
    for parent in folder.parents:
        if parent.name.startswith("models--"):
            return parent.name.rpartition("--")[2]
    return folder.name


def _takes(config: Mapping[str, Any], family: frozenset[MediaKind]) -> frozenset[MediaKind]:
    """What the family takes, less the towers that this model was saved without."""
    vision, audio = config.get("vision_config"), config.get("audio_config")
    taken = set(family)
    if not vision or vision.get("skip_vision"):
        taken -= _MOVING
    if not audio:
        taken -= {"audio"}
    return frozenset(taken)


def _precision(config: Mapping[str, Any], text: Mapping[str, Any]) -> str:
    quantisation = config.get("quantization") or config.get("quantization_config") or {}
    if bits := quantisation.get("bits"):
        return f"{bits} bit"
    return str(config.get("dtype") or config.get("torch_dtype") or text.get("dtype") or "unknown")
