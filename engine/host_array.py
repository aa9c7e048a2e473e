"""Device arrays as host buffers and back, bit by bit: NumPy has no bfloat16, so its bits travel as uint16."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class HostArray:
    """One array in host memory.

    Attributes:
        dtype: as safetensors names it: ``F32``, ``BF16``, ``U32``...
        data: the values, or their bits where NumPy has no such type.
    """

    dtype: str
    data: NDArray[Any]

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.data.nbytes


HostArrays = dict[str, HostArray]

NUMPY_DTYPES: dict[str, Any] = {
    "F32": np.float32,
    "F16": np.float16,
    "BF16": np.uint16,
    "U64": np.uint64,
    "U32": np.uint32,
    "U16": np.uint16,
    "U8": np.uint8,
    "I64": np.int64,
    "I32": np.int32,
    "I16": np.int16,
    "I8": np.int8,
    "BOOL": np.bool_,
}
_NAMES = {np.dtype(kind): name for name, kind in NUMPY_DTYPES.items() if name != "BF16"}


def to_host(arrays: Mapping[str, mx.array]) -> HostArrays:
    """Unit: copies in host memory."""
    host: HostArrays = {}
    for name, array in arrays.items():
        if array.dtype == mx.bfloat16:
            host[name] = HostArray("BF16", np.array(array.view(mx.uint16)))
        else:
            host[name] = of_numpy(np.array(array))
    return host


def of_numpy(data: NDArray[Any]) -> HostArray:
    """A NumPy array under its safetensors name."""
    return HostArray(_NAMES[data.dtype], data)


def to_device(arrays: Mapping[str, HostArray | mx.array]) -> dict[str, mx.array]:
    """Unit: device arrays, lazily; those that are on the device already stay as they are."""
    device: dict[str, mx.array] = {}
    for name, array in arrays.items():
        if isinstance(array, mx.array):
            device[name] = array
        else:
            device[name] = mx.array(array.data).view(mx.bfloat16) if array.dtype == "BF16" else mx.array(array.data)
    return device
