"""One running app per profile: the first start stays, later ones hand it their files and end."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import socket
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NoReturn

from PySide6.QtCore import QLockFile

from app.state.tasks import Tasks

_log = logging.getLogger(__name__)
Role = Literal["first", "later", "unanswered"]
_THANKS = b"taken\n"
_MOST_BYTES = 4 << 20
"""More than any command line holds."""
_RETRY_MS = 100
_LONGEST_PATH = 103
"""Bytes that every system takes for the path of a socket."""


class Instance:
    """This process among all those with the same profile.

    The first one holds a lock and listens on a socket in a folder that only this person may open. Whoever holds the
    lock may replace the socket: one that a crash has left behind is in nobody's way.
    """

    def __init__(self, profile: Path, patience_s: float = 5.0) -> None:
        """Decide nothing yet; `patience_s` is how long another start may take to answer, or to finish its message."""
        self._profile = profile
        self._patience_s = patience_s
        self._lock = QLockFile(str(profile / "braid.lock"))
        self._lock.setStaleLockTime(0)
        self._server: asyncio.Server | None = None
        self._guests = Tasks()

    # --- a start that may be a later one

    def settle(self, files: Sequence[Path]) -> Role:
        """Become the first, or hand the files over to it; "unanswered" when it does not answer in time.

        The first may be starting, or ending, just now: then its socket is not there yet, or its lock is about to go.

        Raises:
            OSError: the profile cannot be written.
        """
        deadline = time.monotonic() + self._patience_s
        while not self._lock.tryLock(_RETRY_MS):
            if self._lock.error() is not QLockFile.LockError.LockFailedError:
                raise PermissionError(None, "cannot be locked", str(self._profile))
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return "unanswered"
            if self._hand_over(files, left_s):
                return "later"
        return "first"

    def _hand_over(self, files: Sequence[Path], within_s: float) -> bool:
        message = json.dumps({"files": [str(file) for file in files]}).encode() + b"\n"
        try:
            with socket.socket(socket.AF_UNIX) as first:
                first.settimeout(within_s)
                first.connect(str(_socket_of(self._profile)))
                first.sendall(message)
                return first.recv(len(_THANKS)) == _THANKS
        except OSError:
            return False  # it does not listen yet or any more, or hangs: asked again until the time is over

    # --- the first one

    async def listen(self, take: Callable[[Sequence[Path]], None]) -> None:
        """Call `take` with what each later start brings, which may be no files at all."""

        def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            guest = self._guests.start(self._receive(reader, writer, take), "listening to a later start")
            guest.add_done_callback(lambda _: writer.close())  # also of one that was cancelled before it began

        try:
            path = str(_socket_of(self._profile))
            self._server = await asyncio.start_unix_server(meet, path, limit=_MOST_BYTES)
        except OSError:
            _log.warning("Later starts cannot be listened to", exc_info=True)  # they say so; all else works

    async def close(self) -> None:
        """Listen no more; others stay locked out until the process ends."""
        if self._server is None:
            return
        self._server.close()
        await self._guests.close()
        _socket_of(self._profile).unlink(missing_ok=True)

    def leave(self) -> NoReturn:
        """End the process at once, whatever its threads are doing, and let others in. Everything must be saved."""
        logging.shutdown()
        self._lock.unlock()
        sys.stderr.flush()
        os._exit(0)

    async def _receive(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, take: Callable[[Sequence[Path]], None]
    ) -> None:
        try:
            async with asyncio.timeout(self._patience_s):
                files = _files_in(await reader.readuntil())
                take(files)
                writer.write(_THANKS)
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError, OSError) as error:
            _log.info("What came was no message of a later start: %s", error)


def _files_in(line: bytes) -> list[Path]:
    """The files that a message names.

    Raises:
        ValueError: it is no message.
    """
    try:
        files = json.loads(line)["files"]
        paths = [Path(name) for name in files]
    except (TypeError, KeyError, RecursionError) as error:
        raise ValueError("not a list of files") from error
    if not all(path.is_absolute() and "\0" not in str(path) for path in paths):
        raise ValueError("not the paths of files")
    return paths


def _socket_of(profile: Path) -> Path:
    """Where the first start with a profile listens: a short path, because systems allow some 100 bytes.

    Raises:
        PermissionError: somebody else has made the folder, or may open it.
    """
    name = Path(f"braid-{os.getuid()}", hashlib.sha256(os.fsencode(profile.resolve())).hexdigest()[:16])
    path = tempfile.gettempdir() / name
    if len(os.fsencode(path)) > _LONGEST_PATH:
        path = "/tmp" / name  # that folder in there is checked to be this person's alone
    folder = path.parent
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(None, "is not this person's alone", str(folder))
    return path
