"""Braid's own archive: a zip with one JSON file per chat and the media they show.

`braid.json` names the format and its version; `chats/1.json` and so on hold a chat each; `media/` holds the files.
"""

from __future__ import annotations

import json
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, TypeVar

from pydantic import BaseModel, Field, ValidationError

from app.presets import Sampling
from app.state.attachment import Excerpt
from app.state.talk import ExchangeError, Medium, Said, Talk
from app.state.turn import AnswerFacts
from app.storage.conversations import StoredConversation, TurnRecord

SUFFIX: Final = ".braid"
VERSION: Final = 1
_MANIFEST = "braid.json"
_FORMAT = "braid chats"
_MAX_JSON = 512 * 1024 * 1024
_MAX_MEDIUM = 1024 * 1024 * 1024
_T = TypeVar("_T", bound=BaseModel)
DAMAGE: Final = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError, ValueError, struct.error)
"""What `zipfile` raises for a file that is not as it should be."""


class _Excerpt(BaseModel):
    fps: float | None = Field(default=None, gt=0)
    start: float | None = Field(default=None, ge=0)
    end: float | None = Field(default=None, ge=0)
    first: int | None = Field(default=None, ge=1)
    last: int | None = Field(default=None, ge=1)


class _Medium(BaseModel):
    name: str
    file: str
    note: str | None = None
    excerpt: _Excerpt = _Excerpt()


class _Turn(BaseModel):
    id: str
    parent_id: str | None = None
    role: Literal["user", "assistant"]
    text: str = ""
    reasoning: str = ""
    state: Literal["done", "stopped", "cut", "failed"] = "done"
    error: str | None = None
    facts: AnswerFacts | None = None
    created: float
    media: list[_Medium] = Field(default_factory=list)


class _Chat(BaseModel):
    title: str
    named: bool = True
    created: float
    updated: float
    system_prompt: str = ""
    sampling: Sampling = Sampling()
    pinned: bool = False
    folder: str | None = None
    leaf: str | None = None
    turns: list[_Turn] = Field(default_factory=list)


class _Manifest(BaseModel):
    format: str
    version: int
    chats: int


# --- out


def write(path: Path, chats: Sequence[tuple[StoredConversation, bool, str | None]], media: Path) -> None:
    """Write chats, each with its pin and folder, and their media; the file is complete or as before.

    Raises:
        OSError: it cannot be written.
    """
    temporary = path.with_name(path.name + ".part")
    try:
        with zipfile.ZipFile(temporary, "w") as archive:
            manifest = _Manifest(format=_FORMAT, version=VERSION, chats=len(chats))
            _put_json(archive, _MANIFEST, manifest)
            for number, (chat, pinned, folder) in enumerate(chats, 1):
                _put_json(archive, f"chats/{number}.json", _chat(chat, pinned, folder))
            for name in sorted({item.file for chat, _, _ in chats for turn in chat.turns for item in turn.attachments}):
                if (media / name).is_file():
                    archive.write(media / name, f"media/{name}")
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _put_json(archive: zipfile.ZipFile, name: str, content: BaseModel) -> None:
    archive.writestr(name, content.model_dump_json(indent=1), compress_type=zipfile.ZIP_DEFLATED)


def _chat(chat: StoredConversation, pinned: bool, folder: str | None) -> _Chat:
    record = chat.record
    return _Chat(
        title=record.title,
        named=record.named,
        created=record.created,
        updated=record.updated,
        system_prompt=record.system_prompt,
        sampling=Sampling.from_json(record.sampling),
        pinned=pinned,
        folder=folder,
        leaf=record.active_leaf,
        turns=[_turn(turn) for turn in chat.turns if turn.state != "queued"],
    )


def _turn(turn: TurnRecord) -> _Turn:
    return _Turn.model_validate(
        {
            "id": turn.id,
            "parent_id": turn.parent_id,
            "role": turn.role,
            "text": turn.text,
            "reasoning": turn.reasoning,
            "state": "cut" if turn.state == "live" else turn.state,
            "error": turn.error,
            "facts": None if turn.facts is None else AnswerFacts.restored(turn.facts),
            "created": turn.created,
            "media": [
                {"name": item.name, "file": item.file, "note": item.note, "excerpt": json.loads(item.details)}
                for item in turn.attachments
            ],
        }
    )


# --- in


def is_archive(archive: zipfile.ZipFile) -> bool:
    """Whether a zip is one of ours."""
    return _MANIFEST in archive.namelist()


def read(archive: zipfile.ZipFile, name: str) -> Iterator[Talk]:
    """The talks in one of our archives; `name` is that of the file.

    Raises:
        ExchangeError: a newer Braid wrote it, or it is damaged.
    """
    manifest = _parse(_Manifest, member(archive, _MANIFEST, _MAX_JSON, name), name)
    if manifest.format != _FORMAT:
        raise ExchangeError(damaged(name))
    if manifest.version > VERSION:
        raise ExchangeError(f"{name} was written by a newer Braid. Update Braid to import it.")
    for number in range(1, manifest.chats + 1):
        chat = _parse(_Chat, member(archive, f"chats/{number}.json", _MAX_JSON, name), name)
        yield _talk(chat, archive, name)


def _talk(chat: _Chat, archive: zipfile.ZipFile, name: str) -> Talk:
    return Talk(
        title=chat.title,
        created=chat.created,
        updated=chat.updated,
        said=tuple(_said(turn, archive, name) for turn in chat.turns),
        leaf=chat.leaf,
        named=chat.named,
        system_prompt=chat.system_prompt,
        sampling=chat.sampling.to_json(),
        pinned=chat.pinned,
        folder=chat.folder,
    )


def _said(turn: _Turn, archive: zipfile.ZipFile, name: str) -> Said:
    return Said(
        id=turn.id,
        parent_id=turn.parent_id,
        role=turn.role,
        text=turn.text,
        created=turn.created,
        reasoning=turn.reasoning,
        state=turn.state,
        error=turn.error,
        facts=None if turn.facts is None else turn.facts.kept(),
        media=tuple(_medium(item, archive, name) for item in turn.media),
    )


def _medium(item: _Medium, archive: zipfile.ZipFile, name: str) -> Medium:
    excerpt = Excerpt(**item.excerpt.model_dump())
    return Medium(item.name, _reader(archive, f"media/{item.file}", name), excerpt, item.note)


def _reader(archive: zipfile.ZipFile, inside: str, name: str) -> Callable[[], bytes] | None:
    info = archive.NameToInfo.get(inside)
    if info is None or info.file_size > _MAX_MEDIUM:
        return None
    return lambda: member(archive, inside, _MAX_MEDIUM, name)


def _parse(kind: type[_T], data: bytes, name: str) -> _T:
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        raise ExchangeError(damaged(name)) from error


def member(archive: zipfile.ZipFile, inside: str, limit: int, name: str) -> bytes:
    """One file out of a zip.

    Raises:
        ExchangeError: it is not there, damaged, or larger than `limit` bytes.
    """
    try:
        info = archive.getinfo(inside)
        if info.file_size > limit:
            raise ExchangeError(f"{name} holds a file that is too large to import: {inside}.")
        return archive.read(info)
    except (KeyError, OSError, *DAMAGE) as error:
        raise ExchangeError(damaged(name)) from error


def damaged(name: str) -> str:
    """What to say of a file that is not as it should be."""
    return f"{name} is damaged or incomplete, so nothing was imported. Export it again."
