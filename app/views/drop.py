"""What is being dragged or pasted, told apart before anything is read, and the sentence that says what will happen."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QMimeData, QObject, QRectF, Qt, QThreadPool, Signal
from PySide6.QtGui import QImage, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from app.state.attachment import Refused, refuse_other_kind
from app.state.composer import Composer
from app.views.theme import color, ui_font

PICTURES = (".png", ".jpg", ".jpeg", ".jfif", ".gif", ".webp", ".heic", ".heif", ".avif", ".bmp", ".tif", ".tiff")
_RAW = ("image/png", "image/jpeg", "image/webp", "image/gif", "image/tiff")


@dataclass(frozen=True, slots=True)
class Dropped:
    """One drag or paste; at most one of the three ways to carry pictures is used, files first."""

    files: tuple[Path, ...] = ()
    refused: tuple[Path, ...] = ()
    raw: tuple[bytes, str] | None = None
    image: QImage | None = None
    data_url: str = ""
    text: str = ""
    remote: bool = False

    @property
    def pictures(self) -> bool:
        """Whether there is something to attach."""
        return bool(self.files or self.raw or self.image or self.data_url)

    @property
    def usable(self) -> bool:
        """Whether dropping it does anything but explain why not."""
        return self.pictures or bool(self.text)


def read(mime: QMimeData, *, text_first: bool = False) -> Dropped:
    """Sort out what a drag or the clipboard carries, without opening any file.

    Spreadsheets and word processors put a picture of their text beside it: ``text_first`` (a paste) prefers the text.
    """
    local = [Path(url.toLocalFile()) for url in mime.urls() if url.isLocalFile()]
    if local:
        refused = tuple(path for path in local if _refused(path))
        return Dropped(files=tuple(path for path in local if path not in refused), refused=refused)
    text = mime.text() if mime.hasText() else ""
    if text.startswith("data:image/"):
        return Dropped(data_url=text.strip())
    if mime.hasImage() and not (text_first and text.strip() and not mime.hasUrls()):
        raw = next(((bytes(mime.data(kind).data()), kind) for kind in _RAW if mime.hasFormat(kind)), None)
        return Dropped(raw=raw) if raw else Dropped(image=QImage(mime.imageData()))
    return Dropped(text="" if mime.hasUrls() else text, remote=mime.hasUrls())


def _refused(path: Path) -> bool:
    try:
        refuse_other_kind(path.name)
    except Refused:
        return True
    return path.suffix.lower() not in PICTURES


def sentence(dropped: Dropped, title: str | None) -> str:
    """What letting go will do; ``title`` is the chat's, None for a new tab."""
    if not dropped.usable:
        return _cannot(dropped)
    where = "Open in a new tab" if title is None else ""
    if dropped.text:
        return where or f"Put the text into {title}"
    count = len(dropped.files) or 1
    what = f"Add {count} pictures to {title}" if count > 1 else f"Add 1 picture to {title}"
    return where or what


def _cannot(dropped: Dropped) -> str:
    if dropped.remote:
        return "Braid does not fetch pictures from the web: save it first, then drop the file"
    kinds = Counter(path.suffix.lower() or path.name for path in dropped.refused)
    names = ", ".join(name for name, _ in kinds.most_common(3))
    return f"Braid cannot read {names}" if names else "There is no picture in this"


def put(dropped: Dropped, draft: Composer) -> None:
    """Add what was dropped or pasted to a draft; refused files are named there, each with its reason."""
    if paths := [*dropped.files, *dropped.refused]:
        draft.add_files(paths)
    elif dropped.data_url:
        draft.add_data_url(dropped.data_url, "Picture")
    elif dropped.raw:
        draft.add_image_data(dropped.raw[0], f"Picture.{dropped.raw[1].removeprefix('image/')}")
    elif dropped.image is not None and not dropped.image.isNull():
        Encoder(dropped.image, draft).start()
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
            draft.add_image_data(data, "Pasted picture.png")
        self.deleteLater()


def _png(image: QImage) -> bytes:
    data = QByteArray()
    buffer = QBuffer(data)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    image.save(buffer, "PNG", 80)  # type: ignore[call-overload]  # the stubs want bytes, Qt wants str
    return bytes(data.data())


class Veil(QWidget):
    """Dims a part of the window during a drag and says what letting go will do."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self._text, self._refuses = "", False
        self.hide()

    def lift(self, rect: QRectF, text: str, *, refuses: bool) -> None:
        """Cover ``rect`` of the parent with the sentence."""
        self.setGeometry(rect.toRect())
        if (text, refuses) != (self._text, self._refuses):
            self._text, self._refuses = text, refuses
            self.setAccessibleName(text)
            self.update()
        self.raise_()
        self.show()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.fillRect(self.rect(), color("surface", 0.86))
        ink = color("error" if self._refuses else "accent")
        painter.setPen(QPen(ink, 2))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(9, 9, -9, -9), 10, 10)
        self._say(painter)

    def _say(self, painter: QPainter) -> None:
        """The sentence on a pill, so that what lies behind the veil does not run into it."""
        large = self.height() > 80
        painter.setFont(ui_font(17 if large else 13, strong=True))
        metrics, room = painter.fontMetrics(), self.width() - 80
        text = metrics.elidedText(self._text, Qt.TextElideMode.ElideMiddle, room)
        pill = QRectF(0, 0, metrics.horizontalAdvance(text) + 40, 44 if large else 24)
        pill.moveCenter(QRectF(self.rect()).center())
        painter.setPen(color("line") if large else Qt.PenStyle.NoPen)
        painter.setBrush(color("raised"))
        painter.drawRoundedRect(pill, pill.height() / 2, pill.height() / 2)
        painter.setPen(color("error" if self._refuses else "text"))
        painter.drawText(pill, Qt.AlignmentFlag.AlignCenter, text)
