"""Makes the README's screenshots from the real program with the embedded model, at twice the size.

packaging/dev shot [FOLDER]
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from PIL import Image
from PySide6.QtGui import QFont, QFontDatabase

from tests.app.driving import run, until

ROOT = Path(__file__).parents[1]
SAMPLES = ROOT / "resources" / "samples"
_SIZE = (1200, 760)
_QUESTIONS = (
    ("shapes.png", "Make a table of the shapes."),
    ("chart.png", "Which bar is the tallest?"),
    ("", "Count to 30."),
)


def use_a_screen_font(application: Any) -> None:
    """Take Inter, which looks like the Mac's own font, if it is there."""
    if "Inter" in QFontDatabase.families():
        application.setFont(QFont("Inter"))


async def three_chats(braid: Any) -> None:
    """Two chats with pictures and one without, left while they answer together."""
    await until(lambda: braid.model.status == "ready")
    library = braid.library
    chats = [library.current, library.new_chat(), library.new_chat()]
    for chat, (picture, question) in zip(chats, _QUESTIONS, strict=True):
        if picture:
            chat.composer.add_files([SAMPLES / picture])
        chat.composer.set_text(question)
    await until(lambda: all(chat.composer.can_send for chat in chats))
    library.select(chats[0].id)
    for chat in chats:
        chat.composer.send()
    await until(lambda: len(chats[0].turns[-1].text) > 70 and chats[2].turns[-1].text)


def shoot(folder: Path, appearance: str) -> None:
    """One picture of the window in light or dark."""

    async def drive(braid: Any) -> dict[str, Any]:
        braid.window.resize(*_SIZE)
        await three_chats(braid)
        _save(braid.window, folder / f"window-{appearance}.png")
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
    for appearance in ("light", "dark"):  # each in its own process: a process has one QApplication
        subprocess.run([sys.executable, "-m", "tests.tour", str(folder), appearance], cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
