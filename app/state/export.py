"""A chat as Markdown with its media beside it."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from app.state.turn import Turn

_NAMES = {"user": "You", "assistant": "Answer"}


def write_markdown(path: Path, title: str, system_prompt: str, turns: Sequence[Turn]) -> None:
    """Write the turns of one branch, and copy what they show into a folder named after the file.

    Raises:
        OSError: it cannot be written.
    """
    folder = path.with_name(f"{path.stem} media")
    links = _copy_media(turns, folder)
    parts = [f"# {title}"]
    if system_prompt:
        parts.append("> " + system_prompt.replace("\n", "\n> "))
    for turn in turns:
        parts.append(f"## {_NAMES[turn.role]}")
        parts += [links[item.id] for item in turn.attachments]
        if turn.reasoning:
            parts.append(f"<details><summary>Thoughts</summary>\n\n{turn.reasoning}\n\n</details>")
        parts += [part for part in (turn.text, f"*{turn.error}*" if turn.error else "") if part]
    temporary = path.with_name(path.name + ".part")
    try:
        temporary.write_text("\n\n".join(parts) + "\n", "utf-8")
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _copy_media(turns: Sequence[Turn], folder: Path) -> dict[str, str]:
    """A link for each attachment, by its id; pictures are shown, other files only linked."""
    links: dict[str, str] = {}
    for number, item in enumerate((item for turn in turns for item in turn.attachments), 1):
        if not item.path.is_file():
            links[item.id] = f"*{item.name} (the file is gone)*"
            continue
        folder.mkdir(exist_ok=True)
        name = f"{number} {_plain(item.name)}"
        shutil.copyfile(item.path, folder / name)
        shown = "!" if item.kind == "image" else ""
        links[item.id] = f"{shown}[{_escaped(item.name)}]({quote(f'{folder.name}/{name}')})"
    return links


def _plain(name: str) -> str:
    return re.sub(r'[\x00-\x1f<>:"/\\|?*]+', " ", name).strip()


def _escaped(name: str) -> str:
    return re.sub(r"([\[\]\\])", r"\\\1", name)
