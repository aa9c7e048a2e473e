"""Files, bytes and `data:` URLs on their way into a draft: checked, copied into the media folder, described."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from app.state import thumbnail
from app.state.attachment import MAX_PAGES, Attachment, Excerpt, Kind, kind_of_name
from app.storage.media import MediaStore

if TYPE_CHECKING:
    from engine.media.remote import Downloader

T = TypeVar("T")
_GB = 1_000_000_000
MAX_BYTES: dict[Kind, int] = {
    "image": _GB // 2,
    "video": 8 * _GB,
    "audio": 2 * _GB,
    "pdf": _GB // 2,
    "text": 20_000_000,
}
MAX_TEXT = 5_000_000
"""Characters of one text."""
_ARCHIVES = (".zip", ".gz", ".tar", ".7z", ".rar", ".dmg")


class Refused(Exception):
    """A file cannot be attached; `str(error)` is the sentence to show.

    Attributes:
        meant: It was meant as something Braid reads, so its chip stays and shows what is wrong.
        partial: A part of the picture can be read, and `damaged=True` would take that.
    """

    def __init__(self, sentence: str, *, meant: bool = False, partial: bool = False) -> None:
        """Take the sentence."""
        super().__init__(sentence)
        self.meant, self.partial = meant, partial


@dataclass(frozen=True, slots=True)
class Reading:
    """How something is read.

    Attributes:
        media: where our copy goes.
        should_stop: asked while a long file is read; True gives up with `MediaCancelled`.
        damaged: take what can be read of a damaged picture.
    """

    media: MediaStore
    should_stop: Callable[[], bool] = lambda: False
    damaged: bool = False

    def check(self) -> None:
        """Raise `MediaCancelled` if nobody waits any more; asked between steps that cannot be stopped."""
        from engine.errors import MediaCancelled

        if self.should_stop():
            raise MediaCancelled("Reading the file was cancelled.")


@dataclass(frozen=True, slots=True)
class _Item:
    """What is being read: a file, or bytes."""

    name: str
    source: Path | bytes

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.source) if isinstance(self.source, bytes) else self.source.stat().st_size

    def data(self) -> bytes:
        """All of it."""
        return self.source if isinstance(self.source, bytes) else self.source.read_bytes()

    def keep(self, how: Reading) -> tuple[Path, str]:
        """Copy it as it is; returns our copy and what stands for its content."""
        if isinstance(self.source, bytes):
            return how.media.add_data(_suffix(self.name), self.source)
        return how.media.add_file(_suffix(self.name), self.source, how.should_stop)


def read_file(path: Path, how: Reading) -> Attachment:
    """Read a file; for a pool thread.

    Raises:
        Refused: it cannot be read or copied, or is nothing that Braid reads.
        MediaCancelled: `should_stop` returned True.
    """
    try:
        return _read(_Item(path.name, path), how)
    except FileNotFoundError as error:
        raise Refused(f"{path.name} is no longer there. Check that the file or its disk still exists.") from error
    except PermissionError as error:
        raise Refused(f"Braid may not read {path.name}. Check the file's permissions.") from error
    except OSError as error:
        raise Refused(f"{path.name} could not be read from its disk. Check the disk and try again.") from error


def read_data(data: bytes, name: str, how: Reading) -> Attachment:
    """Read the bytes of a file; for a pool thread. Errors are those of `read_file`."""
    return _read(_Item(name, data), how)


def read_data_url(url: str, name: str, how: Reading) -> Attachment:
    """Read what is inside a `data:` URL; for a pool thread. Errors are those of `read_file`."""
    from engine.errors import MediaError
    from engine.media.source import locate

    if not url[:5].lower().startswith("data:"):
        raise Refused("The pasted address holds no file. Copy the picture itself and paste again.")
    try:
        located = locate(url, name=name, noun="file")
    except MediaError as error:
        raise Refused(str(error)) from error
    return _read(_Item(name, located.head(MAX_BYTES["image"] + 1)), how)


def read_address(url: str, how: Reading, downloader: Downloader | None = None) -> Attachment:
    """Fetch a file from the web and read it; for a pool thread. Errors are those of `read_file`."""
    from engine.errors import MediaError
    from engine.media.remote import Downloader

    kind = kind_of_name(name_of_address(url))
    fetch = (downloader or Downloader()).fetch
    try:
        found = fetch(url, "image" if kind is None or kind == "text" else kind, how.should_stop)
    except MediaError as error:
        raise Refused(str(error), meant=True) from error
    return _read(_Item(found.name, found.data or b""), how)


def name_of_address(url: str) -> str:
    """What to call what is at an address until it has come."""
    parts = urlsplit(url)
    return Path(unquote(parts.path)).name or parts.hostname or url


def read_still(clip: Attachment, how: Reading) -> Attachment:
    """The first frame of what is chosen of a clip, as a picture of its own. Errors are those of `read_file`."""
    return _read_as(_still, _Item(clip.name, clip.path), how, start=clip.excerpt.start)


def _read(item: _Item, how: Reading) -> Attachment:
    return _read_as(_any, item, how)


def _read_as(read: Callable[..., Attachment], item: _Item, how: Reading, **options: Any) -> Attachment:
    from engine.errors import MediaError

    how.check()
    try:
        return read(item, how, **options)
    except MediaError as error:
        raise Refused(str(error), meant=True, partial=error.partial) from error


def _any(item: _Item, how: Reading) -> Attachment:
    kind = _kind(item)
    _check_size(item, kind)
    return _READERS[kind](item, how)


def _kind(item: _Item) -> Kind:
    """What it is by its content; else what its name says, whose reader knows what is wrong with it."""
    from engine.media.kind import kind_of

    kind = kind_of(item.source, name=item.name)
    if kind is not None:
        return kind
    named = kind_of_name(item.name)
    if named is not None:
        return named
    if item.name.lower().endswith(_ARCHIVES):
        raise Refused(f"{item.name} is an archive. Unpack it and drop what is inside.")
    if _is_text(item):
        return "text"
    raise Refused(f"Braid cannot read {item.name}. It reads pictures, clips, sounds, PDF documents and text.")


def _is_text(item: _Item) -> bool:
    from engine.media.signature import Signature, sniff
    from engine.media.source import locate

    return sniff(locate(item.source, name=item.name, noun="file").head()) is Signature.TEXT


def _check_size(item: _Item, kind: Kind) -> None:
    if item.size > (most := MAX_BYTES[kind]):
        limit = f"{most / 1e9:g} GB" if most >= _GB // 10 else f"{most / 1e6:g} MB"
        raise Refused(f"{item.name} has {item.size / 1e9:.2f} GB. Attach a file of at most {limit}.", meant=True)


def _picture(item: _Item, how: Reading) -> Attachment:
    from engine.media.fingerprint import fingerprint
    from engine.media.image import read_image

    data = item.data()
    picture = read_image(data, name=item.name, allow_truncated=how.damaged)
    how.check()
    small = thumbnail.of_pixels(picture.pixels)
    how.check()
    digest, suffix = fingerprint(picture.pixels), _suffix(item.name)
    if how.damaged:  # what is kept is what is sent: the part that can be read
        data, suffix = thumbnail.png(picture.pixels), ".png"
    path = _kept(item, lambda: how.media.add(digest, suffix, data))
    width, height = picture.pixels.shape[1::-1] if how.damaged else picture.source_size
    return _described(item, "image", path, digest, how, small, width=width, height=height, note=picture.note)


def _clip(item: _Item, how: Reading) -> Attachment:
    from engine.errors import MediaError
    from engine.media.video import probe_video, read_video

    try:
        info = probe_video(item.source, name=item.name, should_stop=how.should_stop)
        side = thumbnail.SIDE * thumbnail.SIDE
        first = read_video(item.source, name=item.name, max_frames=1, max_pixels=side, should_stop=how.should_stop)
    except MediaError as error:
        if error.sound_only:
            return _sound(item, how)
        raise
    small = thumbnail.of_pixels(first.frames[0])
    path, digest = _copied(item, how)
    width, height = info.size
    return _described(item, "video", path, digest, how, small, width=width, height=height, seconds=info.duration)


def _still(item: _Item, how: Reading, start: float | None) -> Attachment:
    from engine.media.fingerprint import fingerprint
    from engine.media.image import DEFAULT_MAX_PIXELS
    from engine.media.video import read_video

    clip = read_video(
        item.source,
        name=item.name,
        max_frames=1,
        start=start,
        max_pixels=DEFAULT_MAX_PIXELS,
        should_stop=how.should_stop,
    )
    pixels = clip.frames[0]
    data, digest = thumbnail.png(pixels), fingerprint(pixels)
    path = _kept(item, lambda: how.media.add(digest, ".png", data))
    height, width, _ = pixels.shape
    small = thumbnail.of_pixels(pixels)
    return _described(item, "image", path, digest, how, small, width=width, height=height, note="one frame of a clip")


def _sound(item: _Item, how: Reading) -> Attachment:
    from engine.media.audio import DEFAULT_MAX_SECONDS, read_audio

    most = DEFAULT_MAX_SECONDS
    sound = read_audio(item.source, name=item.name, max_seconds=most + 1, should_stop=how.should_stop)
    if sound.duration > most:
        raise Refused(
            f"{item.name} is longer than {most / 60:.0f} minutes, the most that is heard at once. Add a shorter part.",
            meant=True,
        )
    small = thumbnail.of_samples(sound.samples)
    path, digest = _copied(item, how)
    return _described(item, "audio", path, digest, how, small, seconds=sound.duration, note=sound.note)


def _document(item: _Item, how: Reading) -> Attachment:
    from engine.media.document import drawn_size, probe_pdf, read_pdf

    info = probe_pdf(item.source, name=item.name)
    side = thumbnail.SIDE * thumbnail.SIDE
    first = read_pdf(item.source, name=item.name, pages=range(1), max_pixels=side)
    small = thumbnail.of_pixels(first[0].pixels)
    path, digest = _copied(item, how)
    width, height = drawn_size(info.sizes[0])
    excerpt = Excerpt(first=1, last=MAX_PAGES) if info.pages > MAX_PAGES else Excerpt()
    return _described(
        item, "pdf", path, digest, how, small, width=width, height=height, pages=info.pages, excerpt=excerpt
    )


def _text(item: _Item, how: Reading) -> Attachment:
    try:
        text = item.data().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Refused(f"{item.name} is not plain text. Save it as UTF-8 text and add that.", meant=True) from error
    if not text.strip():
        raise Refused(f"{item.name} is empty. Add another copy of it.", meant=True)
    if len(text) > MAX_TEXT:
        raise Refused(
            f"{item.name} has {len(text) / 1e6:.1f} million characters. "
            f"A text can have {MAX_TEXT // 1_000_000} million: shorten it and add it again.",
            meant=True,
        )
    data = text.encode()
    path, digest = _kept(item, lambda: how.media.add_data(".txt", data))
    return _described(_Item(item.name, data), "text", path, digest, how, thumbnail.of_text(text))


_READERS: dict[Kind, Callable[[_Item, Reading], Attachment]] = {
    "image": _picture,
    "video": _clip,
    "audio": _sound,
    "pdf": _document,
    "text": _text,
}


def _described(
    item: _Item, kind: Kind, path: Path, digest: str, how: Reading, small: bytes, **facts: Any
) -> Attachment:
    _kept(item, lambda: how.media.add_thumbnail(digest, small))
    facts = {"width": 0, "height": 0, "note": None, **facts}
    return Attachment(
        uuid4().hex, kind, item.name, path, thumbnail=small, digest=digest, size=path.stat().st_size, **facts
    )


def _copied(item: _Item, how: Reading) -> tuple[Path, str]:
    return _kept(item, lambda: item.keep(how))


def _kept(item: _Item, write: Callable[[], T]) -> T:
    try:
        return write()
    except (FileNotFoundError, PermissionError) as error:
        if isinstance(item.source, Path) and str(error.filename) == str(item.source):
            raise
        raise _not_copied(item) from error
    except OSError as error:
        raise _not_copied(item) from error


def _not_copied(item: _Item) -> Refused:
    return Refused(f"{item.name} could not be copied into Braid's library. Free some disk space and try again.")


def _suffix(name: str) -> str:
    suffix = Path(name).suffix.lower()
    return suffix if re.fullmatch(r"\.[a-z0-9]{1,5}", suffix) else ""
