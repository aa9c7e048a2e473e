"""Whether a model fits this machine: its weights and one long chat against the memory budget, before loading it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from engine.memory import CacheCost, LayerCost, Machine

Verdict = Literal["fits", "tight", "too large"]

LONG_CHAT_TOKENS = 32_768
_CACHE_STEP = 256
"""Tokens by which MLX's attention caches grow."""
_TIGHT = 0.8
"""Part of the budget above which pictures and second chats have little room left."""
_MAC_SHARE = 2 / 3
"""Part of the memory that Metal recommends to use on a small Mac; larger ones may use more."""


@dataclass(frozen=True, slots=True)
class Fit:
    """An estimate in bytes.

    Attributes:
        weights: of the model in memory.
        chat: of one long chat's caches.
        budget: what model, caches and activations may take together on this machine.
        tokens: length of that chat.
    """

    weights: int
    chat: int
    budget: int
    tokens: int

    @property
    def need(self) -> int:
        """Weights and chat together."""
        return self.weights + self.chat

    @property
    def verdict(self) -> Verdict:
        """The estimate in a word."""
        if self.need > self.budget:
            return "too large"
        return "tight" if self.need > _TIGHT * self.budget else "fits"


def estimate(
    config: Mapping[str, Any],
    weights: int,
    context: int | None,
    machine: Machine,
    *,
    as_float32: bool,
    limit: int | None,
) -> Fit:
    """Estimate a model's need.

    Args:
        config: its config.json.
        weights: bytes of its weights in memory.
        context: its longest conversation in tokens; None if unknown.
        machine: memory of this machine.
        as_float32: caches hold 32-bit numbers, as on MLX's CPU backend.
        limit: the person's own memory limit in bytes, if any.
    """
    tokens = min(context or LONG_CHAT_TOKENS, LONG_CHAT_TOKENS)
    chat = cache_cost(config, 4 if as_float32 else 2).bytes(tokens)
    return Fit(weights, chat, machine.budget(limit), tokens)


def this_machine(backend: str | None, limit: int | None) -> tuple[Machine, bool]:
    """Memory of this machine, and whether models run in 32 bits here.

    Args:
        backend: MLX's, once it is known; before that the platform's usual one.
        limit: bytes that it recommends, once they are known; before that what macOS usually grants the GPU.
    """
    import psutil

    mac = sys.platform == "darwin"
    memory = psutil.virtual_memory()
    usual = memory.total * (_MAC_SHARE if mac else 1)
    return Machine(int(limit or usual), int(memory.available)), (backend or ("metal" if mac else "cpu")) == "cpu"


def cache_cost(config: Mapping[str, Any], item_bytes: int) -> CacheCost:
    """How a row's caches grow, by config.json alone."""
    text = config.get("text_config") or config
    try:
        return CacheCost(tuple(_layer(text, kind, item_bytes) for kind in _layer_types(text)))
    except (KeyError, TypeError, ZeroDivisionError):
        return CacheCost()  # a config without the usual names: only its weights are counted


def _layer_types(text: Mapping[str, Any]) -> list[str]:
    """Each layer's kind of attention."""
    if types := text.get("layer_types"):
        return list(types)
    count = int(text["num_hidden_layers"])
    if every := text.get("full_attention_interval"):
        other = "linear_attention"
    elif every := text.get("sliding_window_pattern"):
        other = "sliding_attention"
    else:
        return ["full_attention"] * count
    return [other if (number + 1) % every else "full_attention" for number in range(count)]


def _layer(text: Mapping[str, Any], kind: str, item_bytes: int) -> LayerCost:
    if kind == "linear_attention":
        return LayerCost(fixed=_recurrent_bytes(text, item_bytes))
    heads = text["num_attention_heads"]
    size = text.get("head_dim") or text["hidden_size"] // heads
    per_token = 2 * (text.get("num_key_value_heads") or heads) * size * item_bytes
    window = text.get("sliding_window") if kind == "sliding_attention" else None
    return LayerCost(per_token=per_token, step=_CACHE_STEP, window=window)


def _recurrent_bytes(text: Mapping[str, Any], item_bytes: int) -> int:
    """State of a gated-delta layer: the last inputs of its convolution, and one matrix per head in 32 bits."""
    keys = text["linear_num_key_heads"] * text["linear_key_head_dim"]
    values = text["linear_num_value_heads"] * text["linear_value_head_dim"]
    convolution = (text["linear_conv_kernel_dim"] - 1) * (2 * keys + values) * item_bytes
    return int(convolution + values * text["linear_key_head_dim"] * 4)
