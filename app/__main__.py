"""The composition root: command line, window, loop, engine and the order in which they end."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import qasync
from PySide6.QtCore import QEvent, QObject, QTimer, Signal
from PySide6.QtGui import QFileOpenEvent
from PySide6.QtWidgets import QApplication, QWidget

from app import __version__, clipboard, faults, mac
from app import settings as settings_file
from app.inbox import Inbox
from app.instance import Instance
from app.state.activity import Activity
from app.state.library import Library
from app.state.model import Model
from app.state.models import Keeping, Models
from app.state.preferences import Preferences
from app.state.tasks import Tasks
from app.state.vitals import Vitals
from app.views.window import Window

if TYPE_CHECKING:
    from app.selftest import Drive

_log = logging.getLogger(__name__)
POCKET = Path(__file__).parents[1] / "resources" / "pocket"
_SWITCH_INTERVAL_S = 0.001
"""How long the model's thread may keep Python from the window's."""
_GRACE_S = 0.5
"""How long the end waits for what is loaded or read: most steps are shorter; an import or a slow disk is not."""


@dataclass(frozen=True, slots=True)
class Options:
    """The command line."""

    profile: Path | None
    model: Path | None
    files: tuple[Path, ...]
    selftest: Literal["text", "json"] | None = None


@dataclass(frozen=True, slots=True)
class Places:
    """The folders of one profile."""

    data: Path
    settings: Path
    logs: Path

    @classmethod
    def of(cls, profile: Path | None) -> Places:
        """Everything under `profile`, or where the system wants it."""
        if profile is not None:
            return cls(profile, profile / "settings.json", profile / "logs")
        import platformdirs

        folders = platformdirs.PlatformDirs("Braid", appauthor=False)
        return cls(folders.user_data_path, folders.user_config_path / "settings.json", folders.user_log_path)


def parse(arguments: Sequence[str] | None) -> Options:
    """Read the command line; exits with a sentence for an unknown option."""
    parser = argparse.ArgumentParser(prog="braid", description="Chat about pictures with a model on your own machine.")
    parser.add_argument("files", nargs="*", type=Path, help="pictures, clips, sounds, PDFs to attach to the chat")
    parser.add_argument("--profile", type=Path, metavar="FOLDER", help="keep chats, settings and logs in this folder")
    parser.add_argument("--model", type=Path, metavar="FOLDER", help="of the model to start with")
    parser.add_argument("--version", action="version", version=f"Braid {__version__}")
    parser.add_argument("--selftest", action="store_true", help="prove that this copy works on this machine, then end")
    parser.add_argument("--json", action="store_true", help="tell what the self-test found as JSON")
    options = parser.parse_args(arguments)
    if options.json and not options.selftest:
        parser.error("--json belongs to --selftest")
    selftest: Literal["text", "json"] | None = ("json" if options.json else "text") if options.selftest else None
    profile = None if options.profile is None else options.profile.resolve()
    model = None if options.model is None else options.model.resolve()
    return Options(profile, model, tuple(path.absolute() for path in options.files), selftest)


class Application(QApplication):
    """The Qt application.

    Signals:
        ending: the last window was closed, or the menu or the system wants the app to end.
    """

    ending = Signal()

    def __init__(self, arguments: Sequence[str]) -> None:
        super().__init__(arguments)
        self.setApplicationName("Braid")
        self.setApplicationVersion(__version__)
        self.setQuitOnLastWindowClosed(False)  # the loop ends after the clean-up, not before
        self.lastWindowClosed.connect(self.ending)
        self.inbox = Inbox(self)

    def event(self, event: QEvent) -> bool:
        """Turn the system's wishes into signals."""
        if event.type() is QEvent.Type.Quit:
            self.ending.emit()
            return True
        if isinstance(event, QFileOpenEvent):
            return self.inbox.put(event)
        return super().event(event)


