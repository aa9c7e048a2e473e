"""Pictures in full size, read again from the library's own copies, and put where the person wants them."""

from __future__ import annotations

import logging
import shutil
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QObject, QThreadPool, Signal

from app.state.attachment import Attachment

_log = logging.getLogger(__name__)
_KEPT = 3


@dataclass(frozen=True, slots=True)
class Original:
    """Upright pixels, three bytes each (red, green, blue), row by row from the top."""

    width: int
    height: int
    data: bytes


class Originals(QObject):
    """Reads and copies in the thread pool; keeps the last few pictures until it is told to forget them.

    Signals:
        read: id of an attachment whose pixels are here now.
        failed: id of an attachment, and in a sentence why it cannot be read.
        saved: in a sentence, how saving a copy went.
    """

    read = Signal(str)
    failed = Signal(str, str)
    saved = Signal(str)
    _done = Signal(str, object)

    def __init__(self) -> None:
        super().__init__()
        self._kept: OrderedDict[str, Original] = OrderedDict()
        self._reading: set[str] = set()
        self._done.connect(self._keep)

    def get(self, item: Attachment) -> Original | None:
        """The picture's pixels, or None while they are being read; `read` or `failed` tells when."""
        found = self._kept.get(item.id)
        if found is not None:
            self._kept.move_to_end(item.id)
        elif item.id not in self._reading:
            self._reading.add(item.id)
            QThreadPool.globalInstance().start(lambda: self._done.emit(item.id, _read(item)))
        return found

    def forget(self) -> None:
        """Give the memory back."""
        self._kept.clear()

    def save(self, item: Attachment, target: Path) -> None:
        """Copy the file as it was attached."""
        QThreadPool.globalInstance().start(lambda: self.saved.emit(_copy(item, target)))

    def _keep(self, item_id: str, found: Original | str) -> None:
        self._reading.discard(item_id)
        if isinstance(found, str):
            self.failed.emit(item_id, found)
            return
        self._kept[item_id] = found
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        self.read.emit(item_id)


originals = Originals()
"""There is one, so that work under way never outlives what it reports to."""


def _read(item: Attachment) -> Original | str:
    """On a pool thread: the pixels, or why there are none."""
    from engine.errors import MediaError
    from engine.media.image import read_image

    try:
        pixels = read_image(item.path, name=item.name, allow_truncated=True).pixels
    except MediaError as error:
        return str(error)
    return Original(pixels.shape[1], pixels.shape[0], pixels.tobytes())


def _copy(item: Attachment, target: Path) -> str:
    """On a pool thread: how it went."""
    try:
        shutil.copyfile(item.path, target)
    except OSError:
        _log.info("A picture could not be saved to %s", target, exc_info=True)
        return f"{item.name} could not be saved there. Choose another folder, or free some disk space."
    return f"Saved as {target.name}."
