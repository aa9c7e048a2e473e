"""The attachments of a draft, from drop to send."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar
from uuid import uuid4

from PySide6.QtCore import QObject, QTimer, Signal

from app.state.attachment import Attachment, Excerpt
from app.state.folder import Listing, list_folder
from app.state.journal import Journal
from app.state.reading import (
    Reading,
    Refused,
    name_of_address,
    read_address,
    read_data,
    read_data_url,
    read_file,
    read_still,
)
from app.state.tasks import Tasks
from app.storage.media import MediaStore
from engine.errors import MediaCancelled

T = TypeVar("T")
MAX_ATTACHMENTS = 100
_MANY = 3
_SOON_MS = 50


@dataclass(frozen=True, slots=True)
class Chip:
    """One attachment of a draft.

    Attributes:
        error: why it failed, in a sentence.
        partial: it is damaged, and what can be read of it could be sent.
    """

    id: str
    name: str
    state: Literal["reading", "ready", "failed"]
    attachment: Attachment | None = None
    error: str | None = None
    partial: bool = False


@dataclass(frozen=True, slots=True)
class Desk:
    """What all chats share to prepare and keep drafts.

    Attributes:
        downloads: threads of what waits for the web, so that no file waits for a slow server; None: there are none.
    """

    media: MediaStore
    pool: Executor
    journal: Journal
    tasks: Tasks
    downloads: Executor | None = None


Read = Callable[[Reading], Attachment | Listing]


@dataclass(frozen=True, slots=True)
class _Work:
    """How a chip's file is read, on whose threads, again if need be, and the wish that it stops."""

    read: Read
    pool: Executor
    gone: threading.Event = field(default_factory=threading.Event)


