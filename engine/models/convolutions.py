"""Convolutions that are something simpler, computed as what they are where MLX has no Metal kernel for them.

MLX 0.32.4 hands every convolution on CUDA to cuDNN, which searches for a plan once for each new shape: 0.15 s, for a
chunk of a length or a batch of a size that was not seen before. On a CPU it walks through them tap by tap.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import mlx.core as mx
import mlx.nn as nn


def simplify(model: nn.Module) -> None:
    """Replace the convolutions of a model that are sums of shifted products, or matrix products; twice changes nothing.

    Paths and shapes of all weights stay.
    """
    if mx.metal.is_available():
        return
    for layer in model.language_model.model.layers:
        mixer = getattr(layer, "linear_attn", None)
        if mixer is not None and isinstance(mixer.conv1d, nn.Conv1d):
            mixer.conv1d = Depthwise(mixer.conv1d)
    embed = getattr(model.vision_tower, "patch_embed", None)
    if embed is not None and isinstance(embed.proj, nn.Conv3d):
        embed.proj = PerPatch(embed.proj)


class Depthwise(nn.Module):
    """A convolution of each channel with a few taps of its own, as shifted products summed in float32.

    Its input ``(rows, tokens + taps - 1, channels)`` brings what came before; its output has ``tokens``.
    """

    def __init__(self, convolution: nn.Conv1d) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.weight = convolution.weight  # (channels, taps, 1)

    def __call__(self, x: mx.array) -> mx.array:
        """``(rows, tokens + taps - 1, channels)`` → ``(rows, tokens, channels)``."""
        taps = self.weight.shape[1]
        tokens = x.shape[1] - taps + 1
        shifted = [x[:, i : i + tokens] for i in range(taps)]
        out: mx.array = _weighted(shifted, [self.weight[:, i, 0] for i in range(taps)])
        return out


class PerPatch(nn.Module):
    """A convolution whose input is exactly one kernel large, as a matrix product."""

    def __init__(self, convolution: nn.Conv3d) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.weight = convolution.weight  # (width, *patch, channels)
        self.bias: mx.array | None = convolution.get("bias")

    def __call__(self, x: mx.array) -> mx.array:
        """Patches ``(n, *patch, channels)`` → ``(n, width)``."""
        weight = self.weight.reshape(len(self.weight), -1).T
        out = x.reshape(len(x), -1) @ weight
        return out if self.bias is None else out + self.bias


@partial(mx.compile, shapeless=True)
def _weighted(parts: list[mx.array], weights: list[mx.array]) -> Any:
    total = parts[0].astype(mx.float32) * weights[0]
    for part, weight in zip(parts[1:], weights[1:], strict=True):
        total = total + part.astype(mx.float32) * weight
    return total.astype(parts[0].dtype)
