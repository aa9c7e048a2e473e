"""Convolutions computed as sums and products give what MLX's own give."""

from __future__ import annotations

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import tree_flatten
from numpy.typing import NDArray

from engine.models.convolutions import Depthwise, PerPatch, simplify
from engine.models.families import open_port
from tests.engine import tiny

off_metal = pytest.mark.skipif(mx.metal.is_available(), reason="on Metal MLX's own convolutions stay")


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16])
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("tokens", [1, 2, 9])
def test_shifted_products_are_the_depthwise_convolution(dtype: mx.Dtype, rows: int, tokens: int) -> None:
    mx.random.seed(tokens)
    theirs = nn.Conv1d(24, 24, 4, groups=24, bias=False)
    theirs.set_dtype(dtype)
    x = mx.random.normal((rows, tokens + 3, 24)).astype(dtype)
    got, want = Depthwise(theirs)(x), theirs(x)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    exact = _exact(x, theirs.weight)
    error = np.abs(np.array(got.astype(mx.float32)) - exact).max()
    theirs_error = np.abs(np.array(want.astype(mx.float32)) - exact).max()
    assert error <= max(theirs_error, 1e-6)


def _exact(x: mx.array, weight: mx.array) -> NDArray[np.float64]:
    """In float64."""
    signal, taps = np.array(x.astype(mx.float32), np.float64), np.array(weight.astype(mx.float32), np.float64)[:, :, 0]
    length = signal.shape[1] - taps.shape[1] + 1
    windows = np.stack([signal[:, i : i + length] for i in range(taps.shape[1])])
    total: NDArray[np.float64] = np.einsum("tblc,ct->blc", windows, taps)
    return total


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16])
def test_a_matrix_product_is_the_convolution_of_patches(bias: bool, dtype: mx.Dtype) -> None:
    mx.random.seed(1)
    theirs = nn.Conv3d(3, 16, kernel_size=(2, 4, 4), stride=(2, 4, 4), bias=bias)
    theirs.set_dtype(dtype)
    x = mx.random.normal((5, 2, 4, 4, 3)).astype(dtype)
    got, want = PerPatch(theirs)(x).reshape(-1), theirs(x).reshape(-1)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(np.array(got.astype(mx.float32)), np.array(want.astype(mx.float32)), atol=2e-2)


@off_metal
def test_a_port_replaces_them_and_keeps_every_weight() -> None:
    model, processor = tiny.hybrid()
    before = _shapes(model)
    open_port(model, processor)
    assert isinstance(model.vision_tower.patch_embed.proj, PerPatch)
    replaced = [layer.linear_attn.conv1d for layer in model.language_model.model.layers if layer.is_linear]
    assert replaced
    assert all(isinstance(convolution, Depthwise) for convolution in replaced)
    assert _shapes(model) == before
    simplify(model)
    assert [layer.linear_attn.conv1d for layer in model.language_model.model.layers if layer.is_linear] == replaced


def _shapes(model: nn.Module) -> dict[str, tuple[int, ...]]:
    weights: dict[str, mx.array] = dict(tree_flatten(model.parameters()))
    return {path: array.shape for path, array in weights.items()}
