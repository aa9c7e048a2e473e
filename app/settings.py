"""What the user chose: a typed model, its file and its migrations."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.presets import Preset
from engine.config import MLLMSchedulerConfig

SCHEMA_VERSION: Final = 1
_Raw = dict[str, Any]
MIGRATIONS: dict[int, Callable[[_Raw], _Raw]] = {}
"""Version → what turns a file of that version into the next one."""


class Generation(BaseModel):
    """How answers are made where a chat says nothing else; `max_tokens` None leaves it to the engine.

    Attributes:
        thinking: whether a model that can think aloud does so before it answers.
    """

    model_config = ConfigDict(validate_assignment=True, extra="forbid")

    max_tokens: int | None = Field(default=None, ge=1, le=1_000_000)
    temperature: float = Field(default=0.7, ge=0.0, le=5.0)
    top_p: float = Field(default=0.9, gt=0.0, le=1.0)
    top_k: int = Field(default=0, ge=0, le=1000)
    min_p: float = Field(default=0.0, ge=0.0, le=1.0)
    presence_penalty: float = Field(default=0.0, ge=-2.0, le=2.0)
    frequency_penalty: float = Field(default=0.0, ge=-2.0, le=2.0)
    repetition_penalty: float = Field(default=1.0, gt=0.0, le=10.0)
    seed: int | None = Field(default=None, ge=0, le=2**63 - 1)
    thinking: bool = False

    def options(self) -> dict[str, Any]:
        """As keyword arguments of a request."""
        return self.model_dump(exclude={"thinking"}) | {"template_options": {"enable_thinking": self.thinking}}


class Settings(BaseModel):
    """All choices; assigning an impossible value raises `ValidationError`.

    Attributes:
        font_scale: size of all text, in percent.
        reduce_motion: let nothing move that need not, whatever the system says.
        notifications: tell when an answer is ready while another program is in front.
        unload_after_minutes: give the model's memory back after so long without a question; None: never.
        model_folders: where models are looked for besides the usual places.
        presets: system prompts with sampling, by name.
        model: folder of the model to start with; empty: the one that comes with Braid.
    """

    model_config = ConfigDict(validate_assignment=True, extra="forbid")

    schema_version: Literal[1] = SCHEMA_VERSION
    appearance: Literal["system", "light", "dark"] = "system"
    font_scale: int = Field(default=100, ge=80, le=150)
    reduce_motion: bool = False
    notifications: bool = True
    unload_after_minutes: int | None = Field(default=None, ge=1, le=10_080)
    model_folders: tuple[str, ...] = ()
    presets: tuple[Preset, ...] = ()
    model: str = ""
    generation: Generation = Generation()
    engine: MLLMSchedulerConfig = MLLMSchedulerConfig()
    geometry: str = ""
    """The window's place and size, as Qt saves it, in base64."""
    sidebar_visible: bool = True
    vitals_visible: bool = True
    panels: str = ""
    """The widths of the window's three parts, as Qt saves them, in base64."""
    left_share: float = Field(default=0.5, ge=0.1, le=0.9)
    """Of two chats side by side, the left one's part of the width."""
    left_chat: str = ""
    """Which of two chats was at the left."""
    closed_folders: tuple[str, ...] = ()


def load(path: Path) -> tuple[Settings, str | None]:
    """Read the file; what cannot be used in it is dropped and told in one sentence, and a copy of it is kept.

    A missing file gives the defaults. Never raises: the app must start with any file.
    """
    try:
        raw = json.loads(path.read_text("utf-8"))
        json.dumps(raw, ensure_ascii=False).encode()  # half a character could be read, but never saved again
    except FileNotFoundError:
        return Settings(), None
    except OSError:
        return Settings(), f"Braid may not read its settings {path}, so it starts with the usual ones."
    except (ValueError, RecursionError):
        return Settings(), f"The settings file is damaged, so Braid starts with the usual ones.{_back_up(path)}"
    if not isinstance(raw, dict):
        return Settings(), f"The settings file is damaged, so Braid starts with the usual ones.{_back_up(path)}"
    raw, newer = _migrate(raw)
    settings, dropped = _validate(raw)
    if newer:
        return settings, f"The settings come from a newer Braid; what this one knows was kept.{_back_up(path)}"
    if dropped:
        return settings, f"These settings had impossible values and were reset: {', '.join(dropped)}.{_back_up(path)}"
    return settings, None


def save(settings: Settings, path: Path) -> None:
    """Write the file; it is complete or as before.

    Raises:
        OSError: the folder cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(settings.model_dump_json(indent=2))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _back_up(path: Path) -> str:
    copy = path.with_suffix(".bak" + path.suffix)
    try:
        shutil.copyfile(path, copy)
    except OSError:
        return ""
    return f" The old file is kept as {copy.name}."


def _migrate(raw: _Raw) -> tuple[_Raw, bool]:
    """Bring a file to the current version; also whether it is from a newer program."""
    version = raw.get("schema_version")
    version = version if isinstance(version, int) else SCHEMA_VERSION
    while version < SCHEMA_VERSION and version in MIGRATIONS:
        raw = MIGRATIONS[version](raw)
        version += 1
    return {**raw, "schema_version": SCHEMA_VERSION}, version > SCHEMA_VERSION


def _validate(raw: _Raw) -> tuple[Settings, list[str]]:
    """Drop the keys that do not fit, one layer of errors after the other."""
    dropped: list[str] = []
    raw = {**raw, "engine": _valid_engine(raw["engine"], dropped)} if "engine" in raw else raw
    while True:
        try:
            return Settings.model_validate(raw), dropped
        except ValidationError as error:
            for place in {tuple(map(str, item["loc"][:2])) for item in error.errors()}:
                _drop(raw, place)
                dropped.append(".".join(place))


def _drop(raw: _Raw, place: tuple[str, ...]) -> None:
    inner = raw.get(place[0])
    if len(place) == 2 and isinstance(inner, dict) and place[1] in inner:
        raw[place[0]] = {key: value for key, value in inner.items() if key != place[1]}
    else:
        raw.pop(place[0], None)


def _valid_engine(raw: Any, dropped: list[str]) -> _Raw:
    """The engine checks whole configurations, so each of its keys is tried alone."""
    if not isinstance(raw, dict):
        dropped.append("engine")
        return {}
    good = {}
    for key, value in raw.items():
        try:
            MLLMSchedulerConfig(**{key: value})
        except (TypeError, ValueError):
            dropped.append(f"engine.{key}")
        else:
            good[key] = value
    return good
