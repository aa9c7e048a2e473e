"""Which model answers: absent, loading, ready, failed or unloaded; one at a time."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from PySide6.QtCore import QObject, QTimer, Signal

from app.state.scheduler import Load, Loaded, Scheduler, load_scheduler
from app.state.tasks import Tasks
from engine.config import MLLMSchedulerConfig
from engine.errors import EngineError
from engine.messages import MediaKind
from engine.models.local import name_of

_log = logging.getLogger(__name__)
Status = Literal["absent", "loading", "ready", "failed", "unloaded"]
_STOPPED = "Loading was stopped. Send the message again to load the model."
_LONGEST_CHECK_S = 15.0


@dataclass(frozen=True, slots=True, eq=False)
class _Wish:
    """One decision about what shall be in memory; None: nothing, for the reason given."""

    path: Path | None
    reason: str | None = None


class Model(QObject):
    """The model that answers; there is never more than one in memory.

    Signals:
        changed: anything below changed.

    Attributes:
        path: the folder of the model that answers, whether or not it is in memory.
        name: fit for a person.
        progress: of loading, 0 to 1.
        stage: what loading is at.
        error: why the model cannot answer, in a sentence.
        takes: kinds of media that it reads; empty until it is loaded.
        scheduler: what runs it while it is ready.
        embedded: the model that comes with the app, offered when another fails.
        pending: fields of the configuration that the loaded model takes only when it is loaded again.
    """

    changed = Signal()

    def __init__(
        self,
        path: Path | None,
        config: MLLMSchedulerConfig,
        load: Load = load_scheduler,
        parent: QObject | None = None,
        *,
        embedded: Path | None = None,
    ) -> None:
        super().__init__(parent)
        self._config = config
        self._load = load
        self._tasks = Tasks()
        self._settled = asyncio.Event()
        self._wish = self._granted = _Wish(None)
        self._work: asyncio.Task[None] | None = None
        self._loading: asyncio.Future[Loaded] | None = None
        self._loaded: Loaded | None = None
        self._closed = False
        self._idle = _Idle(self)
        self.embedded = embedded
        self.path = path
        self.name = "" if path is None else _title(path)
        self.status: Status = "absent" if path is None else "loading"
        self.progress = 0.0
        self.stage = ""
        self.error: str | None = None
        self.takes: frozenset[MediaKind] = frozenset()
        self.pending: frozenset[str] = frozenset()

    @property
    def scheduler(self) -> Scheduler | None:
        """What runs the model while it is ready."""
        return self._loaded.scheduler if self._loaded is not None and self.status == "ready" else None

    @property
    def takes_images(self) -> bool:
        """Whether the model reads pictures."""
        return "image" in self.takes

    @property
    def memory_limit(self) -> int | None:
        """Bytes that the person allows model and chats; None: as many as the machine has."""
        limit = self._config.memory_limit_gb
        return None if limit is None else int(limit * 1e9)

    @property
    def can_fall_back(self) -> bool:
        """Whether the embedded model could be loaded in place of one that failed."""
        return self.status == "failed" and self.embedded is not None and self.path != self.embedded

    async def load(self) -> None:
        """Load the model in `path`; ends as ready or failed, with a sentence in `error`."""
        if self.path is None:
            self._settle("absent", "There is no model to answer. Choose one in the model list.")
            return
        self._want(_Wish(self.path))
        await self._tasks.join()

    def choose(self, folder: Path) -> None:
        """Answer with another model from now on; answers that are being written end, new questions wait for it."""
        if folder != self.path or self.status not in ("loading", "ready"):
            self.path, self.name = folder, _title(folder)
            self._want(_Wish(folder))

    def fall_back(self) -> None:
        """Load the embedded model in place of one that failed."""
        if self.embedded is not None:
            self.choose(self.embedded)

    def reload(self) -> None:
        """Load the same model again, so that settings which wait for that take effect."""
        if self.path is not None:
            self._want(_Wish(self.path))

    def unload(self) -> None:
        """Give the memory back; also ends a load. The next question loads the model again."""
        if self.status in ("ready", "loading"):
            self._want(_Wish(None, _STOPPED if self.status == "loading" else None))

    def unload_after(self, minutes: float | None) -> None:
        """Unload when nothing was asked for so long; None: never."""
        self._idle.set_limit(None if minutes is None else 60 * minutes)

    @property
    def fetches(self) -> bool:
        """Whether media may be fetched from the web."""
        return self._config.allow_remote_media

    def configure(self, config: MLLMSchedulerConfig) -> None:
        """Take a configuration: what can change at once now, the rest with the next load.

        Raises:
            EngineError: the engine cannot work so; nothing has changed.
        """
        if self.scheduler is not None:
            self.pending = frozenset(self.scheduler.apply_config(config))
        self._config = config

    def takes_now(self, name: str) -> bool:
        """Whether the loaded model takes a change of this field of the configuration at once."""
        return self.scheduler is not None and name in self.scheduler.live_fields

    async def answering(self) -> Scheduler:
        """The scheduler, once it is ready; loads the model again if it was unloaded.

        Raises:
            EngineError: there is no model, or it could not be loaded.
        """
        self._idle.used()
        if self.status == "unloaded":
            self.reload()
        while self.status == "loading":
            await self._settled.wait()
        if self.scheduler is None:
            raise EngineError(self.error or "The model has been unloaded. Load one to go on.")
        return self.scheduler

    async def close(self, patience_s: float | None = None) -> bool:
        """Stop the scheduler; open streams end as aborted. May be called again to wait longer.

        Args:
            patience_s: how long to wait for a load to end, which an import can put off for seconds; None: until it has.

        Returns:
            Whether all has ended; if not, a load goes on, and ending the process loses nothing of it.
        """
        self._idle.set_limit(None)
        if self._loaded is not None or self._work is not None:
            self._want(_Wish(None))
        self._closed = True
        if (loading := self._loading) is not None and patience_s is not None:
            await asyncio.wait([loading], timeout=patience_s)
            if not loading.done():
                return False
        await self._tasks.join()
        return True

    # --- one after the other

    def _want(self, wish: _Wish) -> None:
        """Decide anew; a load under way is given up, and whatever was decided last comes true in the end."""
        if self._closed:
            return
        self._wish = wish
        self.status = "loading" if wish.path is not None else "unloaded"
        self.progress, self.stage, self.error, self.takes = 0.0, "", wish.reason, frozenset()
        self.pending = frozenset()
        self._settled.clear()
        if self._loading is not None:
            self._loading.cancel()
        if self._work is None:
            self._work = self._tasks.start(self._fulfil(), "changing the model")
        self.changed.emit()

    async def _fulfil(self) -> None:
        try:
            while self._granted is not self._wish:
                wish = self._granted = self._wish
                await self._release()
                if wish is not self._wish:
                    continue
                if wish.path is None:
                    self._settle("unloaded", wish.reason)
                else:
                    await self._fetch(wish.path)
        finally:
            self._work = None

    async def _release(self) -> None:
        loaded, self._loaded = self._loaded, None
        if loaded is None:
            return
        try:
            await loaded.scheduler.stop()
            await loaded.unload()
        except Exception:  # noqa: BLE001 - the next model must not wait for ever because the last one ended badly
            _log.exception("Unloading failed")

    async def _fetch(self, path: Path) -> None:
        """Load a folder, unless something else is decided meanwhile."""
        wish, config = self._wish, self._config
        self._loading = asyncio.ensure_future(self._load(path, config, self._progressed))
        try:
            self._loaded = await self._loading
            self._catch_up(config, self._loaded.scheduler)
        except asyncio.CancelledError:
            if wish is self._wish:
                raise
        except EngineError as error:
            await self._release()
            self._conclude(wish, "failed", str(error))
        except Exception:  # noqa: BLE001 - whatever the model's files provoke, the window stays and says so
            _log.exception("Loading %s failed", path)
            await self._release()
            self._conclude(wish, "failed", f"{self.name} could not be loaded. The log file says more.")
        else:
            self._conclude(wish, "ready", None)
        finally:
            self._loading = None

    def _catch_up(self, loaded: MLLMSchedulerConfig, scheduler: Scheduler) -> None:
        """Take what was chosen while the model was being loaded."""
        changed = self._config is not loaded
        self.pending = frozenset(scheduler.apply_config(self._config)) if changed else frozenset()

    def _conclude(self, wish: _Wish, status: Status, error: str | None) -> None:
        if wish is self._wish:
            if self._loaded is not None:
                self.takes, self.progress = self._loaded.scheduler.takes, 1.0
            self._settle(status, error)

    def _progressed(self, fraction: float, stage: str) -> None:
        self.progress, self.stage = fraction, stage
        self.changed.emit()

    def _settle(self, status: Status, error: str | None) -> None:
        self.status, self.error, self.stage = status, error, ""
        self._idle.used()
        self._settled.set()
        self.changed.emit()


class _Idle(QObject):
    """Unloads the model when nothing was asked for a while; looks at it only now and then."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self._model = model
        self._limit_s: float | None = None
        self._last = time.monotonic()
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._look)

    def set_limit(self, seconds: float | None) -> None:
        """Unload after so long; None: never."""
        self._limit_s = seconds
        self.used()
        if seconds is None:
            self._timer.stop()
        else:
            self._timer.start(round(1000 * min(_LONGEST_CHECK_S, seconds / 4)))

    def used(self) -> None:
        """The model was needed just now."""
        self._last = time.monotonic()

    def _look(self) -> None:
        scheduler = self._model.scheduler
        if scheduler is not None and scheduler.get_running_requests_info():
            self.used()
        elif scheduler is not None and self._limit_s is not None and time.monotonic() - self._last >= self._limit_s:
            self._model.unload()


def _title(path: Path) -> str:
    name = name_of(path)
    return name[:1].upper() + name[1:]
