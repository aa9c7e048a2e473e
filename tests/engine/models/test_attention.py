"""Attention in parts gives what attention at once gives, in less memory."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_vlm.models.base import ensure_fused_sdpa

from engine import device
from engine.models.attention import InParts, bound_scores
from engine.models.families import open_port


def _inputs(patches: int) -> list[mx.array]:
    return [mx.random.normal((1, 2, patches, 32), key=key) for key in mx.random.split(mx.random.key(3), 3)]


@pytest.mark.parametrize("patches", [1, 7, 64, 65])
def test_parts_are_the_whole(patches: int) -> None:
    q, k, v = _inputs(patches)
    whole = ensure_fused_sdpa(q, k, v, 0.2)
    parts = InParts(ensure_fused_sdpa, most_scores=16 * 2 * patches * 4)(q, k, v, 0.2)
    np.testing.assert_allclose(np.array(parts), np.array(whole), atol=1e-6)


def test_parts_take_less_memory() -> None:
    def peak(attend: Callable[..., mx.array]) -> int:
        q, k, v = _inputs(4096)
        mx.eval(q, k, v)
        mx.reset_peak_memory()
        before = mx.get_active_memory()
        mx.eval(attend(q, k, v, 0.2))
        return mx.get_peak_memory() - before

    run = device.home().run_here
    scores = 2 * 4096 * 4096 * 4
    assert run(lambda: peak(ensure_fused_sdpa)) > scores
    assert run(lambda: peak(InParts(ensure_fused_sdpa, most_scores=scores // 64))) < scores / 2


@pytest.mark.skipif(mx.metal.is_available(), reason="on Metal MLX's own kernel stays")
def test_a_port_sees_to_it_once(tiny_model: tuple[Any, Any]) -> None:
    model, _ = tiny_model
    open_port(*tiny_model)
    module = sys.modules[type(model.vision_tower.blocks[0].attn).__module__]
    bounded = module.ensure_fused_sdpa
    assert isinstance(bounded, InParts)
    bound_scores(model)
    assert module.ensure_fused_sdpa is bounded
