"""Arrays in a safetensors file with a checksum over all of it; plain Python and NumPy."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from engine.host_array import NUMPY_DTYPES, HostArray, HostArrays

_CHECKSUM = "checksum"
_META = "__metadata__"
_LENGTH_BYTES = 8
_MOST_HEADER = 16 << 20


class DamagedFile(Exception):
    """A file is not what was written."""


def write(file: BinaryIO, arrays: Mapping[str, HostArray], meta: Mapping[str, str]) -> None:
    """Write arrays in their order, and strings beside them.

    Raises:
        OSError: the disk is full or gone.
    """
    header, buffers = _layout(arrays, meta)
    header[_META][_CHECKSUM] = _checksum(header, buffers)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(_LENGTH_BYTES, "little") + text)
    for buffer in buffers:
        file.write(buffer)


def size(arrays: Mapping[str, HostArray], meta: Mapping[str, str]) -> int:
    """Bytes that ``write`` will need, within a few."""
    header, buffers = _layout(arrays, meta)
    return sum(buffer.nbytes for buffer in buffers) + len(json.dumps(header)) + 128


def read(path: Path) -> tuple[HostArrays, dict[str, str]]:
    """Arrays and strings of a file, after its checksum was compared.

    Raises:
        DamagedFile: it is not what was written.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        header = _read_header(file)
        body = file.read()
    meta = header[_META]
    arrays = {name: _array(spec, body) for name, spec in header.items() if name != _META}
    expected = meta.pop(_CHECKSUM, None)
    if _checksum(header, [memoryview(body)]) != expected:
        raise DamagedFile(f"{path.name} has another checksum")
    return arrays, meta


def read_first(path: Path) -> tuple[HostArray, dict[str, str]]:
    """The first array of a file and its strings, without reading, or checking, the rest.

    Raises:
        DamagedFile: its header is not what was written.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        header = _read_header(file)
        spec = next((spec for name, spec in header.items() if name != _META), None)
        if spec is None:
            raise DamagedFile("no arrays")
        return _array(spec, file.read(spec["data_offsets"][1])), header[_META]


def _layout(arrays: Mapping[str, HostArray], meta: Mapping[str, str]) -> tuple[dict[str, Any], list[memoryview]]:
    header: dict[str, Any] = {_META: dict(meta)}
    buffers: list[memoryview] = []
    end = 0
    for name, array in arrays.items():
        flat: Any = np.ascontiguousarray(array.data).reshape(-1).view(np.uint8)
        buffer = memoryview(flat)
        header[name] = {
            "dtype": array.dtype,
            "shape": list(array.data.shape),
            "data_offsets": [end, end + buffer.nbytes],
        }
        buffers.append(buffer)
        end += buffer.nbytes
    return header, buffers


def _checksum(header: Mapping[str, Any], buffers: list[memoryview]) -> str:
    digest = blake2b(json.dumps(header, sort_keys=True).encode(), digest_size=16)
    for buffer in buffers:
        digest.update(buffer)
    return digest.hexdigest()


def _read_header(file: BinaryIO) -> dict[str, Any]:
    length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
    if not 0 < length <= _MOST_HEADER:
        raise DamagedFile("no header")
    try:
        header = json.loads(file.read(length))
    except ValueError as error:
        raise DamagedFile("the header cannot be read") from error
    if not isinstance(header, dict) or not all(_is_spec(name, spec) for name, spec in header.items()):
        raise DamagedFile("the header describes no arrays")
    if _META not in header:
        raise DamagedFile("the header describes no file of ours")
    return header


def _is_spec(name: str, spec: Any) -> bool:
    if not isinstance(spec, dict):
        return False
    if name == _META:
        return all(isinstance(value, str) for value in spec.values())
    shape: Any = spec.get("shape")
    offsets: Any = spec.get("data_offsets")
    if spec.get("dtype") not in NUMPY_DTYPES or not _are_sizes(shape) or not _are_sizes(offsets, 2):
        return False
    start, end = offsets
    wanted = math.prod(spec["shape"]) * np.dtype(NUMPY_DTYPES[spec["dtype"]]).itemsize
    return bool(end - start == wanted)


def _are_sizes(numbers: Any, count: int | None = None) -> bool:
    if not isinstance(numbers, list) or (count is not None and len(numbers) != count):
        return False
    return all(isinstance(number, int) and number >= 0 for number in numbers)


def _array(spec: Mapping[str, Any], body: bytes) -> HostArray:
    start, end = spec["data_offsets"]
    if end > len(body):
        raise DamagedFile("it ends too early")
    data = np.frombuffer(body, NUMPY_DTYPES[spec["dtype"]], math.prod(spec["shape"]), start) if end > start else None
    shaped = np.empty(spec["shape"], NUMPY_DTYPES[spec["dtype"]]) if data is None else data.reshape(spec["shape"])
    return HostArray(spec["dtype"], shaped)


def specs(path: Path) -> Iterator[bytes]:
    """The header of any safetensors file as it stands, and its size: what tells one model's weights from another's.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        prefix = file.read(_LENGTH_BYTES)
        yield prefix + file.read(min(int.from_bytes(prefix, "little"), _MOST_HEADER))
    yield str(path.stat().st_size).encode()
