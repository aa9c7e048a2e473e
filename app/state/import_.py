"""An export of chats → rows for the library; a file that is not right gives none."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from app.state import archive as own
from app.state.attachment import Attachment
from app.state.foreign import ChatGPT, Find, OpenWebUI
from app.state.talk import ExchangeError, Incoming, Medium, Talk, admit

Read = Callable[[bytes, str], Attachment | None]
"""Checks and keeps the bytes of a file with this name; None when it cannot be attached."""
_MAX_JSON = 2 * 1024 * 1024 * 1024
_MAX_MEDIUM = 1024 * 1024 * 1024
_LIST = re.compile(r"(?:.*/)?conversations(?:-\d+)?\.json")
_SPACE = re.compile(r"[\s,]*")


def read(path: Path, keep: Read) -> list[Incoming]:
    """All chats of an export by Braid, ChatGPT or Open WebUI; for a pool thread.

    Raises:
        ExchangeError: it cannot be read, is none of these, is damaged or holds nothing.
    """
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as opened:
                found = [admit(talk, partial(_attach, keep)) for talk in _from_zip(opened, path.name)]
        else:
            found = [admit(talk, partial(_attach, keep)) for talk in _from_json(_text(path), path.name, _nowhere)]
    except own.DAMAGE as error:
        raise ExchangeError(own.damaged(path.name)) from error
    except OSError as error:
        raise ExchangeError(f"{path.name} could not be read. Check that it is still there and may be read.") from error
    if not any(incoming.turns for incoming in found):
        raise ExchangeError(f"{path.name} holds no chats.")
    return [incoming for incoming in found if incoming.turns]


def _from_zip(opened: zipfile.ZipFile, name: str) -> Iterator[Talk]:
    if own.is_archive(opened):
        yield from own.read(opened, name)
        return
    lists = sorted(inside for inside in opened.namelist() if _LIST.fullmatch(inside))
    if not lists:
        raise ExchangeError(_unknown(name))
    for inside in lists:
        data = own.member(opened, inside, _MAX_JSON, name)
        yield from _from_json(_decoded(data, name), name, partial(_find, opened, name))


def _from_json(text: str, name: str, find: Find) -> Iterator[Talk]:
    for number, item in enumerate(_items(text, name), 1):
        try:
            if isinstance(item, dict) and "mapping" in item:
                yield ChatGPT.model_validate(item).talk(find)
            elif isinstance(item, dict) and isinstance(item.get("chat"), dict):
                yield OpenWebUI.model_validate(item).talk()
            else:
                raise ExchangeError(_unknown(name))
        except ValidationError as error:
            raise ExchangeError(
                f"{name} is not as its program should write it: chat {number} cannot be read, so nothing was imported."
            ) from error


def _items(text: str, name: str) -> Iterator[Any]:
    """The members of a JSON list one by one: reading a large file at once would hold the window up."""
    decoder = json.JSONDecoder()
    place = _after_space(text, 0)
    if text[place : place + 1] == "{":
        yield _decode(decoder, text, place, name)[0]
        return
    if text[place : place + 1] != "[":
        raise ExchangeError(_unknown(name))
    place = _after_space(text, place + 1)
    while text[place : place + 1] != "]":
        item, place = _decode(decoder, text, place, name)
        yield item
        place = _after_space(text, place)


def _decode(decoder: json.JSONDecoder, text: str, place: int, name: str) -> tuple[Any, int]:
    try:
        return decoder.raw_decode(text, place)
    except (ValueError, RecursionError) as error:
        raise ExchangeError(own.damaged(name)) from error


def _after_space(text: str, place: int) -> int:
    match = _SPACE.match(text, place)
    return place if match is None else match.end()


def _text(path: Path) -> str:
    if path.stat().st_size > _MAX_JSON:
        raise ExchangeError(f"{path.name} is too large to import.")
    return _decoded(path.read_bytes(), path.name)


def _decoded(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ExchangeError(_unknown(name)) from error


def _find(opened: zipfile.ZipFile, name: str, file_id: str) -> Callable[[], bytes] | None:
    """The file in a zip whose name holds the id."""
    inside = next((each for each in opened.namelist() if file_id and file_id in each), None)
    return None if inside is None else partial(own.member, opened, inside, _MAX_MEDIUM, name)


def _nowhere(_: str) -> None:
    """A JSON file by itself holds no media."""


def _attach(keep: Read, medium: Medium) -> Attachment | None:
    return None if medium.read is None else keep(medium.read(), medium.name)


def _unknown(name: str) -> str:
    return (
        f"{name} is not an export of chats that Braid can read. "
        "It takes archives of its own, and exports by ChatGPT and Open WebUI."
    )
