"""What is being dragged or pasted, told apart before anything is read, and the sentence that says what will happen."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from html import unescape
from pathlib import Path

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QMimeData, QObject, QThreadPool, QUrl, Signal
from PySide6.QtGui import QImage

from app.state.attachment import NOUNS, SUFFIXES, UNREADABLE, kind_of_name
from app.state.composer import LONG_TEXT, MAX_ATTACHMENTS, NO_FETCHING, Composer

FILTERS = [
    f"{words} ({' '.join(f'*{suffix}' for kind in kinds for suffix in SUFFIXES[kind])})"
    for words, kinds in (
        ("All that Braid reads", tuple(SUFFIXES)),
        ("Pictures", ("image",)),
        ("Clips and sounds", ("video", "audio")),
        ("Documents and text", ("pdf", "text")),
    )
] + ["All files (*)"]
"""What the file dialog offers."""
_RAW = ("image/png", "image/jpeg", "image/webp", "image/gif", "image/tiff")
_DATA_URL = re.compile(r"\s*data:(image|video|audio|application/pdf)[^,]*,", re.IGNORECASE)
_IMAGE_SOURCE = re.compile(r"""<img\b[^>]*?\bsrc\s*=\s*["']((?:data|file):[^"']+)["']""", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Dropped:
    """One drag or paste; only one of the ways to carry media is used, files first.

    Attributes:
        files: files and folders.
        refused: files that Braid cannot read, by their names.
        raw: the bytes of a picture file and their type.
        image: a picture that exists only as pixels.
        data_urls: pictures and other media inside the addresses themselves.
        text: words.
        addresses: what it only points at on the web.
        remote: it only points at something on the web that may not be fetched.
    """

    files: tuple[Path, ...] = ()
    refused: tuple[Path, ...] = ()
    raw: tuple[bytes, str] | None = None
    image: QImage | None = None
    data_urls: tuple[str, ...] = ()
    text: str = ""
    addresses: tuple[str, ...] = ()
    remote: bool = False

    @property
    def media(self) -> bool:
        """Whether there is something to attach."""
        return bool(self.files or self.raw or self.image or self.data_urls or self.addresses or self.long)

    @property
    def long(self) -> bool:
        """Whether it is a text so long that it is attached, not typed."""
        return len(self.text) > LONG_TEXT

    @property
    def usable(self) -> bool:
        """Whether dropping it does anything but explain why not."""
        return self.media or bool(self.text)


def read(mime: QMimeData, *, text_first: bool = False, fetches: bool = True) -> Dropped:
    """Sort out what a drag or the clipboard carries, without opening any file.

    Spreadsheets and word processors put a picture of their text beside it: ``text_first`` (a paste) prefers the text.
    ``fetches``: whether what is on the web may be fetched, as far as is known here.
    """
    urls = mime.urls()
    if local := [Path(url.toLocalFile()) for url in urls if url.isLocalFile()]:
        return _files(local)
    text = mime.text() if mime.hasText() else ""
    if inside := _data_urls(text, urls):
        return Dropped(data_urls=inside)
    words_win = text_first and text.strip() and not urls
    if mime.hasImage() and not words_win:
        raw = next(((bytes(mime.data(kind).data()), kind) for kind in _RAW if mime.hasFormat(kind)), None)
        return Dropped(raw=raw) if raw else Dropped(image=QImage(mime.imageData()))
    if mime.hasHtml() and not words_win and (found := _in_page(mime.html())).media:
        return found
    if not urls:
        return Dropped(text=text)
    addresses = _addresses(urls) if fetches else ()
    return Dropped(addresses=addresses, remote=not addresses)


def _files(paths: list[Path]) -> Dropped:
    refused = tuple(path for path in paths if path.suffix.lower() in UNREADABLE)
    return Dropped(files=tuple(path for path in paths if path not in refused), refused=refused)


def _data_urls(text: str, urls: list[QUrl]) -> tuple[str, ...]:
    if _DATA_URL.match(text):
        return (text.strip(),)
    encoded = QUrl.ComponentFormattingOption.FullyEncoded
    return tuple(url.toString(encoded) for url in urls if url.scheme() == "data")


def _addresses(urls: list[QUrl]) -> tuple[str, ...]:
    encoded = QUrl.ComponentFormattingOption.FullyEncoded
    return tuple(url.toString(encoded) for url in urls if url.scheme() in ("http", "https"))


def _in_page(html: str) -> Dropped:
    """Pictures that a piece of a web page carries in itself or shows from this computer."""
    sources = [unescape(source) for source in _IMAGE_SOURCE.findall(html)]
    files = [Path(QUrl(source).toLocalFile()) for source in sources if source[:5].lower() == "file:"]
    return Dropped(files=tuple(files), data_urls=tuple(source for source in sources if source[:5].lower() == "data:"))


def sentence(dropped: Dropped, title: str | None, room: int = MAX_ATTACHMENTS) -> str:
    """What letting go will do; ``title`` is the chat's, None for a new tab, ``room`` how many more it takes."""
    if not dropped.usable:
        return _cannot(dropped)
    if title is None:
        return "Open in a new tab"
    if dropped.text and not dropped.long:
        return f"Put the text into {title}"
    count = len(dropped.files) or len(dropped.data_urls) or len(dropped.addresses) or 1
    if count > room:
        return f"Add the first {room} of {count} files to {title}: a message holds {MAX_ATTACHMENTS}"
    if dropped.addresses:
        return f"Fetch {'1 file' if count == 1 else f'{count} files'} from the web into {title}"
    return f"Add {_what(dropped, count)} to {title}"


