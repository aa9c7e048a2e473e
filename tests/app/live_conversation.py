"""An evening with the real program: cut, continued, edited, answered again, forked, found and archived."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.presets import Sampling
from app.state.attachment import Excerpt
from tests.app import files
from tests.app.driving import run, until

_QUESTION = "Count to 30."
_CHOSEN = {"door.mp4": Excerpt(fps=3.0, start=0.4, end=1.6), "plan.pdf": Excerpt(first=2, last=3)}


def circle(path: Path) -> Path:
    """A picture the embedded model can read."""
    image = Image.new("RGB", (224, 224), "white")
    ImageDraw.Draw(image).ellipse((56, 56, 168, 168), fill=(220, 30, 30))
    image.save(path)
    return path


def remove(path: Path) -> None:
    """The person tidies up."""
    path.unlink()


def ask(chat: Any, text: str) -> None:
    """Type and send."""
    chat.composer.set_text(text)
    chat.composer.send()


async def resting(chat: Any) -> None:
    """Wait for its answers."""
    await until(lambda: not chat.answering)


async def evening(braid: Any) -> dict[str, Any]:
    """What came of it."""
    with tempfile.TemporaryDirectory() as folder:
        await until(lambda: braid.model.status == "ready")
        return {
            "cut": await cut_and_continued(braid),
            "picture": await edited_with_its_picture(braid, circle(Path(folder) / "circle.png")),
            "priced": await priced(braid, Path(folder)),
            "searched": await searched(braid),
            "archived": await archived(braid, Path(folder) / "all.braid"),
        }


async def cut_and_continued(braid: Any) -> dict[str, Any]:
    """The same question at once, and in two halves with the button between them."""
    chat = braid.library.current
    ask(chat, _QUESTION)
    await resting(chat)
    whole = chat.turns[1].text
    chat.instruct("", Sampling(max_tokens=8))
    chat.retry(chat.turns[1].id)
    await resting(chat)
    half = chat.turns[1].text
    message = braid.window.page.transcript._messages[chat.turns[1].id]
    await until(lambda: message._resume.isVisible() and "limit" in message.footer.label.text())  # drawn a frame later
    line = message.footer.label.text()
    chat.instruct("", Sampling())
    QTest.mouseClick(message._resume, Qt.MouseButton.LeftButton)
    await resting(chat)
    answer = chat.turns[1]
    return {
        "whole": whole,
        "half": half,
        "line": line,
        "continued": answer.text,
        "tokens": answer.facts.completion_tokens,
        "variants": chat.offers(answer.id).variants,
    }


async def edited_with_its_picture(braid: Any, picture: Path) -> dict[str, Any]:
    """A question about a picture whose file is gone by the time it is asked again in other words."""
    chat = braid.library.new_chat()
    chat.composer.add_files([picture])
    await until(lambda: chat.composer.can_send)
    ask(chat, "What shape is it?")
    await resting(chat)
    remove(picture)
    first = chat.turns[1].text
    field = braid.window.page.composer.field
    field.setFocus()
    QTest.keyClick(field, Qt.Key.Key_Up)
    editor = QApplication.focusWidget()
    editor.setPlainText("What color is the circle?")
    QTest.keyClick(editor, Qt.Key.Key_Return)
    await resting(chat)
    edited = chat.turns[1].text
    chat.fork(chat.turns[1].id)
    fork = braid.library.current
    return {"first": first, "edited": edited, "fork": [turn.text for turn in fork.turns]}


async def priced(braid: Any, folder: Path) -> dict[str, list[int]]:
    """What drafts with media are said to take, and what they then take: several at once, then after them."""
    chat = braid.library.new_chat()
    chat.instruct("Answer in few words.", Sampling(max_tokens=6))
    draft, said, read = chat.composer, [], []
    made = files.animation(folder / "wave.gif"), files.document(folder / "plan.pdf"), files.clip(folder / "door.mp4")
    for paths in (made, (circle(folder / "again.png"),)):
        draft.add_files(list(paths))
        draft.set_text("What is this?")
        await until(lambda: draft.can_send)
        for chip in draft.chips:
            if chip.name in _CHOSEN:
                draft.choose(chip.id, _CHOSEN[chip.name])
        # a chosen part takes its price away until it is priced anew
        await until(lambda: draft.cost is not None and all(chip.attachment.tokens for chip in draft.chips))
        assert draft.cost is not None
        said.append(draft.cost.tokens)
        draft.send()
        await resting(chat)
        read.append(chat.turns[-1].facts.prompt_tokens)
    return {"said": said, "read": read}


async def searched(braid: Any) -> list[str]:
    """Titles of the chats in which the picture was spoken of."""
    search = braid.library.search
    search.seek("color circle")
    await until(lambda: search.words)
    titles = {entry.id: entry.title for entry in braid.library.entries}
    return sorted(titles[found.conversation_id] for found in search.found)


async def archived(braid: Any, path: Path) -> dict[str, Any]:
    """How many chats there are before and after all were exported and taken in again, and what was said of it."""
    library, said = braid.library, []
    library.exchange.told.connect(said.append)
    before = len(library.entries)
    library.exchange.export([entry.id for entry in library.entries], path)
    await until(lambda: len(said) == 1)
    library.exchange.take(path)
    await until(lambda: len(said) == 2)
    return {"before": before, "after": len(library.entries), "said": said}


if __name__ == "__main__":
    print(json.dumps(run(evening)))
