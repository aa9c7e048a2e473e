"""A library, model and vitals that do as a test says, with the signals and methods that views use."""

from __future__ import annotations

import itertools
import time
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image
from PySide6.QtCore import QObject, Signal

from app.presets import Sampling
from app.state.attachment import Attachment
from app.state.branch import Offers
from app.state.composer import Composer, Desk
from app.state.forecast import Cost
from app.state.models import Entry as ListedModel
from app.state.preview import Look
from app.state.queue import Queue
from app.state.shelf import Entry
from app.state.tasks import Tasks
from app.state.turn import AnswerFacts, Turn
from app.state.vitals import Sample
from app.storage.search import Found
from engine.config import MLLMSchedulerConfig
from engine.messages import MediaKind
from engine.models.catalog import ModelCard
from engine.models.fit import Fit
from engine.models.local import LocalModel
from engine.models.weights import Weights
from engine.request import Phase
from tests.fakes import FakeScheduler

_numbers = itertools.count(1)


def attachment(
    name: str,
    size: tuple[int, int] = (320, 240),
    colour: str = "teal",
    image: Image.Image | None = None,
    **facts: Any,
) -> Attachment:
    """Media as the state would keep it, a picture unless `facts` say otherwise."""
    image = image or Image.new("RGB", size, colour)
    data = BytesIO()
    small = image.copy()
    small.thumbnail((512, 512))
    small.save(data, "PNG")
    facts = {"kind": "image", "note": None, "tokens": 312, **facts}
    width, height = image.size
    number = f"a{next(_numbers)}"
    return Attachment(
        id=number, name=name, path=Path(name), width=width, height=height, thumbnail=data.getvalue(), **facts
    )


