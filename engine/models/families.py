"""Which port serves which family of models."""

from __future__ import annotations

from typing import Any

import mlx.nn as nn

from engine.errors import ModelLoadError
from engine.models.gemma import Gemma3Port, Gemma4Port
from engine.models.port import Port
from engine.models.qwen_vl import EarlierQwenPort, HybridQwenPort, QwenPort

FAMILIES: dict[str, type[Port]] = {
    "qwen3_5": HybridQwenPort,
    "qwen3_5_moe": HybridQwenPort,
    "qwen3_vl": QwenPort,
    "qwen3_vl_moe": QwenPort,
    "qwen2_vl": EarlierQwenPort,
    "qwen2_5_vl": EarlierQwenPort,
    "gemma3": Gemma3Port,
    "gemma4": Gemma4Port,
    "gemma3_text": Port,
    "gemma4_text": Port,
    "llama": Port,
    "qwen2": Port,
    "qwen3": Port,
    "qwen3_moe": Port,
}


def open_port(model: nn.Module, processor: Any) -> Port:
    """A port to a loaded model; the processor remembers the last one, for callers who hold nothing else.

    Raises:
        ModelLoadError: the model's family is not supported.
    """
    family = FAMILIES.get(model.config.model_type)
    if family is None:
        raise ModelLoadError(f"Models of type “{model.config.model_type}” are not supported yet. Choose another model.")
    port, last = family(model, processor), getattr(processor, "port", None)
    if isinstance(last, Port) and last.model is model:
        port.cache_cost = last.cache_cost
    processor.port = port
    return port
