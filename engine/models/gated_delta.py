"""The gated delta rule without a Metal kernel, in fewer steps than mlx-vlm takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mx
from mlx_vlm.models.qwen3_5 import gated_delta

_SMALLEST, _WHOLE = 8, 64
_ONE_BY_ONE = 4
"""Chunks up to this long are computed token by token, without any block."""


def shorten() -> None:
    """Compute short chunks in blocks of their own size, and solve a block by halves; calling it again changes nothing.

    Off Metal, mlx-vlm 0.7.10 pads every chunk to blocks of 64 and solves a triangular system of that size row by row:
    on a CPU two tokens cost seven times one, on a GPU a chunk of any size is thousands of small kernels.
    """
    if not isinstance(gated_delta.gated_delta_chunked, _Fitted):
        gated_delta.gated_delta_chunked = _Fitted(gated_delta.gated_delta_chunked)
        gated_delta._invert_unit_lower = inverse  # noqa: SLF001 - there is no public one


class _Fitted:
    def __init__(self, chunked: Callable[..., tuple[mx.array, mx.array]]) -> None:
        self._chunked = chunked

    def __call__(self, q: mx.array, *args: Any, **kwargs: Any) -> tuple[mx.array, mx.array]:
        if q.shape[1] <= _ONE_BY_ONE:
            one_by_one: tuple[mx.array, mx.array] = gated_delta.gated_delta_ops(q, *args, **kwargs)
            return one_by_one
        return self._chunked(q, *args, **{"C": block(q.shape[1]), **kwargs})


def block(tokens: int) -> int:
    """Block size for a chunk of so many tokens: the next power of two, within limits."""
    return min(max(1 << (tokens - 1).bit_length(), _SMALLEST), _WHOLE)


def inverse(lower: mx.array, size: int) -> mx.array:
    """Inverses of unit lower triangular matrices ``(..., size, size)``; ``size`` is a power of two.

    By halves: ``[[A, 0], [B, D]]`` has the inverse ``[[A', 0], [-D' B A', D']]``; A and D are inverted side by side.
    """
    if size <= 2:
        return 2 * mx.eye(size, dtype=lower.dtype) - lower
    half = size // 2
    first, second = lower[..., :half, :half], lower[..., half:, half:]
    a, d = mx.split(inverse(mx.stack([first, second]), half), 2)
    a, d = a[0], d[0]
    below = -(d @ lower[..., half:, :half] @ a)
    above = mx.zeros_like(below)
    return mx.concatenate([mx.concatenate([a, above], axis=-1), mx.concatenate([below, d], axis=-1)], axis=-2)
