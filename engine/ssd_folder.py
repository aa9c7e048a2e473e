"""The cold tier's folder: files that appear whole or not at all, within one size for all models and processes."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

SUFFIX = ".safetensors"
_TEMPORARY = ".part"
_QUARANTINE = "quarantine"
_QUARANTINED_KEPT = 4


@dataclass(frozen=True, slots=True)
class FileName:
    """``parent.id.kind.safetensors``: what a file continues is in its name, so that eviction need not open it.

    Attributes:
        parent: id of the run before; empty for the first one.
        kind: ``kv`` or ``state``.
    """

    parent: str
    id: str
    kind: str

    def __str__(self) -> str:
        return f"{self.parent or 'root'}.{self.id}.{self.kind}{SUFFIX}"

    @classmethod
    def parse(cls, name: str) -> FileName | None:
        """The parts of a name, or None for a file that is not ours."""
        parts = name.split(".")
        if len(parts) != 4 or f".{parts[3]}" != SUFFIX or parts[2] not in ("kv", "state"):
            return None
        return cls("" if parts[0] == "root" else parts[0], parts[1], parts[2])


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    name: FileName
    size: int
    used: float


class SsdFolder:
    """One model's files in a folder that other models and other processes use as well.

    Args:
        root: the folder that was configured.
        namespace: stands for model, processor and layout.
    """

    def __init__(self, root: Path, namespace: str) -> None:
        self._root = root / "braid-prefixes"
        self._own = self._root / namespace

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Alone among all processes; a process that dies lets go.

        Raises:
            OSError: the folder cannot be made or written.
        """
        self._own.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (self._root / "lock").open("wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def names(self) -> list[FileName]:
        """This model's files, those that others continue first."""
        found = [file.name for file in self._files() if file.path.parent == self._own]
        return sorted(found, key=lambda name: name.kind)

    def has_run(self, run_id: str) -> bool:
        """Whether the run is there that something is to continue."""
        # Not by a pattern: Python would keep each of them, compiled.
        return any(path.name.endswith(f".{run_id}.kv{SUFFIX}") for path in self._own.iterdir())

    def path(self, name: FileName) -> Path:
        """Where one of this model's files is."""
        return self._own / str(name)

    def add(self, name: FileName, fill: Callable[[BinaryIO], None]) -> None:
        """Write a file so that it is there whole or not at all, whenever the power goes; under the lock.

        Raises:
            OSError: the disk is full or gone.
        """
        part = self._own / f"{name}{_TEMPORARY}"
        try:
            with part.open("wb") as file:
                fill(file)
                file.flush()
                os.fsync(file.fileno())
            part.replace(self.path(name))
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        directory = os.open(self._own, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def touch(self, names: Sequence[FileName]) -> None:
        """Mark files as used now."""
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                os.utime(self.path(name))

    def make_room(self, needed: int, limit: int, base: str = "") -> tuple[bool, set[FileName], int]:
        """Under the lock: delete what was used longest ago, whatever model it is of, until ``needed`` bytes fit.

        Args:
            needed: bytes of a new file.
            limit: most bytes in the folder.
            base: the run of this model that the new file belongs to or continues, which stays.

        Returns:
            Whether they fit, this model's files that went, and the bytes in the folder.
        """
        self._sweep()
        files = sorted(self._files(), key=lambda file: file.used)
        total = sum(file.size for file in files) + sum(path.stat().st_size for path in self._quarantined())
        gone: set[FileName] = set()
        while total + needed > limit and (file := _next_to_go(files, (self._own, base))) is not None:
            file.path.unlink(missing_ok=True)
            files.remove(file)
            total -= file.size
            if file.path.parent == self._own:
                gone.add(file.name)
        return total + needed <= limit, gone, total

    def quarantine(self, name: FileName) -> None:
        """Put a damaged file aside, the last few of them only."""
        aside = self._root / _QUARANTINE
        aside.mkdir(exist_ok=True, mode=0o700)
        with contextlib.suppress(FileNotFoundError):
            self.path(name).replace(aside / str(name))
        for path in self._quarantined()[:-_QUARANTINED_KEPT]:
            path.unlink(missing_ok=True)

    def clear(self) -> None:
        """Under the lock: delete all files of all models, and what was put aside."""
        self._sweep()
        for path in [file.path for file in self._files()] + self._quarantined():
            path.unlink(missing_ok=True)

    def _files(self) -> list[_File]:
        files = []
        for path in self._root.glob(f"*/*{SUFFIX}"):
            name = FileName.parse(path.name)
            if name is None or path.parent.name == _QUARANTINE:
                continue
            with contextlib.suppress(FileNotFoundError):  # another process may have deleted it
                status = path.stat()
                files.append(_File(path, name, status.st_size, status.st_mtime))
        return files

    def _quarantined(self) -> list[Path]:
        return sorted((self._root / _QUARANTINE).glob(f"*{SUFFIX}"), key=lambda path: path.stat().st_mtime)

    def _sweep(self) -> None:
        """Delete parts: files are written under the lock, so one that is there now was left by a process that died."""
        for path in self._root.glob(f"*/*{_TEMPORARY}"):
            path.unlink(missing_ok=True)


def _next_to_go(files: Sequence[_File], base: tuple[Path, str]) -> _File | None:
    """The least recently used file that no other needs: a run goes after what continues it, and after its own state."""
    needed = {(file.path.parent, file.name.parent) for file in files if file.name.kind == "kv"} | {base}
    with_state = {(file.path.parent, file.name.id) for file in files if file.name.kind == "state"}
    for file in files:
        place = (file.path.parent, file.name.id)
        if file.name.kind == "state" or (place not in needed and place not in with_state):
            return file
    return None