class FirstPaint(QObject):
    """Watches one window until it was drawn.

    Signals:
        seen: it was drawn, once.
    """

    seen = Signal()

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        window.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Report the first drawing as soon as it is over."""
        if event.type() is QEvent.Type.Paint:
            watched.removeEventFilter(self)
            QTimer.singleShot(0, self.seen.emit)
        return False


class Program:
    """Settings, state and window of one run, made in this order and ended in reverse."""

    def __init__(self, app: Application, options: Options, places: Places, instance: Instance | None = None) -> None:
        """Make everything; `instance` None: later starts are not listened to."""
        self._options = options
        self._instance = instance
        self._loads = self._reads = False  # still, when everything else has ended
        self.settings, self._note = settings_file.load(places.settings)
        chosen = Path(self.settings.model) if self.settings.model else POCKET
        self.model = Model(options.model or chosen, self.settings.engine, embedded=POCKET)
        self.library = Library(places.data, self.model, lambda: self.settings.generation)
        self.vitals = Vitals(self.model, lambda: self.library.tabs)
        self.preferences = Preferences(self.settings, self.model, places.settings)
        self.preferences.failed.connect(self.library.tell)
        self.preferences.changed.connect(self._take_choice)
        self.model.unload_after(self.settings.unload_after_minutes)
        self.models = Models(self.model, self._keeping())
        self.window = Window(self.library, self.model, self.vitals, self.preferences, self.models)
        app.ending.connect(self.quit)
        self._app = app
        self._activity = Activity(self.library, mac.hold)
        self._loading = Tasks()
        self._quitting = asyncio.Event()

    def quit(self) -> None:
        """End the app, keeping what there is of every answer."""
        self._quitting.set()

    async def run(self) -> None:
        """Show the window, bring everything up behind it, and stay until somebody quits."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.quit)
        async with AsyncExitStack() as ending:  # unwinds upwards, each step even if another fails
            ending.push_async_exit(self._leave)
            ending.callback(self.preferences.close)
            ending.push_async_callback(self._close_library)
            ending.push_async_callback(self._end_model)
            ending.push_async_callback(self.models.close)
            ending.push_async_callback(self._loading.close)
            ending.callback(self._activity.end)
            ending.push_async_callback(self.library.end_answers)
            ending.callback(self.window.hide)
            await self._show()
            if self._instance is not None:
                ending.push_async_callback(self._instance.close)
                await self._instance.listen(self._greet)
            self._loading.start(self._load(), "loading the model")
            self.window.warm_up()
            await self.library.restore()
            self._attach(self._options.files)
            self._app.inbox.open_with(self._attach)
            if self._note is not None:
                self.library.tell(self._note)
            await self._quitting.wait()

    async def _end_model(self) -> None:
        """Give model and engine back, unless a load holds that up."""
        self._loads = not await self.model.close(_GRACE_S)
        if not self._loads:
            await _close_engine()

    async def _close_library(self) -> None:
        """Save everything and close the files, but leave a file behind that is still being read."""
        self._reads = not await self.library.close(_GRACE_S)

    async def _leave(self, kind: object, error: BaseException | None, trace: object) -> None:
        """With everything saved, end what holds the end up: with the process, where that is this program's own."""
        if (self._loads or self._reads) and self._instance is not None and error is None:
            self._instance.leave()
        elif self._loads:
            await self.model.close()
            await _close_engine()

    async def _show(self) -> None:
        painted = asyncio.Event()
        FirstPaint(self.window).seen.connect(painted.set)
        self.window.show()
        await painted.wait()
        _report("painted")

    async def _load(self) -> None:
        await self.model.load()
        if self.model.status == "ready":
            _report("ready")

    def _keeping(self) -> Keeping:
        choose = self.preferences.choose
        return Keeping(
            lambda: self.settings.model_folders, lambda folders: choose("model_folders", folders), self._start_with
        )

    def _start_with(self, folder: str) -> None:
        self.settings.model = folder
        self.preferences.keep()

    def _take_choice(self, key: str) -> None:
        if key == "unload_after_minutes":
            self.model.unload_after(self.settings.unload_after_minutes)
        elif key == "model_folders":
            self.models.refresh()

    def _greet(self, files: Sequence[Path]) -> None:
        """Come to the front with what a later start has brought."""
        self._app.inbox.bring(files)
        self.window.present()

    def _attach(self, files: Sequence[Path]) -> None:
        if files:
            self.library.current.composer.add_files(files)


async def _close_engine() -> None:
    import engine

    await engine.close()


def _report(moment: str) -> None:
    """Tell a benchmark how long after the start of the process, and after how much work, something was reached."""
    if os.environ.get("BRAID_TIMING") == "1":
        work = time.process_time()
        sys.stderr.write(f"BRAID_TIMING {moment}={_age():.3f} cpu={work:.3f}\n")
        sys.stderr.flush()


def _age() -> float:
    """Seconds since the process began."""
    if mac.MAC:
        import psutil

        return float(time.time() - psutil.Process().create_time())
    # On Linux psutil knows only to the second when the machine was started.
    ticks = int(Path("/proc/self/stat").read_text("utf-8").rpartition(")")[2].split()[19])
    return float(time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the app until it is closed and return the exit status."""
    options = parse(argv)
    # opencv, which comes with the models' library, points Qt at plugins of its own.
    os.environ.pop("QT_QPA_PLATFORM_PLUGIN_PATH", None)
    if options.selftest is not None:
        from app import selftest

        return selftest.main(_drive, as_json=options.selftest == "json")
    places = Places.of(options.profile)
    instance = Instance(places.data)
    try:
        places.data.mkdir(parents=True, exist_ok=True)
        role = instance.settle(options.files)
        if role != "first":
            return _end_later(options, answered=role == "later")
        log_file = faults.log_to(places.logs)
        faults.trace_crashes(places.logs / "crash.log")
    except OSError as error:
        sys.stderr.write(f"Braid cannot write to {error.filename}. Check the folder, or choose one with --profile.\n")
        return 1
    return _run(options, places, log_file, instance=instance)


def _end_later(options: Options, *, answered: bool) -> int:
    """Say what a start cannot do while another one runs with the same chats; the exit status."""
    if not answered:
        sys.stderr.write("Braid is already running with these chats, but does not answer. End it and start again.\n")
        return 1
    if options.model is not None:
        sys.stderr.write("Braid is already running with these chats. Choose the model in its window.\n")
    return 0


def _drive(profile: Path, drive: Drive) -> None:
    """Run the program with the demo model in a profile while `drive` uses it."""
    places = Places.of(profile)
    _run(Options(profile, POCKET, ()), places, faults.log_to(places.logs), drive)


async def _driven(program: Program, drive: Drive) -> None:
    running = asyncio.ensure_future(program.run())
    try:
        await drive(program)
    finally:
        program.quit()
        await running


def _run(
    options: Options, places: Places, log_file: Path, drive: Drive | None = None, instance: Instance | None = None
) -> int:
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    app = Application(sys.argv[:1])
    with qasync.QEventLoop(app) as loop:
        asyncio.set_event_loop(loop)
        program = Program(app, options, places, instance)
        faults.catch(loop, program.library.tell, log_file)
        loop.run_until_complete(program.run() if drive is None else _driven(program, drive))
    clipboard.let_go()
    return 0


if __name__ == "__main__":
    sys.exit(main())
