"""Uses the real program in a real window under X as a person would: keys, clipboard, drops. Prints one JSON line.

    python -m tests.app.real_window FOLDER

The folder gets the files that are dropped and pictures of the screen.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QAccessible, QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QApplication, QWidget

from tests.app import files
from tests.app.driving import run, until
from tests.engine.clips import clip

ROOT = Path(__file__).parents[2]
LIST, HOW_MANY, LOOK = "List the shapes.", "How many shapes are there?", "Describe this image."
WATCH, COUNT = "What happens in this video?", "Count to 30."
_BUTTONS, _KEYS, _COPY = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, Qt.DropAction.CopyAction


class Person:
    """Hands and eyes in front of the window."""

    def __init__(self, braid: Any, folder: Path) -> None:
        self.braid, self.folder = braid, folder
        self.window: QWidget = braid.window
        self.library = braid.library
        self.told: list[int] = []
        """Tokens that the composer told before each question was sent."""

    async def does(self, program: str, *arguments: str) -> None:
        """Run a program to its end."""
        silent = asyncio.subprocess.DEVNULL  # xclip stays to serve the clipboard, and would keep our pipes open
        process = await asyncio.create_subprocess_exec(program, *arguments, stdout=silent, stderr=silent)
        if await process.wait():
            raise RuntimeError(f"{program} {' '.join(arguments)} failed")

    async def types(self, text: str) -> None:
        """Write and press Enter, by the X server's keyboard."""
        await self.does("xdotool", "type", "--delay", "5", text)
        draft = self.library.current.composer
        await until(lambda: draft.text == text)
        await asyncio.sleep(0.3)  # longer than the composer waits before it asks the engine
        await until(lambda: draft.cost is not None)
        self.told.append(draft.cost.tokens)
        await self.does("xdotool", "key", "Return")

    def drops(self, *paths: Path) -> None:
        """Let files go over the middle of the window."""
        mime = QMimeData()
        mime.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
        place = self.window.rect().center()
        QApplication.sendEvent(self.window, QDragEnterEvent(QPoint(place), _COPY, mime, _BUTTONS, _KEYS))
        QApplication.sendEvent(self.window, QDropEvent(QPointF(place), _COPY, mime, _BUTTONS, _KEYS))

    def reads(self, name: str) -> list[str]:
        """The texts on the shown page that screen readers call by this name, from top to bottom."""
        found = [child for child in self.window.findChildren(QWidget) if child.isVisible()]
        faces = [QAccessible.queryAccessibleInterface(child) for child in found if child.accessibleName() == name]
        texts = [face.textInterface() for face in faces]
        return [text.text(0, text.characterCount()) for text in texts if text is not None]

    def says(self) -> str:
        """The sentence above the field."""
        bar = self.library.current.composer.obstacle
        shown = self.window.page.composer.obstacle  # type: ignore[attr-defined]
        return shown.accessibleName() if bar is not None and shown.isVisible() else ""

    async def photographs(self, name: str) -> None:
        """Keep a picture of the screen."""
        await self.does("import", "-window", "root", str(self.folder / f"{name}.png"))


async def paste(person: Person) -> dict[str, Any]:
    """A picture from the clipboard, a question by the keyboard, the answer from the transcript."""
    chat = person.library.current
    picture = str(person.folder / "two.png")
    await person.does("xclip", "-selection", "clipboard", "-t", "image/png", "-i", picture)
    await person.does("xdotool", "key", "ctrl+v")
    await until(lambda: [chip.state for chip in chat.composer.chips] == ["ready"])
    await person.photographs("pasted")
    await person.types(LIST)
    await until(lambda: len(chat.turns) == 2 and not chat.answering)
    await person.types(HOW_MANY)
    await until(lambda: len(chat.turns) == 4 and not chat.answering)
    await asyncio.sleep(0.3)
    await person.photographs("answered")
    return {"pasted": person.reads("Answer text"), "read": _read(chat)}


