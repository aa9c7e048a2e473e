"""The media folder: our own copies of attached files, named by their content."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Set as AbstractSet
from pathlib import Path

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
        """Appear complete or not at all: temporary file, fsync, rename."""
        if path.exists():
            os.utime(path)
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=self.folder, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
