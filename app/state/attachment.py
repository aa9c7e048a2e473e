"""A dropped or pasted file as part of a draft or turn: what it is, how it looks, which part of it is sent."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from app.storage.conversations import AttachmentRecord
from app.storage.media import MediaStore
from engine.errors import MediaError
from engine.messages import MediaKind

Kind = Literal["image", "video", "audio", "pdf", "text"]
SUFFIXES: dict[Kind, tuple[str, ...]] = {
    "image": (
        *(".png", ".jpg", ".jpeg", ".jfif", ".webp", ".heic", ".heif", ".avif", ".bmp", ".tif", ".tiff"),
        *(".gif", ".apng", ".ico", ".jp2", ".psd"),
    ),
    "video": (".mp4", ".m4v", ".mov", ".webm", ".mkv", ".avi", ".mpg", ".mpeg", ".ts", ".3gp", ".wmv", ".flv"),
    "audio": (".wav", ".mp3", ".m4a", ".aac", ".flac", ".ogg", ".oga", ".opus", ".aif", ".aiff", ".caf"),
    "pdf": (".pdf",),
    "text": (".txt", ".md", ".csv", ".tsv", ".json", ".log", ".xml", ".yaml", ".yml", ".toml", ".ini", ".py"),
}
"""Ends of the names of files that are usually of a kind; what a file really is, its content tells."""
UNREADABLE = (
    *(".zip", ".gz", ".tar", ".7z", ".rar", ".dmg", ".iso", ".exe", ".app", ".pkg"),
    *(".doc", ".docx", ".xls", ".xlsx", ".ppt", ".pptx", ".odt", ".ods", ".pages", ".numbers", ".key", ".svg"),
)
"""Ends of the names of files that are known to be none of these."""
NOUNS: dict[Kind, str] = {"image": "picture", "video": "clip", "audio": "sound", "pdf": "document", "text": "text"}
MODEL_KINDS: dict[Kind, MediaKind] = {"image": "image", "video": "video", "audio": "audio", "pdf": "image"}
"""What a model must take to be shown a kind of attachment; every model reads text."""
MAX_PAGES = 20
"""Pages of one document that are sent at most."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Which part of an attachment is sent; None: as much as possible, as usual.

    Attributes:
        fps: frames per second of a clip.
        start: where to begin in a clip, in seconds.
        end: where to end in it.
        first: page of a document to begin with, from 1.
        last: page to end with.
    """

    fps: float | None = None
    start: float | None = None
    end: float | None = None
    first: int | None = None
    last: int | None = None


@dataclass(frozen=True, slots=True)
class Attachment:
    """Checked media with our own copy on disk.

    Attributes:
        width, height: upright pixels; 0 for sound and text.
        note: what a person should know about how it was read.
        thumbnail: PNG, at most 512 px on its long side.
        tokens: what it costs with the loaded model; None while that is not known.
        digest: stands for its content.
        size: bytes of our copy.
        seconds: length of a clip or sound.
        pages: of a document.
    """

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
    seconds: float = 0.0
    pages: int = 0
    excerpt: Excerpt = field(default_factory=Excerpt)

    @property
    def needs(self) -> MediaKind | None:
        """What a model must take to read it; None: any model does."""
        return MODEL_KINDS.get(self.kind)

    def words(self) -> str:
        """A text, read from our copy.

        Raises:
            MediaError: the copy is gone or damaged.
        """
        try:
            return self.path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise MediaError(f"Braid's copy of {self.name} cannot be read. Add the file again.") from error

    def part(self) -> dict[str, Any]:
        """It as a part of a chat message; errors are those of `words`, which are read here."""
        if self.kind == "text":
            return {"type": "text", "text": f"{self.name}:\n{self.words()}\n\n"}
        part: dict[str, Any] = {"type": self.kind, self.kind: str(self.path), "name": self.name}
        chosen = self.excerpt
        if self.kind == "pdf" and chosen.first is not None:
            part["pages"] = [chosen.first, chosen.last or self.pages]
        if self.kind == "audio":
            part["seconds"] = self.seconds
        if self.kind == "video":
            times = {"fps": chosen.fps, "start": chosen.start, "end": chosen.end}
            part |= {key: value for key, value in times.items() if value is not None}
        return part

    def record(self) -> AttachmentRecord:
        """What the library keeps of it."""
        details = {"seconds": self.seconds, "pages": self.pages, **asdict(self.excerpt)}
        return AttachmentRecord(
            self.id,
            self.kind,
            self.name,
            self.digest,
            self.path.name,
            self.size,
            self.width,
            self.height,
            self.note,
            json.dumps({key: value for key, value in details.items() if value}),
        )

    @classmethod
    def restore(cls, record: AttachmentRecord, media: MediaStore) -> Attachment:
        """Bring a kept one back; reads the thumbnail, so not on the GUI thread."""
        details = json.loads(record.details)
        seconds, pages = details.pop("seconds", 0.0), details.pop("pages", 0)
        return cls(
            id=record.id,
            kind=cast("Kind", record.kind),
            name=record.name,
            path=media.folder / record.file,
            width=record.width,
            height=record.height,
            note=record.note,
            thumbnail=media.thumbnail(record.digest),
            digest=record.digest,
            size=record.size,
            seconds=seconds,
            pages=pages,
            excerpt=Excerpt(**details),
        )


def kind_of_name(name: str) -> Kind | None:
    """What a file of this name usually is."""
    suffix = Path(name).suffix.lower()
    return next((kind for kind, suffixes in SUFFIXES.items() if suffix in suffixes), None)
