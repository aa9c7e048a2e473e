"""What the person has chosen: checked, used at once and kept in the settings file."""

from __future__ import annotations

import dataclasses
import logging
import os
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError
from PySide6.QtCore import QObject, QTimer, Signal

from app import settings as settings_file
from app.settings import Settings
from app.state.derived import derived
from app.state.model import Model
from app.state.options import Option, of_page, options
from app.state.words import Page
from engine.errors import EngineError

_log = logging.getLogger(__name__)
_SAVE_AFTER_MS = 1000
Timing = Literal["now", "next load"]


class Preferences(QObject):
    """All settings by key; a change is in force at once and on disk about a second later.

    Signals:
        changed: key of the option that has a new value.
        failed: a sentence: the choices could not be written.
    """

    changed = Signal(str)
    failed = Signal(str)

    def __init__(self, settings: Settings, model: Model, path: Path | None, parent: QObject | None = None) -> None:
        """Work on `settings`, which others read; `path` None keeps nothing."""
        super().__init__(parent)
        self.settings = settings
        self.model = model
        self._path = path
        self._writer: ThreadPoolExecutor | None = None
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(_SAVE_AFTER_MS)
        self._timer.timeout.connect(self._save)
        model.unload_after(settings.unload_after_minutes)

    # --- values

    def value(self, key: str) -> Any:
        """What is chosen."""
        group, name = _place(key)
        return getattr(self.settings if not group else getattr(self.settings, group), name)

    def is_default(self, key: str) -> bool:
        """Whether the value is the one Braid comes with."""
        return bool(self.value(key) == options()[key].default)

    def choose(self, key: str, value: Any) -> str | None:
        """Take a value; returns why not, in a sentence, when it cannot be."""
        option = options()[key]
        if value == self.value(key) and type(value) is type(self.value(key)):
            return None
        try:
            _check(option, value)
            self._assign(option, value)
        except EngineError as error:
            return str(error)
        except ValueError as error:
            return _sentence(option, error)
        self.keep()
        self.changed.emit(key)
        return None

    def enter(self, key: str, text: str) -> str | None:
        """Take a number as it was typed; returns why not, in a sentence, when it cannot be."""
        try:
            value = options()[key].parse(text)
        except ValueError as error:
            return str(error)
        return self.choose(key, value)

    def reset(self, key: str) -> str | None:
        """Return to the value Braid comes with."""
        return self.choose(key, options()[key].default)

    def reset_page(self, page: Page) -> None:
        """Return all of a page to the values Braid comes with."""
        for option in of_page(page):
            self.reset(option.key)

    # --- when they take effect

    def timing(self, key: str) -> Timing:
        """Whether a change takes effect at once or when a model is loaded the next time."""
        group, name = _place(key)
        return "now" if group != "engine" or self.model.takes_now(name) else "next load"

    def waits(self, key: str) -> bool:
        """Whether the loaded model still runs with an earlier value."""
        group, name = _place(key)
        return group == "engine" and name in self.model.pending

    def derived(self, key: str) -> float | None:
        """What Braid has chosen where the choice is left to it, in the option's unit; None: not known yet."""
        group, name = _place(key)
        if group != "engine" or self.model.scheduler is None:
            return None
        return derived(name, self.model.scheduler)

    # --- the file

    def keep(self) -> None:
        """Write the settings in a second, with what else changes until then."""
        if self._path is not None:
            self._timer.start()

    def close(self) -> None:
        """Write what is left; nothing is written after it."""
        if self._path is not None:
            self._save()
            self._path = None
        if self._writer is not None:
            self._writer.shutdown()

    def _save(self) -> None:
        """Hand a copy to the writer's thread: what is written last is what was chosen last."""
        assert self._path is not None
        self._timer.stop()
        self._writer = self._writer or ThreadPoolExecutor(1, thread_name_prefix="settings")
        writing = self._writer.submit(settings_file.save, self.settings.model_copy(deep=True), self._path)
        writing.add_done_callback(self._saved)

    def _saved(self, writing: Future[None]) -> None:
        """On the writer's thread."""
        error = writing.exception()
        if error is None:
            return
        _log.error("The settings could not be saved", exc_info=error)
        self.failed.emit("Your settings could not be saved: Braid may not write to its folder, or the disk is full.")

    # --- inside

    def _assign(self, option: Option, value: Any) -> None:
        group, name = _place(option.key)
        if group == "engine":
            config = dataclasses.replace(self.settings.engine, **{name: value})
            self.model.configure(config)
            self.settings.engine = config
        else:
            setattr(getattr(self.settings, group) if group else self.settings, name, value)
        if name == "unload_after_minutes":
            self.model.unload_after(value)


def _place(key: str) -> tuple[str, str]:
    group, _, name = key.rpartition(".")
    return group, name


def _check(option: Option, value: Any) -> None:
    """Refuse what the file's rules let pass but a person cannot mean; raises ValueError with a sentence."""
    if option.empty and value == option.empty_value:
        return
    if option.numeric:
        option.check(value)
    if option.kind == "folder" and not os.access(value, os.W_OK):
        raise ValueError("Braid may not write to this folder. Choose another one.")


def _sentence(option: Option, error: ValueError) -> str:
    """What is wrong with a value, without the field's name in code."""
    if isinstance(error, ValidationError):
        return f"{option.label} cannot be so. Choose another value."
    return str(error).removeprefix(f"{_place(option.key)[1]}=")
