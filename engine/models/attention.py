"""The attention of vision towers where MLX has no fused kernel for it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import mlx.core as mx
import mlx.nn as nn

_MOST_SCORES = 256_000_000
"""Bytes of scores in one part."""


def bound_scores(model: nn.Module) -> None:
    """Let a model's vision tower attend a part of its queries at a time; calling it again changes nothing.

    Off Metal MLX 0.32.4 computes all scores at once: 10 GB for a screenshot of three megapixels in float32.
    """
    if model.vision_tower is None:
        return
    module = sys.modules[type(model.vision_tower.blocks[0].attn).__module__]
    attend = getattr(module, "ensure_fused_sdpa", None)
    if attend is not None and not mx.metal.is_available() and not isinstance(attend, InParts):
        module.ensure_fused_sdpa = InParts(attend)  # type: ignore[attr-defined]


class InParts:
    """Attention of queries ``(1, heads, n, width)`` to keys and values of as many, in parts of few enough queries."""

    def __init__(self, attend: Callable[..., mx.array], most_scores: int = _MOST_SCORES) -> None:
        self._attend, self._most = attend, most_scores

    def __call__(self, q: mx.array, k: mx.array, v: mx.array, scale: float, mask: Any = None) -> mx.array:
        """As the attention it was made of; a mask is for all queries at once."""
        at_once = max(self._most // (q.shape[1] * k.shape[2] * q.dtype.size), 1)
        if mask is not None or q.shape[2] <= at_once:
            return self._attend(q, k, v, scale, mask)
        done: list[mx.array] = []
        for part in mx.split(q, list(range(at_once, q.shape[2], at_once)), axis=2):
            # One after another: MLX would begin with the scores of all.
            queries = mx.depends([part], done[-1:])[0] if done else part
            done.append(self._attend(queries, k, v, scale))
        return mx.concatenate(done, axis=2)
