"""The draft of one chat: its text and attachments, on their way to one turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import QObject, QSignalBlocker, Signal

from app.state.attachment import Attachment, Excerpt
from app.state.chips import MAX_ATTACHMENTS, Chip, Chips, Desk
from app.state.facts import facts
from app.state.forecast import Before, Cost, Forecast
from app.state.model import Model
from app.state.obstacle import Obstacle, obstacle, unfit
from app.state.preview import Preview
from app.state.reading import MAX_TEXT
from app.state.turn import Turn
from app.storage.conversations import DraftRecord
from engine.messages import MediaKind

__all__ = ["MAX_ATTACHMENTS", "Chip", "Composer", "Desk", "Obstacle"]
LONG_TEXT = 20_000
"""Characters from which a pasted text becomes an attachment: no text field stays quick with more."""
NO_FETCHING = "Braid does not fetch from the web: save it first, then drop the file"


class Composer(QObject):
    """The draft of one chat.

    Signals:
        changed: text, chips, cost, obstacle or `can_send` changed.
        notice: one sentence for the person, such as why a drop was refused.
        submitted: text and attachments of a turn; the draft is empty by then.
    """

    changed = Signal()
    notice = Signal(str)
    submitted = Signal(str, tuple)

    def __init__(
        self,
        desk: Desk,
        model: Model,
        keep: Callable[[DraftRecord], None],
        before: Callable[[], Before] = Before,
        parent: QObject | None = None,
    ) -> None:
        """Start empty.

        Args:
            desk: shared by all chats.
            model: which will answer.
            keep: called with each new state of the draft.
            before: the chat so far.
            parent: in Qt's sense.
        """
        super().__init__(parent)
        self._model, self._keep, self._before = model, keep, before
        self._text = ""
        self._kept = DraftRecord("")
        self._chips = Chips(desk, self)
        self._chips.changed.connect(self._edited)
        self._chips.notice.connect(self.notice)
        self._forecast = Forecast(model, before, desk.pool, desk.tasks, self)
        self._forecast.changed.connect(self._priced)
        self._takes: frozenset[MediaKind] | None = None
        self.preview = Preview(self._chips, model, self)
        model.changed.connect(self._model_changed)

    # --- as it is

    @property
    def text(self) -> str:
        """What is typed."""
        return self._text

    @property
    def chips(self) -> tuple[Chip, ...]:
        """The attachments in the order in which they are sent."""
        return self._chips.all

    @property
    def cost(self) -> Cost | None:
        """What sending it would cost; None while that is not known."""
        return self._forecast.cost

    @property
    def obstacle(self) -> Obstacle | None:
        """What keeps it from being sent, or should be known before."""
        before = (item for turn in self._before().turns for item in turn.attachments)
        return obstacle(self._text, self.chips, before, self._model, self.cost, self._forecast.trouble)

    @property
    def can_send(self) -> bool:
        """Whether there is something to send and nothing in the way."""
        if self.empty or any(chip.state == "reading" for chip in self.chips):
            return False
        found = self.obstacle
        return found is None or not found.blocks

    @property
    def empty(self) -> bool:
        """Whether nothing would be lost without this draft."""
        return not self.chips and not self._text.strip()

    @property
    def situation(self) -> tuple[object, ...]:
        """What `unfit` and `facts` depend on besides the attachment."""
        return self._model.name, self._model.status, self._model.takes, self.preview.sampling

    def unfit(self, chip: Chip) -> str | None:
        """Why the loaded model cannot read an attachment; None if it can."""
        return unfit(chip.attachment, self._model)

    def facts(self, attachment: Attachment) -> str:
        """How large an attachment is, in a few words."""
        return facts(attachment, self.preview.sampling)

    # --- what a person does

    def set_text(self, text: str) -> None:
        """Take what is typed; a text over the limit is kept, but cannot be sent."""
        if text != self._text:
            self._text = text
            self._edited()

    def add_files(self, paths: Sequence[Path]) -> None:
        """Attach files and what folders hold; chips appear at once and become ready or failed when they were read."""
        self._chips.add_files(paths)

    def add_data(self, data: bytes, name: str) -> None:
        """Attach a pasted or dragged file given as its bytes."""
        self._chips.add_data(data, name)

    def add_data_url(self, url: str, name: str) -> None:
        """Attach what is inside a `data:` URL."""
        self._chips.add_data_url(url, name)

    def add_addresses(self, urls: Sequence[str]) -> None:
        """Attach what is at addresses of the web, if the settings let Braid fetch it."""
        if self._model.fetches:
            self._chips.add_addresses(urls)
        else:
            self.notice.emit(f"{NO_FETCHING}.")

    def add_text(self, text: str) -> None:
        """Attach a long text that was pasted."""
        if len(text) > MAX_TEXT:
            self.notice.emit(
                f"The pasted text has {len(text) / 1e6:.1f} million characters. "
                f"A message can hold {MAX_TEXT // 1_000_000} million: paste a part of it."
            )
            return
        self.add_data(text.encode(errors="replace"), "Pasted text.txt")

    def remove(self, *chip_ids: str) -> None:
        """Take attachments out; one that is still being read is dropped when it arrives."""
        self._chips.remove(chip_ids)

    def move(self, chip_id: str, to: int) -> None:
        """Give an attachment another place, from 0."""
        self._chips.move(chip_id, to)

    def choose(self, chip_id: str, excerpt: Excerpt) -> None:
        """Send another part of a clip or document."""
        self._chips.choose(chip_id, excerpt)

    def take_damaged(self, chip_id: str) -> None:
        """Send what can be read of a damaged picture."""
        self._chips.take_damaged(chip_id)

    def take_stills(self, *chip_ids: str) -> None:
        """Send the first frames of clips as pictures."""
        for chip_id in chip_ids:
            self._chips.take_still(chip_id)

    def send(self) -> None:
        """Hand text and attachments over as one turn and start an empty draft."""
        if not self.can_send:
            return
        text, self._text = self._text, ""
        ready = self._chips.clear()
        self._edited()
        self.submitted.emit(text, ready)

    # --- what the chat and the library do

    def put_back(self, text: str, attachments: Sequence[Attachment]) -> None:
        """Return an unsent turn to the draft, before what is there."""
        self._text = "\n\n".join(part for part in (text, self._text) if part)
        if attachments:
            self._chips.put(attachments, first=True)
        else:
            self._edited()

    def restore(self, text: str, attachments: Sequence[Attachment]) -> None:
        """Show a draft that the library has kept."""
        self._text = text
        with QSignalBlocker(self._chips):
            self._chips.put(attachments, first=True)
        self._kept = self.record()
        self._look()
        self.changed.emit()

    def record(self) -> DraftRecord:
        """What the library keeps of the draft; files still being read are not part of it yet."""
        return DraftRecord(self._text, tuple(item.record() for item in self._chips.ready))

    def close(self) -> None:
        """Let go of what is being read or priced; the draft itself is kept."""
        self._forecast.close()
        self.preview.close()
        self._chips.stop()

    def followed(self) -> None:
        """The chat before the draft changed."""
        self._forecast.again()

    # --- inside

    def _edited(self) -> None:
        record = self.record()
        if record != self._kept:
            self._kept = record
            self._keep(record)
        self._look()
        self.changed.emit()

    def _look(self) -> None:
        if self.empty or any(chip.state == "reading" for chip in self.chips):
            self._forecast.look(None)
            return
        fit = tuple(item for item in self._chips.ready if unfit(item, self._model) is None)
        self._forecast.look(Turn(text=self._text, attachments=fit))

    def _priced(self) -> None:
        if self.cost is not None:
            self._chips.price(self.cost.parts)
        self.changed.emit()

    def _model_changed(self) -> None:
        """What fits and what it costs depends on the model; progress of loading does not matter."""
        takes = self._model.takes if self._model.status == "ready" else None
        if takes != self._takes:
            self._takes = takes
            self._look()
            self.changed.emit()
