"""Reads from code for a Mac which processors and which macOS it is for."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_THIN = b"\xcf\xfa\xed\xfe"
_FAT = b"\xca\xfe\xba\xbe"
_FAT_PARTS = 32
"""Java classes begin like fat files; no fat file has that many parts."""
_ARM64 = 0x0100000C
_BUILD_VERSION = 0x32
_VERSION_MIN = 0x24


@dataclass(frozen=True, slots=True)
class Slice:
    """The code for one processor; `minimum` is (major, minor) of the oldest macOS, None where it says nothing."""

    processor: int
    minimum: tuple[int, int] | None

    @property
    def is_arm64(self) -> bool:
        """Whether it is for Apple silicon."""
        return self.processor == _ARM64


def is_code(path: Path) -> bool:
    """Whether a file is code for a Mac."""
    with path.open("rb") as file:
        head = file.read(8)
    if head[:4] == _FAT:
        return len(head) == 8 and struct.unpack(">I", head[4:])[0] <= _FAT_PARTS
    return head[:4] == _THIN


def slices(file: BinaryIO) -> Iterator[Slice]:
    """One entry for each processor; none for a static library."""
    magic, count = struct.unpack(">4sI", file.read(8))
    offsets = [0]
    if magic == _FAT:
        offsets = [struct.unpack(">5I", file.read(20))[2] for _ in range(count)]
    for offset in offsets:
        file.seek(offset)
        magic, processor, _, _, commands, _, _, _ = struct.unpack("<4s7I", file.read(32))
        if magic != _THIN:
            continue  # a static library, which a program never loads
        yield Slice(processor, _minimum(file, commands))


def _minimum(file: BinaryIO, commands: int) -> tuple[int, int] | None:
    for _ in range(commands):
        command, size = struct.unpack("<2I", file.read(8))
        rest = file.read(size - 8)
        if command in (_BUILD_VERSION, _VERSION_MIN):
            (version,) = struct.unpack_from("<I", rest, 4 if command == _BUILD_VERSION else 0)
            return version >> 16, version >> 8 & 255
    return None