def _what(dropped: Dropped, count: int) -> str:
    kinds = {kind_of_name(path.name) for path in dropped.files} or {"text" if dropped.long else "image"}
    (kind, *others) = kinds
    if kind is None or others:
        only = dropped.files[0] if count == 1 else None
        return f"“{only.name}”" if only is not None else f"{count} files"
    return f"1 {NOUNS[kind]}" if count == 1 else f"{count} {NOUNS[kind]}s"


def _cannot(dropped: Dropped) -> str:
    if dropped.remote:
        return NO_FETCHING
    kinds = Counter(path.suffix.lower() or path.name for path in dropped.refused)
    names = ", ".join(name for name, _ in kinds.most_common(3))
    return f"Braid cannot read {names}" if names else "There is nothing in this that Braid reads"


def put(dropped: Dropped, draft: Composer) -> None:
    """Add what was dropped or pasted to a draft; refused files are named there, each with its reason."""
    if paths := [*dropped.files, *dropped.refused]:
        draft.add_files(paths)
    for url in dropped.data_urls:
        draft.add_data_url(url, "Picture" if url[5:10].lower() == "image" else "Pasted file")
    if dropped.raw:
        draft.add_data(dropped.raw[0], f"Picture.{dropped.raw[1].removeprefix('image/')}")
    elif dropped.image is not None and not dropped.image.isNull():
        Encoder(dropped.image, draft).start()
    elif dropped.long:
        draft.add_text(dropped.text)
    elif dropped.addresses:
        draft.add_addresses(dropped.addresses)
    elif dropped.remote:
        draft.notice.emit(f"{_cannot(dropped)}.")


class Encoder(QObject):
    """Turns a picture that exists only as pixels into a file's bytes, in the thread pool: a large one takes 0.5 s."""

    encoded = Signal(bytes)

    def __init__(self, image: QImage, draft: Composer) -> None:
        super().__init__(draft)
        self._image = image
        self.encoded.connect(self._done)

    def start(self) -> None:
        """Begin; the draft gets the picture when it is done."""
        image, encoded = self._image, self.encoded
        QThreadPool.globalInstance().start(lambda: encoded.emit(_png(image)))

    def _done(self, data: bytes) -> None:
        draft = self.parent()
        if isinstance(draft, Composer):
            draft.add_data(data, "Pasted picture.png")
        self.deleteLater()


def _png(image: QImage) -> bytes:
    data = QByteArray()
    buffer = QBuffer(data)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    image.save(buffer, "PNG", 80)  # type: ignore[call-overload]  # the stubs want bytes, Qt wants str
    return bytes(data.data())