class Chips(QObject):
    """The attachments of one draft, in the order in which they are sent.

    Signals:
        changed: they changed.
        notice: one sentence for the person.
    """

    changed = Signal()
    notice = Signal(str)

    def __init__(self, desk: Desk, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._desk = desk
        self._chips: dict[str, Chip] = {}
        self._work: dict[str, _Work] = {}
        self._soon = QTimer(self, singleShot=True, interval=_SOON_MS)
        self._soon.timeout.connect(self.changed)

    @property
    def all(self) -> tuple[Chip, ...]:
        """All of them, in order."""
        return tuple(self._chips.values())

    @property
    def ready(self) -> tuple[Attachment, ...]:
        """Those that were read."""
        return tuple(chip.attachment for chip in self._chips.values() if chip.attachment is not None)

    # --- what comes in

    def add_files(self, paths: Sequence[Path]) -> None:
        """Attach files, and what folders hold; each chip appears at once and settles when its file was read."""
        self._add_all([(path.name, partial(_open, path)) for path in paths])

    def add_data(self, data: bytes, name: str) -> None:
        """Attach a file given as its bytes."""
        self._add_all([(name, partial(read_data, data, name))])

    def add_data_url(self, url: str, name: str) -> None:
        """Attach what is inside a `data:` URL."""
        self._add_all([(name, partial(read_data_url, url, name))])

    def add_addresses(self, urls: Sequence[str]) -> None:
        """Attach what is at addresses of the web, which is fetched now."""
        self._add_all([(name_of_address(url), partial(read_address, url)) for url in urls], self._desk.downloads)

    def put(self, attachments: Iterable[Attachment], *, first: bool) -> None:
        """Take attachments that were read before."""
        known = {item.id: Chip(item.id, item.name, "ready", item) for item in attachments}
        self._chips = known | self._chips if first else self._chips | known
        self.changed.emit()

    # --- what a person does with them

    def remove(self, chip_ids: Iterable[str]) -> None:
        """Take some out; one that is still being read is given up."""
        gone = [self._chips.pop(chip_id) for chip_id in tuple(chip_ids) if chip_id in self._chips]
        for chip in gone:
            if chip.id in self._work:
                self._work.pop(chip.id).gone.set()
        if gone:
            self.changed.emit()

    def stop(self) -> None:
        """Give up what is still being read."""
        self._soon.stop()
        for work in self._work.values():
            work.gone.set()

    def clear(self) -> tuple[Attachment, ...]:
        """Take all out; returns those that were read."""
        ready = self.ready
        self.stop()
        self._chips, self._work = {}, {}
        return ready

    def move(self, chip_id: str, to: int) -> None:
        """Give one another place."""
        chips = list(self._chips.values())
        chip = self._chips.get(chip_id)
        if chip is None:
            return
        before = chips.index(chip)
        chips.insert(max(0, min(to, len(chips) - 1)), chips.pop(before))
        self._chips = {chip.id: chip for chip in chips}
        if chips.index(chip) != before:
            self.changed.emit()

    def choose(self, chip_id: str, excerpt: Excerpt) -> None:
        """Send another part of one."""
        chip = self._chips.get(chip_id)
        if chip is not None and chip.attachment is not None and chip.attachment.excerpt != excerpt:
            self._put(replace(chip, attachment=replace(chip.attachment, excerpt=excerpt, tokens=None)))

    def take_damaged(self, chip_id: str) -> None:
        """Send what can be read of a damaged picture."""
        chip = self._chips.get(chip_id)
        if chip is not None and chip.partial:
            self._put(replace(chip, state="reading", error=None, partial=False))
            self._start(chip.id, damaged=True)

    def take_still(self, chip_id: str) -> None:
        """Send a clip's first frame as a picture in its place."""
        chip = self._chips.get(chip_id)
        if chip is not None and chip.state == "ready" and chip.attachment is not None:
            self._work[chip.id] = _Work(partial(read_still, chip.attachment), self._desk.pool)
            self._put(replace(chip, state="reading"))
            self._start(chip.id)

    def price(self, tokens: Mapping[str, int]) -> None:
        """Note what attachments cost, by their ids; views are told by whoever asked."""
        for chip in self._chips.values():
            found = chip.attachment
            if found is not None and tokens.get(found.id) not in (None, found.tokens):
                self._chips[chip.id] = replace(chip, attachment=replace(found, tokens=tokens[found.id]))

    async def run(self, work: Callable[..., T], *arguments: object) -> T:
        """Work on the readers' threads."""
        return await asyncio.get_running_loop().run_in_executor(self._desk.pool, partial(work, *arguments))

    @property
    def can_start(self) -> bool:
        """Whether anything can be read now."""
        return self._desk.tasks.possible

    def start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Keep a task of the draft's until it is done."""
        self._desk.tasks.start(work, name)

    # --- reading

    def _add_all(self, wanted: list[tuple[str, Read]], pool: Executor | None = None) -> None:
        room = MAX_ATTACHMENTS - len(self._chips)
        if len(wanted) > room:
            self.notice.emit(_too_many(len(wanted) - room))
        for name, read in wanted[:room]:
            self._add(name, read, pool)
        if room > 0 and wanted:
            self.changed.emit()

    def _add(self, name: str, read: Read, pool: Executor | None = None) -> None:
        chip = Chip(uuid4().hex, name, "reading")
        self._chips[chip.id] = chip
        self._work[chip.id] = _Work(read, pool or self._desk.pool)
        self._start(chip.id)

    def _start(self, chip_id: str, *, damaged: bool = False) -> None:
        self._desk.tasks.start(self._read(chip_id, self._work[chip_id], damaged), "reading an attachment")

    async def _read(self, chip_id: str, work: _Work, damaged: bool) -> None:
        try:
            how = Reading(self._desk.media, work.gone.is_set, damaged)
            found = await asyncio.get_running_loop().run_in_executor(work.pool, work.read, how)
        except MediaCancelled:
            return
        except Refused as error:
            if not work.gone.is_set():
                self._refuse(chip_id, error)
            return
        if work.gone.is_set():
            return  # its chat may be closed by now
        if isinstance(found, Listing):
            self._spread(chip_id, found)
        else:
            self._settle(chip_id, found)

    def _spread(self, chip_id: str, listing: Listing) -> None:
        """Put a folder's files where its chip is."""
        folder = self._chips.get(chip_id)
        if folder is None:
            return
        chips = list(self._chips.values())
        place = chips.index(folder)
        listing = listing.limited(MAX_ATTACHMENTS - len(chips) + 1)
        del self._work[chip_id]
        self._chips = {chip.id: chip for chip in chips[:place]}
        for path in listing.taken:
            self._add(path.name, partial(read_file, path))
        self._chips |= {chip.id: chip for chip in chips[place + 1 :]}
        self.changed.emit()
        self.notice.emit(listing.sentence(folder.name, MAX_ATTACHMENTS))

    def _refuse(self, chip_id: str, error: Refused) -> None:
        chip = self._chips.get(chip_id)
        if chip is None:
            return
        if error.meant:
            self._put(replace(chip, state="failed", attachment=None, error=str(error), partial=error.partial))
        else:
            self.remove([chip_id])
            self.notice.emit(str(error))

    def _settle(self, chip_id: str, attachment: Attachment) -> None:
        chip = self._chips.get(chip_id)
        if chip is not None:
            self._work.pop(chip_id, None)
            self._put(replace(chip, state="ready", attachment=attachment))

    def _put(self, chip: Chip) -> None:
        """Take a new state of one; while many are read, tell of several together."""
        self._chips[chip.id] = chip
        if sum(each.state == "reading" for each in self._chips.values()) > _MANY:
            if not self._soon.isActive():
                self._soon.start()
        else:
            self._soon.stop()
            self.changed.emit()


def _open(path: Path, how: Reading) -> Attachment | Listing:
    return list_folder(path, MAX_ATTACHMENTS, how.should_stop) if path.is_dir() else read_file(path, how)


def _too_many(left_out: int) -> str:
    verb = "was" if left_out == 1 else "were"
    return (
        f"A message can hold {MAX_ATTACHMENTS} attachments, so {left_out} {verb} left out. "
        "Send the rest in another message."
    )