async def broken(person: Person) -> dict[str, Any]:
    """Files that are not what they seem, dropped one by one into a draft, while another tab answers."""
    answering = person.library.new_chat()
    await person.types(COUNT)
    await until(lambda: answering.turns and answering.turns[-1].text)
    chat = person.library.new_chat()
    chat.composer.set_text("My draft")
    told: list[str] = []
    chat.composer.notice.connect(told.append)
    sentences = {}
    for name in ("note.png", "empty.png", "huge.png", "torn.jpg", "garbage.jpg", "Empty folder"):
        before = len(told)
        person.drops(person.folder / name)
        await until(lambda: all(chip.state != "reading" for chip in chat.composer.chips))
        await until(lambda before=before: chat.composer.chips or len(told) > before)
        sentences[name] = [*told[before:], *([person.says()] if chat.composer.chips else [])]
        chat.composer.remove(*(chip.id for chip in chat.composer.chips))
    await person.photographs("broken")
    await until(lambda: not answering.answering)
    others = [turn.text for turn in answering.turns]
    return {"broken": sentences, "draft": chat.composer.text, "undisturbed": others}


async def three(person: Person) -> dict[str, Any]:
    """A picture, a clip and plain words in three tabs, until they decode in one step."""
    chats = []
    for name, question in (("circle.png", LOOK), ("clip.mkv", WATCH), ("", COUNT)):
        chats.append(chat := person.library.new_chat())
        if name:
            person.drops(person.folder / name)
            await until(lambda chat=chat: chat.composer.can_send)
        await person.types(question)
    await until(lambda: all(len(chat.turns) == 2 and not chat.answering for chat in chats))
    answers, read = [], [count for chat in chats for count in _read(chat)]
    for chat in chats:
        person.library.select(chat.id)
        await asyncio.sleep(0.2)
        answers += person.reads("Answer text")
    scheduler, rows = person.braid.model.scheduler, 0
    for chat in chats:
        chat.retry(chat.turns[-1].id)
    while any(chat.answering for chat in chats):
        rows = max(rows, scheduler.get_stats()["num_decoding"])
        await asyncio.sleep(0.005)
    await person.photographs("three")
    again = [chat.turns[-1].text for chat in chats]
    return {"answers": answers, "again": again, "rows": rows, "read_in_three": read}


def _read(chat: Any) -> list[int]:
    """Tokens that the engine has counted for each answer."""
    return [turn.facts.prompt_tokens for turn in chat.turns if turn.role == "assistant"]


def prepare(folder: Path) -> None:
    """Make the files."""
    sys.path.insert(0, str(ROOT / "packaging" / "pocket"))
    import canon

    specs = {name: (size, ground, shapes) for name, size, ground, shapes, _ in canon.SPECS}
    canon.draw(*specs["two"]).save(folder / "two.png")
    canon.draw(*specs["red_circle"]).save(folder / "circle.png")
    _, frames, _ = canon.VIDEOS[0]
    (folder / "clip.mkv").write_bytes(clip(np.stack(list(frames()))))
    (folder / "note.png").write_text("Dear diary")
    (folder / "empty.png").touch()
    files.png_header(folder / "huge.png")
    files.torn(folder / "torn.jpg")
    (folder / "garbage.jpg").write_bytes(b"\xff\xd8\xff\xe0" + bytes(400))
    (folder / "Empty folder").mkdir()


def main() -> None:
    """All of it, one after the other."""
    folder = Path(sys.argv[1])
    prepare(folder)

    async def drive(braid: Any) -> dict[str, Any]:
        person = Person(braid, folder)
        await until(lambda: braid.model.status in ("ready", "failed"))
        await until(braid.window.isActiveWindow)
        found = await paste(person) | await broken(person) | await three(person)
        return found | {"told": person.told}

    print(json.dumps(run(drive, appearance="light")))


if __name__ == "__main__":
    main()
