"""Makes the README's screenshots from the real program with the embedded model, at twice the size.

packaging/dev shot [FOLDER]
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import av
from PIL import Image, ImageDraw
from PySide6.QtGui import QFont, QFontDatabase

from app.state.options import of_page
from tests.app.driving import run, until

ROOT = Path(__file__).parents[1]
SAMPLES = ROOT / "resources" / "samples"
_SIZE = (1200, 760)
_CLIP_SIZE = (256, 192)
_MOTION_S = 0.3


def use_a_screen_font(application: Any) -> None:
    """Take Inter, which looks like the Mac's own font, if it is there."""
    if "Inter" in QFontDatabase.families():
        application.setFont(QFont("Inter"))


def draw_clip(path: Path) -> Path:
    """Four seconds of a red circle that crosses the picture."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=10)
        stream.width, stream.height = _CLIP_SIZE
        stream.pix_fmt, stream.bit_rate = "yuv420p", 1_000_000
        for number in range(40):
            image = Image.new("RGB", _CLIP_SIZE, (244, 244, 240))
            left = 8 + 4 * number
            ImageDraw.Draw(image).ellipse((left, 64, left + 64, 128), fill=(220, 40, 40))
            container.mux(stream.encode(av.VideoFrame.from_image(image)))
        container.mux(stream.encode())
    return path


async def attach(chat: Any, file: Path | None, question: str) -> None:
    """Write a draft and wait until it can be sent."""
    if file is not None:
        chat.composer.add_files([file])
    chat.composer.set_text(question)
    await until(lambda: chat.composer.can_send)


async def three_chats(library: Any, clip: Path) -> list[Any]:
    """A picture, a clip and a text, left while they answer together."""
    drafts = (
        (SAMPLES / "shapes.png", "Make a table of the shapes."),
        (clip, "What happens in this video?"),
        (None, "Count to 30."),
    )
    chats = [library.current, library.new_chat(), library.new_chat()]
    for chat, (file, question) in zip(chats, drafts, strict=True):
        await attach(chat, file, question)
    library.select(chats[0].id)
    for chat in chats:
        chat.composer.send()
    await until(lambda: len(chats[0].turns[-1].text) > 70 and all(chat.turns[-1].text for chat in chats))
    return chats


async def window(braid: Any, folder: Path, clip: Path, appearance: str) -> None:
    """The whole window while the three answer."""
    chats = await three_chats(braid.library, clip)
    _save(braid.window, folder / f"window-{appearance}.png")
    if appearance == "light":
        await until(lambda: not any(chat.answering for chat in chats))


async def draft(braid: Any, folder: Path, clip: Path) -> None:
    """A clip in a draft, with the frames that will be sent."""
    chat = braid.library.new_chat()
    await attach(chat, clip, "Does the circle move?")
    composer = chat.composer
    composer.preview.open(composer.chips[0].id)
    await until(lambda: composer.preview.look and composer.cost)
    await drawn()
    _save(braid.window, folder / "clip.png")


async def dialogs(braid: Any, folder: Path) -> None:
    """The settings of the caches, and the model picker."""
    window = braid.window
    window.open_settings()
    settings = window._dialog
    settings.show_page("Cache")
    await until(lambda: len(settings.pages["Cache"].rows) == len(of_page("Cache")))
    await drawn()
    _save(settings, folder / "settings.png")
    settings.close()
    window.open_models()
    await until(lambda: window._picker.rows)
    await drawn()
    _save(window._picker, folder / "models.png")


async def drawn() -> None:
    """Let animations end."""
    await asyncio.sleep(_MOTION_S)


def shoot(folder: Path, appearance: str) -> None:
    """The window in light or dark; the other scenes in light only."""

    async def drive(braid: Any) -> dict[str, Any]:
        braid.window.resize(*_SIZE)
        await until(lambda: braid.model.status == "ready")
        with tempfile.TemporaryDirectory() as made:
            clip = draw_clip(Path(made) / "circle.mp4")
            await window(braid, folder, clip, appearance)
            if appearance == "light":
                await draft(braid, folder, clip)
                await dialogs(braid, folder)
        return {}

    run(drive, use_a_screen_font, appearance=appearance)


def _save(widget: Any, path: Path) -> None:
    widget.grab().save(str(path))
    # A window has few colours: a palette makes the file a third as large without a visible difference.
    with Image.open(path) as image:
        image.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
    print(path)


def main() -> None:
    """Walk once in light and once in dark."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "resources" / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    os.environ.setdefault("QT_SCALE_FACTOR", "2")
    if len(sys.argv) > 2:
        shoot(folder, sys.argv[2])
        return
    with tempfile.TemporaryDirectory() as hub:  # the picker shows no models of whoever takes the pictures
        environment = os.environ | {"HF_HUB_CACHE": hub}
        for appearance in ("light", "dark"):  # each in its own process: a process has one QApplication
            command = [sys.executable, "-m", "tests.tour", str(folder), appearance]
            subprocess.run(command, cwd=ROOT, env=environment, check=True)


if __name__ == "__main__":
    main()
