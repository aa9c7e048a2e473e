"""The draft of one chat: its text and attachments, on their way to one turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal
from uuid import uuid4

from PySide6.QtCore import QObject, Signal

from app.state.attachment import Attachment, Refused, read_data, read_data_url, read_file
from app.state.journal import Journal
from app.state.tasks import Tasks
from app.storage.conversations import DraftRecord
from app.storage.media import MediaStore

MAX_ATTACHMENTS = 32
MAX_CHARACTERS = 5_000_000


@dataclass(frozen=True, slots=True)
class Chip:
    """One attachment of a draft, from drop to send."""

    id: str
    name: str
    state: Literal["reading", "ready", "failed"]
    attachment: Attachment | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Desk:
    """What all chats share to prepare and keep drafts."""

    media: MediaStore
    pool: Executor
    journal: Journal
    tasks: Tasks


class Composer(QObject):
    """The draft of one chat.

    Signals:
        changed: text, chips or `can_send` changed.
        notice: one sentence for the person, such as why a drop was refused.
        submitted: text and attachments of a turn; the draft is empty by then.
    """

    changed = Signal()
    notice = Signal(str)
    submitted = Signal(str, tuple)

    def __init__(self, desk: Desk, keep: Callable[[DraftRecord], None], parent: QObject | None = None) -> None:
        """Start empty; `keep` is called with each new state of the draft."""
        super().__init__(parent)
        self._desk = desk
        self._keep = keep
        self._text = ""
        self._chips: dict[str, Chip] = {}

    @property
    def text(self) -> str:
        """What is typed."""
        return self._text

    @property
    def chips(self) -> tuple[Chip, ...]:
        """The attachments in the order in which they were added."""
        return tuple(self._chips.values())

    @property
    def can_send(self) -> bool:
        """Whether there is something to send and nothing is still being read."""
        states = {chip.state for chip in self._chips.values()}
        fits = len(self._text) <= MAX_CHARACTERS
        return fits and "reading" not in states and ("ready" in states or bool(self._text.strip()))

    @property
    def empty(self) -> bool:
        """Whether nothing would be lost without this draft."""
        return not self._chips and not self._text.strip()

    def set_text(self, text: str) -> None:
        """Take what is typed; a text over the limit is kept, but cannot be sent."""
        if text == self._text:
            return
        if len(text) > MAX_CHARACTERS >= len(self._text):
            self.notice.emit(
                f"This text has {len(text) / 1e6:.1f} million characters. "
                f"A message can hold {MAX_CHARACTERS // 1_000_000} million: shorten it to send."
            )
        self._text = text
        self._edited()

    def add_files(self, paths: Sequence[Path]) -> None:
        """Attach files; each chip appears at once and becomes ready or failed when its file was read."""
        for path in paths[: self._room(len(paths))]:
            self._add(path.name, partial(read_file, path, self._desk.media))

    def add_image_data(self, data: bytes, name: str) -> None:
        """Attach a pasted or dragged picture given as the bytes of a picture file."""
        if self._room(1):
            self._add(name, partial(read_data, data, name, self._desk.media))

    def add_data_url(self, url: str, name: str) -> None:
        """Attach the picture inside a `data:` URL."""
        if self._room(1):
            self._add(name, partial(read_data_url, url, name, self._desk.media))

    def remove(self, chip_id: str) -> None:
        """Take an attachment out; one that is still being read is dropped when it arrives."""
        if self._chips.pop(chip_id, None) is not None:
            self._edited()

    def send(self) -> None:
        """Hand text and readable attachments over as one turn and start an empty draft."""
        if not self.can_send:
            return
        text = self._text
        ready = tuple(chip.attachment for chip in self._chips.values() if chip.attachment is not None)
        self._text = ""
        self._chips.clear()
        self._edited()
        self.submitted.emit(text, ready)

    def put_back(self, text: str, attachments: Sequence[Attachment]) -> None:
        """Return an unsent turn to the draft, before what is there."""
        self._text = "\n\n".join(part for part in (text, self._text) if part)
        chips = [Chip(item.id, item.name, "ready", item) for item in attachments]
        self._chips = {chip.id: chip for chip in chips} | self._chips
        self._edited()

    def restore(self, text: str, attachments: Sequence[Attachment]) -> None:
        """Show a draft that the library has kept."""
        self._text = text
        self._chips = {item.id: Chip(item.id, item.name, "ready", item) for item in attachments}
        self.changed.emit()

    def record(self) -> DraftRecord:
        """What the library keeps of the draft; files still being read are not part of it yet."""
        ready = [chip.attachment.record() for chip in self._chips.values() if chip.attachment is not None]
        return DraftRecord(self._text, tuple(ready))

    def _room(self, wanted: int) -> int:
        """How many more attachments fit; says so when that is less than wanted."""
        room = MAX_ATTACHMENTS - len(self._chips)
        if wanted > room:
            verb = "was" if wanted - room == 1 else "were"
            self.notice.emit(
                f"A message can hold {MAX_ATTACHMENTS} attachments, so {wanted - room} {verb} left out. "
                "Send the rest in another message."
            )
        return room

    def _add(self, name: str, read: Callable[[], Attachment]) -> None:
        chip = Chip(uuid4().hex, name, "reading")
        self._chips[chip.id] = chip
        self.changed.emit()
        self._desk.tasks.start(self._read(chip, read), f"reading {name}")

    async def _read(self, chip: Chip, read: Callable[[], Attachment]) -> None:
        try:
            attachment = await asyncio.get_running_loop().run_in_executor(self._desk.pool, read)
        except Refused as error:
            self._refuse(chip, error)
        else:
            self._settle(replace(chip, state="ready", attachment=attachment))

    def _refuse(self, chip: Chip, error: Refused) -> None:
        if chip.id not in self._chips:
            return
        if error.picture:
            self._settle(replace(chip, state="failed", error=str(error)))
        else:
            self.remove(chip.id)
        self.notice.emit(str(error))

    def _settle(self, chip: Chip) -> None:
        if chip.id in self._chips:
            self._chips[chip.id] = chip
            self._edited()

    def _edited(self) -> None:
        self._keep(self.record())
        self.changed.emit()
