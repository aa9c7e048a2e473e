"""What the weight files of a model folder hold, by their headers alone."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_INDEX = "model.safetensors.index.json"
_LONGEST_HEADER = 100_000_000
"""Bytes; the format's own limit."""
_HALVES = ("BF16", "F16")


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of one folder.

    Attributes:
        tensor_bytes: by safetensors' name of the element type, such as ``BF16``.
        prediction_head: whether a head that predicts several tokens at once (``mtp.*``) is among them.
        missing: files that the index names but that are not there, or not whole.
    """

    tensor_bytes: Mapping[str, int] = field(default_factory=dict)
    prediction_head: bool = False
    missing: tuple[str, ...] = ()

    def loaded_bytes(self, *, as_float32: bool) -> int:
        """Bytes in memory; `as_float32` where half-precision weights are widened, as on MLX's CPU backend."""
        halves = sum(self.tensor_bytes.get(kind, 0) for kind in _HALVES)
        return sum(self.tensor_bytes.values()) + (halves if as_float32 else 0)


def read_weights(folder: Path) -> Weights:
    """Read the headers of all weight files; a file that cannot be read counts as missing."""
    files = sorted(folder.glob("*.safetensors"))
    missing = _indexed(folder) - {file.name for file in files}
    sizes: Counter[str] = Counter()
    head = False
    for file in files:
        try:
            tensors = _tensors(file)
            sizes.update(_tensor_bytes(tensors))
            head = head or any(name.startswith("mtp.") for name in tensors)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            missing.add(file.name)  # cut short, or something else under this name
    return Weights(dict(sizes), head, tuple(sorted(missing)))


def _indexed(folder: Path) -> set[str]:
    """Files that the index of a split model names."""
    try:
        index = json.loads((folder / _INDEX).read_text("utf-8"))
        return set(map(str, index["weight_map"].values()))
    except FileNotFoundError:
        return set()
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {_INDEX}


def _tensors(file: Path) -> dict[str, Any]:
    """Name → description of each tensor of one file: an 8-byte length, a JSON header, then the tensors.

    Raises:
        ValueError: the file is shorter than its header says, or has none.
    """
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if not 0 < length <= _LONGEST_HEADER:
            raise ValueError("no header")
        header: dict[str, Any] = json.loads(stream.read(length))
        size = stream.seek(0, 2)
    header.pop("__metadata__", None)
    if 8 + length + max((tensor["data_offsets"][1] for tensor in header.values()), default=0) > size:
        raise ValueError("cut short")
    return header


def _tensor_bytes(tensors: Mapping[str, Any]) -> Counter[str]:
    """Bytes by element type."""
    found: Counter[str] = Counter()
    for tensor in tensors.values():
        start, stop = tensor["data_offsets"]
        found[tensor["dtype"]] += stop - start
    return found
