"""A dropped or pasted file, checked and kept: what it is, how it looks, what it costs."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from uuid import uuid4

from app.storage.conversations import AttachmentRecord
from app.storage.media import MediaStore

if TYPE_CHECKING:
    import numpy as np

MAX_FILE_BYTES = 512 * 1024 * 1024
THUMBNAIL_SIDE = 512
Kind = Literal["image", "video", "audio", "pdf"]

_OTHER_KINDS = {
    "video": (".mov", ".mp4", ".m4v", ".mkv", ".webm", ".avi"),
    "sound": (".wav", ".mp3", ".m4a", ".flac", ".ogg", ".aac", ".aiff"),
    "PDF document": (".pdf",),
    "archive": (".zip", ".gz", ".tar", ".7z", ".rar", ".dmg"),
}


class Refused(Exception):
    """A file cannot be attached; `str(error)` is the sentence to show.

    Attributes:
        picture: It was meant as a picture, so its chip stays and shows what is wrong.
    """

    def __init__(self, sentence: str, *, picture: bool = False) -> None:
        """Take the sentence."""
        super().__init__(sentence)
        self.picture = picture


@dataclass(frozen=True, slots=True)
class Attachment:
    """Checked media with our own copy on disk; sizes are upright source pixels, `thumbnail` is PNG."""

    id: str
    kind: Kind
    name: str
    path: Path
    width: int
    height: int
    note: str | None
    thumbnail: bytes
    tokens: int | None = None
    digest: str = ""
    size: int = 0

    def record(self) -> AttachmentRecord:
        """What the library keeps of it."""
        return AttachmentRecord(
            self.id, self.kind, self.name, self.digest, self.path.name, self.size, self.width, self.height, self.note
        )

    @classmethod
    def restore(cls, record: AttachmentRecord, media: MediaStore) -> Attachment:
        """Bring a kept one back; reads the thumbnail, so not on the GUI thread."""
        return cls(
            id=record.id,
            kind=_kind(record.kind),
            name=record.name,
            path=media.folder / record.file,
            width=record.width,
            height=record.height,
            note=record.note,
            thumbnail=media.thumbnail(record.digest),
            digest=record.digest,
            size=record.size,
        )


def read_file(path: Path, media: MediaStore) -> Attachment:
    """Check a file, copy it into the media folder and describe it; for a pool thread.

    Raises:
        Refused: it is not a picture that can be read, or cannot be copied.
    """
    try:
        if path.is_dir():
            raise Refused(f"{path.name} is a folder. Drop the pictures inside it instead.")
        if (size := path.stat().st_size) > MAX_FILE_BYTES:
            raise Refused(f"{path.name} has {size / 1e9:.1f} GB. Attach a picture of at most 0.5 GB.")
        refuse_other_kind(path.name)
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise Refused(f"{path.name} is no longer there. Check that the file or its disk still exists.") from error
    except PermissionError as error:
        raise Refused(f"Braid may not read {path.name}. Check the file's permissions.") from error
    except OSError as error:
        raise Refused(f"{path.name} could not be read from its disk. Check the disk and try again.") from error
    return read_data(data, path.name, media)


def read_data(data: bytes, name: str, media: MediaStore) -> Attachment:
    """Check the bytes of a picture, keep and describe them; for a pool thread.

    Raises:
        Refused: they are no readable picture, or the media folder cannot be written.
    """
    from engine.errors import MediaError
    from engine.media.fingerprint import fingerprint
    from engine.media.image import read_image

    try:
        picture = read_image(data, name=name)
    except MediaError as error:
        raise Refused(str(error), picture=True) from error
    digest = fingerprint(picture.pixels)
    thumbnail = _thumbnail(picture.pixels)
    try:
        path = media.add(digest, _suffix(name), data)
        media.add_thumbnail(digest, thumbnail)
    except OSError as error:
        raise Refused(
            f"{name} could not be copied into Braid's library. Free some disk space and try again."
        ) from error
    width, height = picture.source_size
    return Attachment(
        uuid4().hex, "image", name, path, width, height, picture.note, thumbnail, digest=digest, size=len(data)
    )


def read_data_url(url: str, name: str, media: MediaStore) -> Attachment:
    """Check the picture inside a `data:` URL, keep and describe it; for a pool thread.

    Raises:
        Refused: it holds no readable picture.
    """
    match = re.match(r"data:image/[\w.+-]+;base64,", url)
    try:
        if match is None:
            raise Refused("The pasted address holds no picture. Copy the picture itself and paste again.")
        data = base64.b64decode(url[match.end() :], validate=True)
    except binascii.Error as error:
        raise Refused("The pasted picture is damaged. Copy it again, or save it as a file and drop that.") from error
    return read_data(data, name, media)


def refuse_other_kind(name: str) -> None:
    """Refuse a file that is clearly something else than a picture, by the end of its name.

    Raises:
        Refused: it is.
    """
    for kind, suffixes in _OTHER_KINDS.items():
        if name.lower().endswith(suffixes):
            article = "an" if kind[0] in "aeiou" else "a"
            raise Refused(f"{name} is {article} {kind}. Braid can only take pictures so far.")


def _kind(text: str) -> Kind:
    kinds: dict[str, Kind] = {"image": "image", "video": "video", "audio": "audio", "pdf": "pdf"}
    return kinds[text]


def _suffix(name: str) -> str:
    suffix = Path(name).suffix.lower()
    return suffix if re.fullmatch(r"\.[a-z0-9]{1,5}", suffix) else ""


def _thumbnail(pixels: np.ndarray) -> bytes:
    from PIL import Image

    image = Image.fromarray(pixels)
    image.thumbnail((THUMBNAIL_SIDE, THUMBNAIL_SIDE))
    buffer = BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()
