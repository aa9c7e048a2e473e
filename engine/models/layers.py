"""A row's state taken out of mlx-vlm's cache layers, and put back into fresh ones.

Attention layers keep keys and values by position, so any run of positions can be stored by itself. The state of the
other layers (recurrent, sliding window) belongs to one length only and is stored whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten, tree_unflatten
from mlx_vlm.models.cache import BatchKVCache, KVCache

Arrays = dict[str, mx.array]
_STEP = 256
"""Positions by which attention buffers grow."""


@dataclass(frozen=True, slots=True)
class State:
    """What the layers without positions hold at one length.

    Attributes:
        arrays: by ``layer.part``; on the host when they come from disk.
        meta: per layer the plain values that belong to its arrays.
    """

    arrays: Mapping[str, Any]
    meta: dict[str, list[str]]


def has_state(cache: Sequence[Any]) -> bool:
    """Whether a model's cache holds layers that can only be resumed at the very length they were stored at."""
    return not all(map(is_attention, cache))


def take_attention(cache: Sequence[Any], row: int, length: int, start: int, stop: int) -> Arrays:
    """Copies of a row's keys and values ``(1, heads, stop - start, dim)``, lazily, by ``layer.k`` and ``layer.v``.

    Args:
        cache: the scalar or batch caches that hold the row.
        row: its place in them.
        length: positions it has consumed.
        start: first position wanted.
        stop: position after the last one wanted.

    Raises:
        ValueError: the layers hold another number of positions than that.
    """
    taken: Arrays = {}
    for number, layer in enumerate(cache):
        if not is_attention(layer):
            continue
        # Rows of a batch are aligned at their ends; what stands before is padding.
        first = layer.size() - length
        if first < 0 or (first and isinstance(layer, KVCache)):
            raise ValueError(f"layer {number} holds {layer.size()} positions, not {length}")
        for name, array in (("k", layer.keys), ("v", layer.values)):
            taken[f"{number}.{name}"] = mx.contiguous(array[row : row + 1, :, first + start : first + stop])
    return taken


def take_state(cache: Sequence[Any], row: int) -> State:
    """Copies of what a row's other layers hold now, lazily."""
    arrays: Arrays = {}
    meta: dict[str, list[str]] = {}
    for number, layer in enumerate(cache):
        if is_attention(layer):
            continue
        scalar = layer.extract(row) if _rows(layer) > 1 else layer
        # New array objects: some layers write into theirs in place.
        arrays |= {f"{number}.{name}": mx.contiguous(array) for name, array in _parts(scalar).items()}
        if scalar.meta_state:
            meta[str(number)] = [str(value) for value in scalar.meta_state]
    return State(arrays, meta)


def is_attention(layer: Any) -> bool:
    """Whether a layer keeps keys and values by position."""
    return type(layer) in (KVCache, BatchKVCache)


def of_layer(arrays: Mapping[str, Any], number: int) -> dict[str, Any]:
    """What belongs to one layer, without its number in the names."""
    prefix = f"{number}."
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def put_attention(layer: Any, runs: Sequence[Arrays], length: int) -> None:
    """Fill a fresh scalar layer with the first ``length`` positions of consecutive runs of ``k`` and ``v``, lazily."""
    spare = (length // _STEP + 1) * _STEP - length
    layer.keys = _joined([run["k"] for run in runs], length, spare)
    layer.values = _joined([run["v"] for run in runs], length, spare)
    layer.offset = length


def put_state(cache: Sequence[Any], state: State) -> None:
    """Give fresh scalar caches the state of the layers without positions."""
    for number, layer in enumerate(cache):
        if is_attention(layer):
            continue
        mine = of_layer(state.arrays, number)
        layer.state = tree_unflatten([(name, mx.contiguous(array)) for name, array in mine.items()])
        if meta := state.meta.get(str(number)):
            layer.meta_state = tuple(meta)


@dataclass(frozen=True, slots=True)
class Codec:
    """How stored keys and values are packed: as they are, or in ``bits`` with one scale per ``group_size`` values."""

    bits: int = 0
    group_size: int = 64

    def pack(self, arrays: Arrays) -> Arrays:
        """Quantise what divides into groups; the rest stays plain."""
        packed: Arrays = {}
        for name, array in arrays.items():
            if not self.bits or array.shape[-1] % self.group_size:
                packed[name] = array
                continue
            parts = mx.quantize(array, group_size=self.group_size, bits=self.bits)
            packed |= {f"{name}.{part}": value for part, value in zip(_PARTS, parts, strict=True)}
        return packed

    def unpack(self, packed: Mapping[str, mx.array]) -> Arrays:
        """What ``pack`` was given, as exactly as its bits allow."""
        arrays: Arrays = {}
        for name, array in packed.items():
            stem, _, part = name.rpartition(".")
            if part not in _PARTS:
                arrays[name] = array
            elif part == _PARTS[0]:
                scales, biases = packed[f"{stem}.{_PARTS[1]}"], packed[f"{stem}.{_PARTS[2]}"]
                arrays[stem] = mx.dequantize(array, scales, biases, group_size=self.group_size, bits=self.bits)
        return arrays


_PARTS = ("packed", "scales", "biases")
PLAIN = Codec()


def nbytes(arrays: Mapping[str, Any]) -> int:
    """Bytes of all arrays; lazy ones are counted without being evaluated."""
    return sum(int(array.nbytes) for array in arrays.values())


def _parts(layer: Any) -> dict[str, mx.array]:
    return dict(tree_flatten(layer.state))


def _rows(layer: Any) -> int:
    return int(next(iter(_parts(layer).values())).shape[0])


def _joined(parts: list[mx.array], length: int, spare: int) -> mx.array:
    whole = parts[0] if len(parts) == 1 else mx.concatenate(parts, axis=2)
    whole = whole[:, :, :length]
    heads, dim = whole.shape[1], whole.shape[3]
    return mx.concatenate([whole, mx.zeros((1, heads, spare, dim), whole.dtype)], axis=2)
