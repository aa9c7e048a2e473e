"""The media folder: our own copies of attached files, named by their content."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import IO

from engine.errors import MediaCancelled

_DIGEST_BYTES = 16
_CHUNK_BYTES = 1 << 20
_SETTLED_S = 3600.0
"""Younger files may belong to a draft that is just being written."""


class MediaStore:
    """Files named `<digest><suffix>` with their pictures for the screen; safe from any thread."""

    def __init__(self, folder: Path) -> None:
        """Use `folder`, which is made when the first file is added."""
        self.folder = folder

    def add(self, digest: str, suffix: str, data: bytes) -> Path:
        """Keep `data` under its digest; a file that is there already stays as it is.

        Raises:
            OSError: the disk is full or the folder cannot be written.
        """
        path = self.folder / f"{digest}{suffix}"
        self._write(path, data)
        return path

    def add_data(self, suffix: str, data: bytes) -> tuple[Path, str]:
        """Keep `data` under a digest of its bytes; returns our copy and the digest. Errors are those of `add`."""
        digest = blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()
        return self.add(digest, suffix, data), digest

    def add_file(self, suffix: str, source: Path, should_stop: Callable[[], bool] = lambda: False) -> tuple[Path, str]:
        """Copy a file of any size under a digest of its bytes; returns our copy and the digest.

        Raises:
            OSError: the source cannot be read, the disk is full or the folder cannot be written.
            MediaCancelled: `should_stop` returned True.
        """
        hashed = blake2b(digest_size=_DIGEST_BYTES)
        with source.open("rb") as original, self._temporary() as (copy, temporary):
            while chunk := original.read(_CHUNK_BYTES):
                if should_stop():
                    raise MediaCancelled("Copying the file was cancelled.")
                hashed.update(chunk)
                copy.write(chunk)
            digest = hashed.hexdigest()
            path = self.folder / f"{digest}{suffix}"
            self._settle(copy, temporary, path)
        return path, digest

    def add_thumbnail(self, digest: str, png: bytes) -> None:
        """Keep the small picture that stands for a file on the screen."""
        self._write(self._thumbnail(digest), png)

    def thumbnail(self, digest: str) -> bytes:
        """The small picture as PNG; empty when it is lost, as when someone tidied the folder."""
        try:
            return self._thumbnail(digest).read_bytes()
        except FileNotFoundError:
            return b""

    def collect(self, in_use: AbstractSet[str]) -> int:
        """Delete settled files whose digest is not in use and return their number."""
        if not self.folder.is_dir():
            return 0
        settled = time.time() - _SETTLED_S
        unused = [
            path
            for path in self.folder.iterdir()
            if path.name.split(".", 1)[0] not in in_use and path.is_file() and path.stat().st_mtime < settled
        ]
        for path in unused:
            path.unlink()
        return len(unused)

    def _thumbnail(self, digest: str) -> Path:
        return self.folder / f"{digest}.thumb.png"

    def _write(self, path: Path, data: bytes) -> None:
        if path.exists():
            os.utime(path)
            return
        with self._temporary() as (file, temporary):
            file.write(data)
            self._settle(file, temporary, path)

    @contextmanager
    def _temporary(self) -> Iterator[tuple[IO[bytes], Path]]:
        """A file in the folder that is gone again unless it was settled."""
        self.folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=self.folder, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                yield file, Path(name)
        finally:
            Path(name).unlink(missing_ok=True)

    @staticmethod
    def _settle(file: IO[bytes], temporary: Path, path: Path) -> None:
        """Appear complete or not at all: fsync, rename."""
        file.flush()
        os.fsync(file.fileno())
        os.replace(temporary, path)
