"""The models one can choose from: those on this computer, those on their way, and what to do with them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from PySide6.QtCore import QObject, Signal

from app.state.model import Model
from app.state.tasks import Tasks
from engine.models.local import LocalModel, examine, find_models, hub_cache

if TYPE_CHECKING:
    from app.state.download import Download
    from engine.models.fit import Fit

_log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Entry:
    """One model of the list; `fit` None where its size in memory is not known."""

    model: LocalModel
    fit: Fit | None
    embedded: bool

    @property
    def name(self) -> str:
        """Fit for a person."""
        return "Pocket" if self.embedded else self.model.name

    @property
    def usable(self) -> bool:
        """Whether it can be loaded."""
        return not self.model.problem


@dataclass(frozen=True, slots=True)
class Keeping:
    """Where choices are kept: the folders to search, and which model to start with."""

    folders: Callable[[], Iterable[str]]
    put_folders: Callable[[tuple[str, ...]], object]
    put_model: Callable[[str], object]


class Models(QObject):
    """Local models and downloads; files are read and removed on a thread.

    Signals:
        changed: entries, downloads or `scanning` changed.
        notice: one sentence for the person.
    """

    changed = Signal()
    notice = Signal(str)

    def __init__(
        self,
        model: Model,
        keeping: Keeping,
        cache: Path | None = None,
        endpoint: str = "",
        parent: QObject | None = None,
    ) -> None:
        """Know nothing until `refresh`; `cache` None is where the hub's tools keep their downloads."""
        super().__init__(parent)
        self.model = model
        self.entries: tuple[Entry, ...] = ()
        self.downloads: tuple[Download, ...] = ()
        self.scanning = False
        self._keeping = keeping
        self._cache = cache or hub_cache()
        self._endpoint = endpoint
        self._tasks = Tasks()
        self._thread: ThreadPoolExecutor | None = None
        self._stale = False

    # --- the list

    def refresh(self) -> None:
        """Look again at what is there."""
        self._stale = True
        if not self.scanning:
            self.scanning = True
            self._tasks.start(self._scan(), "looking for models")
            self.changed.emit()

    def choose(self, folder: Path) -> None:
        """Answer with this model from now on, also after the next start."""
        self._keeping.put_model("" if folder == self.model.embedded else str(folder))
        self.model.choose(folder)

    def add_folder(self, folder: Path) -> None:
        """Look for models in this folder, too; says so when it holds none."""
        self._tasks.start(self._add_folder(folder), "looking into a folder")

    def trash(self, folder: Path) -> None:
        """Move a model to the system's trash."""
        entry = next((entry for entry in self.entries if entry.model.folder == folder), None)
        if entry is None:
            return
        if entry.embedded:
            self.notice.emit(f"{entry.name} comes with Braid and cannot be removed.")
        elif folder == self.model.path and self.model.status != "failed":
            self.notice.emit(f"“{entry.name}” is in use. Load another model first, then remove it.")
        else:
            self._tasks.start(self._trash(entry), "moving a model to the trash")

    # --- downloads

    def download(self, text: str) -> str | None:
        """Fetch a model by its id or the address of its page; returns why not, in a sentence, if that is clear now."""
        from app.state.download import Download
        from engine.models.download import repo_of

        repo = repo_of(text)
        if repo is None:
            return "Type a model's id such as “owner/name”, or paste the address of its page on the hub."
        if (running := self._download(repo)) is not None:
            running.resume()
            return None
        if any(entry.model.repo.lower() == repo.lower() and not entry.model.missing for entry in self.entries):
            return f"“{repo}” is already on this computer."
        made = Download(repo, self._cache, self._endpoint, self)
        made.changed.connect(partial(self._follow, made))
        self.downloads = (*self.downloads, made)
        self.changed.emit()
        return None

    def cancel(self, repo: str) -> None:
        """End a download and remove what it has brought."""
        running = self._download(repo)
        if running is not None:
            self._drop(running)
            self._tasks.start(self._discard(repo), "removing a download")

    # --- life

    async def close(self) -> None:
        """End downloads, which can be resumed later, and wait for the thread."""
        for download in self.downloads:
            download.close()
        await self._tasks.close()
        if self._thread is not None:
            self._thread.shutdown()

    # --- inside

    def _download(self, repo: str) -> Download | None:
        return next((each for each in self.downloads if each.repo.lower() == repo.lower()), None)

    def _follow(self, download: Download) -> None:
        if download.state == "done":
            self._drop(download)
            self.refresh()

    def _drop(self, download: Download) -> None:
        download.close()
        self.downloads = tuple(each for each in self.downloads if each is not download)
        download.deleteLater()
        self.changed.emit()

    async def _beside(self, work: Callable[[], T]) -> T:
        self._thread = self._thread or ThreadPoolExecutor(1, thread_name_prefix="models")
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def _scan(self) -> None:
        try:
            while self._stale:
                self._stale = False
                self.entries = await self._beside(self._survey())
        finally:
            self.scanning = False
        self.changed.emit()

    def _survey(self) -> Callable[[], tuple[Entry, ...]]:
        """What to do on the thread, with all that it needs to know."""
        scheduler = self.model.scheduler
        stats = {} if scheduler is None else scheduler.get_stats()
        limit = self.model.memory_limit
        folders = [Path(folder).expanduser() for folder in self._keeping.folders()]
        embedded, backend = self.model.embedded, stats.get("backend")
        recommended = int(stats.get("memory_limit_gb", 0) * 1e9) or None
        return lambda: _survey(self._cache, folders, embedded, backend, recommended, limit)

    async def _add_folder(self, folder: Path) -> None:
        if not await self._beside(partial(find_models, None, [folder])):
            self.notice.emit(f"There are no models in “{folder.name}”. Choose a folder with a config.json and weights.")
            return
        kept = tuple(self._keeping.folders())
        if str(folder) not in kept:
            self._keeping.put_folders((*kept, str(folder)))
        self.refresh()

    async def _trash(self, entry: Entry) -> None:
        from send2trash import send2trash

        try:
            await self._beside(partial(send2trash, str(entry.model.home)))
        except OSError:
            _log.exception("%s cannot be moved to the trash", entry.model.home)
            self.notice.emit(f"“{entry.name}” could not be moved to the trash. Remove it in the file manager.")
        self.refresh()

    async def _discard(self, repo: str) -> None:
        from engine.models.download import discard

        try:
            await self._beside(partial(discard, self._cache, repo))
        except OSError:
            _log.exception("What was downloaded of %s cannot be removed", repo)
            self.notice.emit(f"What was downloaded of “{repo}” could not be removed. Braid may not change its folder.")
        self.refresh()


def _survey(
    cache: Path,
    folders: list[Path],
    embedded: Path | None,
    backend: str | None,
    recommended: int | None,
    limit: int | None,
) -> tuple[Entry, ...]:
    """All models: the embedded one first, then usable ones by name, then the others."""
    from engine.models.fit import estimate, this_machine

    machine, as_float32 = this_machine(backend, recommended)

    def entry(model: LocalModel) -> Entry:
        fit = None
        if model.card is not None and not model.missing:
            weights = model.weights.loaded_bytes(as_float32=as_float32)
            fit = estimate(model.config, weights, model.card.context, machine, as_float32=as_float32, limit=limit)
        return Entry(model, fit, model.folder == embedded)

    own = [examine(embedded)] if embedded is not None else []
    found = [*own, *(model for model in find_models(cache, folders) if model.folder != embedded)]
    return tuple(sorted(map(entry, found), key=lambda each: (not each.embedded, not each.usable, each.name.lower())))
