"""The gated delta rule in blocks of any size is the recurrence, token by token."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from mlx_vlm.models.qwen3_5 import gated_delta

from engine.models.families import open_port
from engine.models.gated_delta import block, inverse, shorten
from tests.engine import tiny


def test_blocks_are_powers_of_two_within_limits() -> None:
    assert [block(tokens) for tokens in (2, 8, 9, 16, 17, 33, 64, 65, 1000)] == [8, 8, 16, 16, 32, 64, 64, 64, 64]


@pytest.mark.parametrize("tokens", [2, 5, 8, 16, 17, 33, 65])
@pytest.mark.parametrize("masked", [False, True])
def test_every_block_size_gives_what_the_recurrence_gives(tokens: int, masked: bool) -> None:
    shorten()
    key = mx.random.split(mx.random.key(tokens), 6)
    q, k, v = (mx.random.normal((2, tokens, 3, 16), key=key[i]) / 4 for i in range(3))
    g, beta = (mx.random.uniform(0.1, 1.0, (2, tokens, 3), key=key[i]) for i in (3, 4))
    state = mx.random.normal((2, 3, 16, 16), key=key[5])
    mask = mx.arange(tokens)[None] < mx.array([[tokens], [tokens - 1]]) if masked else None
    fast, slow = gated_delta.gated_delta_chunked, gated_delta.gated_delta_ops
    (got, got_state), (want, want_state) = (scan(q, k, v, g, beta, state, mask) for scan in (fast, slow))
    seen = np.s_[:] if mask is None else np.array(mask)
    np.testing.assert_allclose(np.array(got)[seen], np.array(want)[seen], atol=1e-5)
    np.testing.assert_allclose(np.array(got_state), np.array(want_state), atol=1e-5)


def test_a_port_sees_to_it_once() -> None:
    open_port(*tiny.hybrid())
    fitted = gated_delta.gated_delta_chunked
    open_port(*tiny.hybrid())
    assert gated_delta.gated_delta_chunked is fitted
    assert type(fitted).__module__ == "engine.models.gated_delta"


@pytest.mark.parametrize("size", [2, 8, 64])
def test_inverses_are_as_exact_as_solving_row_by_row(size: int) -> None:
    entries = np.tril(np.random.default_rng(size).uniform(-1, 1, (2, 3, size, size)), -1) + np.eye(size)
    # Keys that resemble each other give large entries in the inverse: compare relative to them.
    exact = np.linalg.inv(entries)
    scale = np.abs(exact).max(axis=(-2, -1), keepdims=True)
    got = np.array(inverse(mx.array(entries, mx.float32), size))
    np.testing.assert_allclose(got / scale, exact / scale, atol=1e-5)