GB = 10**9
FITS = Fit(3 * GB, GB // 2, 14 * GB, 32768)


def entry(
    name: str = "Qwen",
    *,
    problem: str = "",
    missing: Sequence[str] = (),
    fit: Fit = FITS,
    embedded: bool = False,
    takes: Sequence[MediaKind] = ("image", "video"),
    head: bool = False,
) -> ListedModel:
    """A model as the list shows it."""
    card = ModelCard(name, "qwen3_vl", True, 3 * GB, frozenset(takes), "4 bit", 262144, head)
    folder = Path("/models") / name.lower()
    repo = f"owner/{name}" if missing else ""
    model = LocalModel(folder, folder, repo, name, card, Weights({}, head), tuple(missing), 3 * GB, problem)
    return ListedModel(model, None if problem else fit, embedded)


POCKET = entry("Pocket", embedded=True, head=True)


class HeldTasks(Tasks):
    """Starts nothing: files are read and drafts priced when the test says so."""

    def start(self, work: Coroutine[Any, Any, Any], name: str) -> Any:
        work.close()


class Draft(Composer):
    """A composer whose files are read when the test says so."""

    def __init__(self, model: LoadedModel, parent: QObject) -> None:
        desk = Desk(media=None, pool=None, journal=None, tasks=HeldTasks())  # type: ignore[arg-type]
        super().__init__(desk, model, lambda draft: None, parent=parent)  # type: ignore[arg-type]
        self.sent: list[tuple[str, tuple[Attachment, ...]]] = []
        self.submitted.connect(lambda text, items: self.sent.append((text, items)))
        self.asked: list[object] = []

    def add_files(self, paths: Sequence[Path]) -> None:
        self.asked += paths
        super().add_files(paths)

    def add_data(self, data: bytes, name: str) -> None:
        self.asked.append(data)
        super().add_data(data, name)

    def add_data_url(self, url: str, name: str) -> None:
        self.asked.append(url)
        super().add_data_url(url, name)

    def add_addresses(self, urls: Sequence[str]) -> None:
        self.asked += urls if self._model.fetches else ()
        super().add_addresses(urls)

    def finish(
        self, chip_id: str, found: Attachment | None, error: str | None = None, *, partial: bool = False
    ) -> None:
        """Reading ends: with an attachment or a sentence."""
        chip = next(chip for chip in self.chips if chip.id == chip_id)
        state = "ready" if found else "failed"
        self._chips._put(replace(chip, state=state, attachment=found, error=error, partial=partial))

    def attach(self, *items: Attachment) -> None:
        """Have these attached at once."""
        self._chips.put(items, first=False)

    def see(self, look: Look) -> None:
        """The preview was read."""
        self.preview.look = look
        self.preview.changed.emit()

    def price(self, cost: Cost | None) -> None:
        """The engine says what it costs."""
        self._forecast._tell(cost)


class Chat(QObject):
    """A conversation whose turns the test writes."""

    turn_added = Signal(str)
    turn_changed = Signal(str)
    turn_removed = Signal(str)
    branch_changed = Signal()
    revealed = Signal(str)
    activity_changed = Signal()
    title_changed = Signal(str)
    instructed = Signal()

    def __init__(
        self, title: str = "New chat", model: LoadedModel | None = None, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self.id = f"chat{next(_numbers)}"
        self.title = title
        self.turns: list[Turn] = []
        self.composer = Draft(model or LoadedModel(), self)
        self.queue = Queue(lambda: self.turns, lambda turns: None, self.turns_taken, self)
        self.phase: Phase | None = None
        self.activity = ""
        self.tokens_per_second: float | None = None
        self.unread = False
        self.system_prompt, self.sampling = "", Sampling()
        self.stopped = 0
        self.retried: list[str] = []
        self.calls: list[tuple[object, ...]] = []
        self.positions: dict[str, tuple[int, int]] = {}

    def instruct(self, system_prompt: str, sampling: Sampling) -> None:
        self.system_prompt, self.sampling = system_prompt, sampling
        self.instructed.emit()

    def stop(self) -> None:
        self.stopped += 1

    def retry(self, turn_id: str) -> None:
        self.retried.append(turn_id)

    def resume(self, turn_id: str) -> None:
        self.calls.append(("resume", turn_id))

    def edit(self, turn_id: str, text: str) -> None:
        self.calls.append(("edit", turn_id, text))

    def show_variant(self, turn_id: str, by: int) -> None:
        self.calls.append(("variant", turn_id, by))

    def fork(self, turn_id: str) -> None:
        self.calls.append(("fork", turn_id))

    def offers(self, turn_id: str) -> Offers:
        turn = next((turn for turn in self.turns if turn.id == turn_id), None)
        if turn is None or turn.state == "queued":
            return Offers()
        position, count = self.positions.get(turn_id, (1, 1))
        rests, mine = self.phase is None, turn.role == "user"
        resume = rests and turn is self.turns[-1] and turn.early
        return Offers(position, count, rests and count > 1, rests and mine, rests and not mine, resume, True)

    def turns_taken(self, turn: Turn) -> None:
        self.turns.remove(turn)
        self.turn_removed.emit(turn.id)

    def rename(self, title: str) -> None:
        self.title = title
        self.title_changed.emit(title)

    def mark_read(self) -> None:
        self.unread = False
        self.activity_changed.emit()

    def add(self, turn: Turn) -> Turn:
        """Append a turn as the state would."""
        self.turns.append(turn)
        self.turn_added.emit(turn.id)
        return turn

    def ask(self, text: str, *attachments: Attachment) -> Turn:
        """Append a person's turn."""
        return self.add(Turn(role="user", text=text, attachments=attachments))

    def answer(self, text: str, facts: AnswerFacts | None = None) -> Turn:
        """Append a finished answer."""
        return self.add(Turn(role="assistant", text=text, facts=facts))

    def begin(self, text: str = "") -> Turn:
        """Append an answer that is being written."""
        turn = self.add(Turn(role="assistant", text=text, state="live"))
        self.act(Phase.GENERATION, "41 tok/s")
        return turn

    def write(self, turn: Turn, text: str) -> None:
        """One engine output."""
        turn.text += text
        self.turn_changed.emit(turn.id)

    def end(self, turn: Turn, state: str = "done", error: str | None = None) -> None:
        """The answer is over."""
        turn.state, turn.error = state, error  # type: ignore[assignment]
        self.turn_changed.emit(turn.id)
        self.act(None, "")

    def act(self, phase: Phase | None, activity: str) -> None:
        """Say what the engine does."""
        self.phase, self.activity = phase, activity
        self.activity_changed.emit()


class Sought(QObject):
    """A search that finds what the test puts there."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.words, self.error = "", ""
        self.found: tuple[Found, ...] = ()
        self.asked: list[str] = []

    def seek(self, text: str) -> None:
        self.asked.append(text)
        if not text.strip():
            self.find("")

    def find(self, words: str, *found: Found, error: str = "") -> None:
        """The search has ended."""
        self.words, self.found, self.error = words, found, error
        self.changed.emit()


class Files:
    """Exports and imports that are only noted."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def export(self, ids: Sequence[str], path: Path) -> None:
        self.calls.append(("export", ids, path))

    def take(self, path: Path) -> None:
        self.calls.append(("import", path))


class Chats(QObject):
    """A library of such conversations."""

    entries_changed = Signal()
    tabs_changed = Signal()
    current_changed = Signal(str)
    beside_changed = Signal()
    answered = Signal(str)
    deleted = Signal(str)

    def __init__(self, *titles: str) -> None:
        super().__init__()
        self.model = LoadedModel()
        self.tabs = [Chat(title, self.model, self) for title in titles or ("New chat",)]
        self.current = self.tabs[0]
        self.beside: Chat | None = None
        self.entries: tuple[Entry, ...] = tuple(Entry(chat.id, chat.title, time.time()) for chat in self.tabs)
        self.calls: list[tuple[object, ...]] = []
        self.search = Sought()
        self.exchange = Files()

    @property
    def folders(self) -> tuple[str, ...]:
        return tuple(sorted({entry.folder for entry in self.entries if entry.folder is not None}))

    def _change(self, id: str, **changes: object) -> None:
        self.entries = tuple(replace(entry, **changes) if entry.id == id else entry for entry in self.entries)
        self.entries_changed.emit()

    def rename(self, id: str, title: str) -> None:
        self._change(id, title=title)

    def pin(self, id: str, on: bool) -> None:
        self._change(id, pinned=on)

    def file(self, id: str, folder: str | None) -> None:
        self._change(id, folder=folder)

    def rename_folder(self, name: str, to: str | None) -> None:
        for entry in self.entries:
            if entry.folder == name:
                self._change(entry.id, folder=to)

    def new_chat(self) -> Chat:
        chat = Chat(model=self.model, parent=self)
        self.tabs.append(chat)
        self.tabs_changed.emit()
        self.select(chat.id)
        return chat

    def open(self, id: str, turn_id: str = "") -> None:
        self.calls.append(("open", id, turn_id) if turn_id else ("open", id))
        if any(chat.id == id for chat in self.tabs):
            self.select(id)

    def close_tab(self, id: str) -> None:
        index = next(i for i, chat in enumerate(self.tabs) if chat.id == id)
        closed = self.tabs.pop(index)
        if not self.tabs:
            self.tabs.append(Chat(model=self.model, parent=self))
        self.tabs_changed.emit()
        if closed is self.current:
            self.select(self.tabs[min(index, len(self.tabs) - 1)].id)

    def show_beside(self, id: str | None) -> None:
        self.beside = next((chat for chat in self.tabs if chat.id == id), None)
        if self.beside is self.current:
            self.current = next(chat for chat in self.tabs if chat is not self.beside)
            self.current_changed.emit(self.current.id)
        self.beside_changed.emit()

    def select(self, id: str) -> None:
        if self.beside is not None and self.beside.id == id:
            self.beside = self.current
        self.current = next(chat for chat in self.tabs if chat.id == id)
        self.current.mark_read()
        self.current_changed.emit(id)

    def move_tab(self, from_index: int, to_index: int) -> None:
        self.tabs.insert(to_index, self.tabs.pop(from_index))
        self.tabs_changed.emit()

    def delete(self, id: str) -> None:
        self.calls.append(("delete", id))
        gone = next(entry for entry in self.entries if entry.id == id)
        self.entries = tuple(entry for entry in self.entries if entry.id != id)
        self.entries_changed.emit()
        self.deleted.emit(gone.title)

    def undo_delete(self) -> None:
        self.calls.append(("undo",))


class LoadedModel(QObject):
    """A model in the state a test wants."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.name, self.status, self.progress, self.stage = "Pocket", "ready", 1.0, ""
        self.error: str | None = None
        self.takes: frozenset[MediaKind] = frozenset({"image"})
        self.path, self.embedded, self.can_fall_back = Path("/models/pocket"), Path("/models/pocket"), False
        self.calls: list[str] = []
        self.scheduler = FakeScheduler()
        self.pending: frozenset[str] = frozenset()
        self.fetches = False

    @property
    def takes_images(self) -> bool:
        return "image" in self.takes

    def take(self, *kinds: MediaKind) -> None:
        """Another model is loaded, which takes these."""
        self.takes = frozenset(kinds)
        self.changed.emit()

    def unload(self) -> None:
        self.calls.append("unload")

    def fall_back(self) -> None:
        self.calls.append("fall back")

    def configure(self, config: MLLMSchedulerConfig) -> None:
        self.pending = frozenset(self.scheduler.apply_config(config))
        self.fetches = config.allow_remote_media

    def unload_after(self, minutes: float | None) -> None:
        self.idle_minutes = minutes

    def reload(self) -> None:
        self.pending = frozenset()
        self.changed.emit()

    def takes_now(self, name: str) -> bool:
        return name in self.scheduler.live_fields


class Figures(QObject):
    """Vitals that say what a test sets."""

    sampled = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.latest: Sample | None = None
        self.history: tuple[float, ...] = ()
        self.watched: list[bool] = []
        self.cleared: list[str] = []

    def watch(self, on: bool) -> None:
        self.watched.append(on)

    def clear(self, cache: str) -> None:
        self.cleared.append(cache)


class Transfer(QObject):
    """A download as far as a test wants it."""

    changed = Signal()

    def __init__(self, repo: str, state: str = "running", done: int = 0, total: int = 0) -> None:
        super().__init__()
        self.repo, self.state, self.done, self.total = repo, state, done, total
        self.stage, self.rate, self.error = "Downloading", None, None
        self.calls: list[str] = []

    @property
    def remaining_s(self) -> float | None:
        return (self.total - self.done) / self.rate if self.rate else None

    def pause(self) -> None:
        self.calls.append("pause")

    def resume(self) -> None:
        self.calls.append("resume")


class Shelf(QObject):
    """The models that a test puts there."""

    changed = Signal()
    notice = Signal(str)

    def __init__(self, model: LoadedModel) -> None:
        super().__init__()
        self.model = model
        self.entries: tuple[Any, ...] = ()
        self.downloads: tuple[Transfer, ...] = ()
        self.scanning = False
        self.refused: str | None = None
        self.calls: list[tuple[object, ...]] = []

    def refresh(self) -> None:
        self.calls.append(("refresh",))

    def choose(self, folder: Path) -> None:
        self.calls.append(("choose", folder))

    def add_folder(self, folder: Path) -> None:
        self.calls.append(("add", folder))

    def trash(self, folder: Path) -> None:
        self.calls.append(("trash", folder))

    def download(self, text: str) -> str | None:
        self.calls.append(("download", text))
        return self.refused

    def cancel(self, repo: str) -> None:
        self.calls.append(("cancel", repo))
