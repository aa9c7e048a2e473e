"""The reference: mlx-vlm's own model code on one request, prefilled at once; nothing of our batch or port."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_vlm.models.cache import make_prompt_cache

from engine import device


def solo(
    model: Any,
    processor: Any,
    prompt: str,
    images: Sequence[Any] = (),
    max_tokens: int = 16,
    stop_ids: Sequence[int] = (),
) -> list[int]:
    """The greedy answer of one request that has the model to itself; the stop token, if one comes, is its last."""
    return device.home().run_here(lambda: _answer(model, processor, prompt, images, max_tokens, stop_ids))


def first_logits(model: Any, processor: Any, prompt: str, images: Sequence[Any] = ()) -> np.ndarray:
    """Logits ``(vocab,)`` float32 of the first answer token after a one-shot prefill."""

    def run() -> np.ndarray:
        logits, _, _ = _prefill(model, processor, prompt, images)
        return np.array(logits[0, -1].astype(mx.float32))

    return device.home().run_here(run)


def inputs(processor: Any, prompt: str, images: Sequence[Any] = ()) -> dict[str, np.ndarray]:
    """What mlx-vlm's processor makes of a prompt, as NumPy arrays."""
    found = processor(text=[prompt], images=list(images) or None)
    return {name: np.array(value) for name, value in found.items() if value is not None}


def _prefill(model: Any, processor: Any, prompt: str, images: Sequence[Any]) -> tuple[mx.array, list[Any], Any]:
    arrays = {name: mx.array(value) for name, value in inputs(processor, prompt, images).items()}
    ids, pixels = arrays.pop("input_ids"), arrays.pop("pixel_values", None)
    arrays.pop("attention_mask", None)
    features = model.get_input_embeddings(ids, pixels, **arrays)
    extra = {name: value for name, value in features.to_dict().items() if value is not None}
    cache = make_prompt_cache(model.language_model)
    logits = model.language_model(ids, cache=cache, **extra).logits
    return logits, cache, features.rope_deltas


def _answer(
    model: Any, processor: Any, prompt: str, images: Sequence[Any], max_tokens: int, stop_ids: Sequence[int]
) -> list[int]:
    logits, cache, deltas = _prefill(model, processor, prompt, images)
    tokens: list[int] = []
    while True:
        tokens.append(int(mx.argmax(logits[0, -1]).item()))
        if len(tokens) == max_tokens or tokens[-1] in stop_ids:
            return tokens
        logits = model.language_model(mx.array([tokens[-1:]]), cache=cache, rope_deltas=deltas).logits
