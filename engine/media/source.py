"""Where a picture, clip, sound or document comes from: a path, a `data:` URL or bytes."""

import base64
import binascii
import io
import os
import re
import stat
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote_to_bytes

from engine.errors import MediaError

Source = str | os.PathLike[str] | bytes

_DATA_URL = re.compile(r"\s*data:(?P<header>[^,]*),(?P<payload>.*)", re.IGNORECASE | re.DOTALL)
_REMOTE_URL = re.compile(r"\s*(https?|ftp)://", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Located:
    """A source that exists, is an ordinary file or bytes, and is not empty.

    Attributes:
        name: What to call it in sentences: the file's name, or "Pasted picture" and the like.
        path: The absolute path; None for bytes.
        data: The bytes; None for a file.
    """

    name: str
    path: Path | None
    data: bytes | None

    def open(self) -> BinaryIO:
        """Return a new binary stream at position 0; the caller closes it."""
        if self.data is not None:
            return io.BytesIO(self.data)
        assert self.path is not None, "a located source is a file or bytes"
        try:
            return self.path.open("rb")
        except OSError as error:
            raise MediaError(_why_closed(self.name, error)) from error

    def head(self, size: int = 4096) -> bytes:
        """Return the first bytes, at most `size`."""
        with self.open() as stream:
            return stream.read(size)


def locate(source: Source, *, name: str | None = None, noun: str = "picture") -> Located:
    """Check that the source can be read at all.

    Args:
        source: A path (`~` is understood), a `data:` URL or the file's bytes.
        name: What to call it; None takes the file's name.
        noun: What it ought to be ("picture", "clip", "sound", "document").

    Raises:
        MediaError: It is remote, missing, empty, not an ordinary file, or may not be read.
    """
    if isinstance(source, bytes):
        return _from_bytes(source, name or f"Pasted {noun}")
    if isinstance(source, str):
        if is_remote(source):
            raise MediaError(f"Braid does not fetch from the web. Save the {noun} on this computer and add the file.")
        if match := _DATA_URL.match(source):
            name = name or f"Pasted {noun}"
            return _from_bytes(_decode_data_url(match["header"], match["payload"], name), name)
    return _from_path(os.fspath(source), name, noun)


def is_remote(source: object) -> bool:
    """Whether a source is an address of the web."""
    return isinstance(source, str) and _REMOTE_URL.match(source) is not None


def identity(source: object) -> bytes | None:
    """Stand for what a source holds now, without decoding it; None where only reading it tells.

    A file is known by its place and the times of its last changes, anything else by its bytes.
    """
    if isinstance(source, str) and _DATA_URL.match(source):
        source = source.encode(errors="surrogatepass")
    if isinstance(source, bytes):
        return blake2b(source, digest_size=16).digest()
    if not isinstance(source, (str, os.PathLike)) or is_remote(source):
        return None
    try:
        path = locate(source).path
        assert path is not None
        status = path.stat()
    except (MediaError, OSError):
        return None  # its reader says why
    return repr((path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)).encode()


def _from_bytes(data: bytes, name: str) -> Located:
    if not data:
        raise MediaError(f"{name} is empty (0 bytes). Add another copy of it.")
    return Located(name, None, data)


def _decode_data_url(header: str, payload: str, name: str) -> bytes:
    raw = unquote_to_bytes(payload)
    if not header.lower().rstrip().endswith(";base64"):
        return raw
    # Copied links carry line breaks, the URL-safe alphabet and lost padding; all of them still name the same bytes.
    digits = b"".join(raw.split()).translate(bytes.maketrans(b"-_", b"+/")).rstrip(b"=")
    try:
        return base64.b64decode(digits + b"=" * (-len(digits) % 4), validate=True)
    except binascii.Error as error:
        raise MediaError(f"{name} is damaged: its data link was cut or changed. Copy it again.") from error


def _from_path(text: str, name: str | None, noun: str) -> Located:
    path = Path(text)
    if text.startswith("~") and not path.exists():
        path = Path(os.path.expanduser(text))  # unlike Path.expanduser it does not raise for an unknown user
    path = path.absolute()
    name = name or path.name or text
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        raise MediaError(_why_missing(name, path, error)) from error
    if stat.S_ISDIR(status.st_mode):
        raise MediaError(f"{name} is a folder, not a {noun}. Add the files in it instead.")
    if not stat.S_ISREG(status.st_mode):
        raise MediaError(f"{name} is not an ordinary file. Save the {noun} as a file and add that.")
    if status.st_size == 0:
        raise MediaError(f"{name} is empty (0 bytes). Add another copy of it.")
    located = Located(name, path, None)
    located.open().close()
    return located


def _why_missing(name: str, path: Path, error: OSError | ValueError) -> str:
    if isinstance(error, PermissionError):
        return _why_closed(name, error)
    if isinstance(error, FileNotFoundError) and path.is_symlink():
        return f"{name} is a link to a file that is no longer there. Add the file itself."
    return f"{name} could not be found. It may have been moved or deleted: add it again."


def _why_closed(name: str, error: OSError) -> str:
    if isinstance(error, PermissionError):
        return f"Braid is not allowed to read {name}. Change its permissions, or add a copy of it."
    if isinstance(error, FileNotFoundError):
        return f"{name} could not be found. It may have been moved or deleted: add it again."
    return f"{name} could not be opened ({error.strerror or 'unknown reason'}). Try again, or add a copy of it."
