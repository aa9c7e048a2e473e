"""A closer look at one attachment of a draft: the frames or pages that will be sent, the words of a text."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, QTimer, Signal

from app.state.attachment import MAX_PAGES, Attachment, Excerpt
from app.state.chips import Chip, Chips
from app.state.model import Model
from engine.config import MLLMSchedulerConfig
from engine.errors import MediaCancelled, MediaError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_STILL_PIXELS = 256 * 144
_TEXT_CHARS = 2000
_PAUSE_MS = 150


@dataclass(frozen=True, slots=True)
class Still:
    """A small picture of a frame or page; `rgb` holds three bytes per pixel, row by row."""

    label: str
    width: int
    height: int
    rgb: bytes


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen; `error` says why nothing was."""

    stills: tuple[Still, ...] = ()
    text: str = ""
    error: str = ""


class Preview(QObject):
    """Shows at most one attachment, read on the readers' threads; follows it when another part of it is chosen.

    Signals:
        changed: any of the attributes.

    Attributes:
        chip_id: of the attachment that is shown; empty: none.
        look: what is seen of it; None while it is being read.
    """

    changed = Signal()

    def __init__(self, chips: Chips, model: Model, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.chip_id = ""
        self.look: Look | None = None
        self._chips, self._model = chips, model
        self._seen: Excerpt | None = None
        self._gone = threading.Event()
        self._timer = QTimer(self, singleShot=True, interval=_PAUSE_MS)
        self._timer.timeout.connect(self._start)
        chips.changed.connect(self._follow)

    @property
    def chip(self) -> Chip | None:
        """The attachment that is shown."""
        return next((chip for chip in self._chips.all if chip.id == self.chip_id), None)

    def open(self, chip_id: str) -> None:
        """Show an attachment; showing the same one again closes it."""
        if chip_id == self.chip_id:
            self.close()
            return
        self.chip_id, self.look, self._seen = chip_id, None, None
        self._follow()
        self._timer.start(0)
        self.changed.emit()

    def close(self) -> None:
        """Show none."""
        self._gone.set()
        self._timer.stop()
        self.chip_id, self.look, self._seen = "", None, None
        self.changed.emit()

    def _follow(self) -> None:
        if not self.chip_id:
            return
        chip = self.chip
        if chip is None or chip.attachment is None:
            self.close()
        elif chip.attachment.excerpt != self._seen:
            self._seen = chip.attachment.excerpt
            self._timer.start()

    def _start(self) -> None:
        chip = self.chip
        if chip is None or chip.attachment is None or not self._chips.can_start:
            return
        self._gone.set()
        self._gone = threading.Event()
        self._chips.start(self._read(chip.attachment, self._gone), "reading a preview")

    async def _read(self, attachment: Attachment, gone: threading.Event) -> None:
        look = await self._chips.run(_look_at, attachment, self.sampling, gone)
        if look is not None and not gone.is_set():
            self.look = look
            self.changed.emit()

    @property
    def sampling(self) -> tuple[float, int]:
        """Frames per second and most frames taken of a clip; before a model is there, as is usual."""
        if self._model.scheduler is not None:
            return self._model.scheduler.sampling
        usual = MLLMSchedulerConfig()
        return usual.default_video_fps, usual.max_video_frames


def _look_at(attachment: Attachment, sampling: tuple[float, int], gone: threading.Event) -> Look | None:
    """Read what there is to see; None if it is not wanted any more."""
    if gone.is_set():
        return None
    try:
        match attachment.kind:
            case "video":
                return Look(frames(attachment, sampling, gone))
            case "pdf":
                return Look(_pages(attachment))
            case "text":
                return Look(text=attachment.words()[:_TEXT_CHARS])
    except MediaCancelled:
        return None
    except MediaError as error:
        return Look(error=str(error))
    except OSError:
        return Look(error=f"Braid's copy of {attachment.name} cannot be read. Remove it and add it again.")
    return Look()


def frames(attachment: Attachment, sampling: tuple[float, int], gone: threading.Event) -> tuple[Still, ...]:
    """Exactly the frames that the engine will take of a clip, small."""
    from engine.messages import MediaSource
    from engine.reader import sample_clip

    part = attachment.excerpt
    source = MediaSource("video", str(attachment.path), part.fps, part.start, part.end, attachment.name)
    shown = sample_clip(source, *sampling, max_pixels=_STILL_PIXELS, should_stop=gone.is_set)
    return tuple(_still(clock(time), frame) for time, frame in zip(shown.times, shown.frames, strict=True))


def _pages(attachment: Attachment) -> tuple[Still, ...]:
    from engine.media.document import read_pdf

    first = attachment.excerpt.first or 1
    last = min(attachment.excerpt.last or attachment.pages, first + MAX_PAGES - 1)
    drawn = read_pdf(attachment.path, name=attachment.name, pages=range(first - 1, last), max_pixels=_STILL_PIXELS)
    return tuple(_still(f"page {first + number}", page.pixels) for number, page in enumerate(drawn))


def _still(label: str, pixels: NDArray[np.uint8]) -> Still:
    height, width, _ = pixels.shape
    return Still(label, width, height, pixels.tobytes())


def clock(seconds: float, digits: int = 1) -> str:
    """A time as it is shown on a clip: 0:07.5."""
    whole = round(seconds, digits)
    rest: Any = whole % 60
    return f"{int(whole // 60)}:{rest:0{3 + digits if digits else 2}.{digits}f}"
