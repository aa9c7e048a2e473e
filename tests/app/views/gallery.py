"""Walks through the window with made-up conversations and keeps a picture of every stop in the folder given."""

from __future__ import annotations

import math
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
sys.path.insert(0, str(Path(__file__).parents[3]))

from PIL import Image, ImageDraw, ImageFilter
from PySide6.QtCore import QMimeData, QPointF, Qt, QThreadPool, QUrl
from PySide6.QtGui import QDragEnterEvent, QDragLeaveEvent, QFont, QFontDatabase
from PySide6.QtWidgets import QApplication

from app.settings import Settings
from app.state.preferences import Preferences
from app.state.shelf import Entry
from app.state.turn import AnswerFacts, Turn
from app.state.vitals import CacheFigures, MtpFigures, Sample, StreamFigures
from app.views.window import Window
from engine.request import Phase
from tests.app.views.fakes import Chat, Chats, Figures, LoadedModel, Shelf, attachment

TABLE = """The door seal is torn at the **lower left corner**, 4 cm above the hinge. Steam has marked the glass.

| Part | Condition | What to do |
| --- | --- | --- |
| Door seal | torn at the lower left | replace it |
| Glass | steam marks, not cracked | clean with vinegar |
| Hinge | straight, closes flush | nothing |

1. Switch the oven off at the wall and let it cool.
2. Pull the old seal out of its groove; it is held by four hooks.
3. Press the new one in, *corners first*.

> Measure the door before you order: seals of 60 cm ovens differ by some millimetres.
"""
CODE = """Here is how to check the temperature log for the drop, with the standard library only:

```python
import csv
from pathlib import Path


def drops(path: Path, limit: float = 15.0) -> list[tuple[str, float]]:
    \"\"\"Times at which the temperature fell by more than `limit` degrees.\"\"\"
    found, before = [], None
    with path.open() as file:
        for row in csv.DictReader(file):
            now = float(row["celsius"])  # one reading a minute
            if before is not None and before - now > limit:
                found.append((row["time"], before - now))
            before = now
    return found
```

Call `drops(Path("log.csv"))` and compare the times with when the door was open. See the [csv module](https://docs.python.org/3/library/csv.html).
"""


def oven() -> Image.Image:
    """A picture that looks like a photograph at the size of a thumbnail."""
    image = Image.new("RGB", (960, 720), "#8d7761")
    draw = ImageDraw.Draw(image)
    for y in range(720):
        draw.line([(0, y), (960, y)], fill=(150 - y // 9, 128 - y // 10, 108 - y // 11))
    draw.rounded_rectangle([140, 90, 820, 640], 24, fill="#2c2b2d")
    draw.rounded_rectangle([200, 220, 760, 560], 18, fill="#100f11")
    draw.rounded_rectangle([240, 250, 720, 530], 12, fill="#4a2f1a")
    draw.ellipse([360, 300, 600, 500], fill="#d08a3a")
    draw.rectangle([190, 150, 770, 172], fill="#b9b6b0")
    for x in (260, 340, 620, 700):
        draw.ellipse([x - 20, 104, x + 20, 144], fill="#9a978f")
    return image.filter(ImageFilter.GaussianBlur(2))


def receipt(hue: int) -> Image.Image:
    """A slip of paper with lines."""
    image = Image.new("RGB", (600, 900), (90 + hue, 96, 104))
    draw = ImageDraw.Draw(image)
    draw.rectangle([120, 60, 480, 860], fill="#f4f1ea")
    for line in range(120, 780, 44):
        draw.rectangle([150, line, 150 + (line * 7) % 190 + 60, line + 10], fill="#77736b")
        draw.rectangle([400, line, 450, line + 10], fill="#77736b")
    return image.filter(ImageFilter.GaussianBlur(1))


def scene() -> tuple[Chats, LoadedModel, Figures]:
    """Three tabs, two of them answering; a week of older chats."""
    library, vitals = Chats("Kitchen", "Receipts", "Street"), Figures()
    model = library.model
    day = 86400.0
    older = [
        ("Garden plan", 1),
        ("Passport photo", 1),
        ("Bird at the feeder, which one is it?", 3),
        ("Lecture slides", 5),
    ]
    library.entries += tuple(Entry(f"old{i}", title, time.time() - day * ago) for i, (title, ago) in enumerate(older))
    kitchen, receipts, street = library.tabs
    fill_kitchen(kitchen)
    receipts.ask("Sum these up by shop.", *(attachment(f"receipt {i}.heic", image=receipt(i * 30)) for i in (1, 2, 3)))
    receipts.add(Turn(role="assistant", state="live"))
    receipts.act(Phase.VISION, "image 2 of 3")
    street.ask("Is the sign on the left a one-way sign?")
    street.answer("Yes: a white arrow on blue means one way.")
    street.unread = True
    street.activity_changed.emit()
    wave = tuple(62 + 40 * math.sin(i / 17) + 12 * math.sin(i / 3.1) for i in range(170))
    vitals.history = (0.0,) * 20 + wave
    vitals.latest = Sample(
        118.4, 2, 1, 6_900_000_000, 1_300_000_000, 9_100_000_000, 16_000_000_000, "metal", 0.1, 3.2, 11.8,
        wait_reason="Waiting for memory: it needs 3.2 GB, 1.1 GB is free.",
        streams=(
            StreamFigures(kitchen.id, "Kitchen", 41.27, wave[::2]),
            StreamFigures(street.id, "Bird at the feeder, which one is it?", 77.1, wave[40:]),
        ),
        prefix=CacheFigures(1_240_000_000, 4_000_000_000, 12, 0.964, 182_345),
        vision=CacheFigures(312_000_000, 500_000_000, 41, 0.5),
        ssd=CacheFigures(4_000_000_000, 10_000_000_000, 230, None, 41_000),
        mtp=MtpFigures(0.823, 1.81, "Resting while several answers are written"),
    )  # fmt: skip
    return library, model, vitals


def fill_kitchen(chat: Chat) -> None:
    """A conversation with a picture, a table and code, the last answer still growing."""
    chat.ask("What is wrong with this oven, and can I fix it myself?", attachment("oven.heic", image=oven()))
    chat.answer(TABLE, AnswerFacts(212, 41.3, 0.42, 640, 614, "stop"))
    chat.ask("The log of its sensor is a CSV file.\nHow do I find the drops?")
    chat.begin(CODE)


class Tour:
    """The walk: shows the window and saves what it looks like."""

    def __init__(self, folder: Path, appearance: str, size: tuple[int, int]) -> None:
        self.folder, self.name = folder, f"{appearance}-{size[0]}x{size[1]}"
        self.library, self.model, self.vitals = scene()
        self.preferences = Preferences(Settings(appearance=appearance), self.model, None)  # type: ignore[arg-type]
        self.models = Shelf(self.model)
        self.window = Window(self.library, self.model, self.vitals, self.preferences, self.models)  # type: ignore[arg-type]
        self.window.resize(*size)
        self.window.show()
        self.settle()

    def settle(self) -> None:
        """Let timers, layouts and the highlighter finish."""
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            QApplication.processEvents()
        QThreadPool.globalInstance().waitForDone()
        QApplication.processEvents()
        self.vitals.sampled.emit()
        QApplication.processEvents()

    def keep(self, stop: str) -> None:
        """Save a picture."""
        self.settle()
        path = self.folder / f"{self.name}-{stop}.png"
        self.window.grab().save(str(path))
        print(path)

    def walk(self) -> None:
        """All stops."""
        self.keep("streaming")
        self.window.page.transcript.verticalScrollBar().setValue(0)
        self.keep("top")
        self.library.select(self.library.tabs[1].id)
        draft = self.library.current.composer
        draft.add_files([Path("oven.heic"), Path("hall.png"), Path("torn.jpg")])
        first, _, last = draft.chips
        draft.finish(first.id, attachment("oven.heic", image=oven()))
        draft.finish(last.id, None, "torn.jpg is damaged: nothing of it could be read.")
        draft.set_text("And compare them with last month, please.")
        draft.notice.emit("notes.zip is an archive. Braid can only take pictures so far.")
        self.keep("composer")
        chat = self.library.tabs[2]
        self.library.select(chat.id)
        chat.ask("And this one?", attachment("wide.png", (800, 300), "#6a7fa0"))
        chat.end(
            chat.begin(),
            "failed",
            "There was not enough memory for this picture. Close a chat or use a smaller picture, then try again.",
        )
        self.keep("error")
        self.window.sidebar.search.setText("zebra")
        self.library.new_chat()
        self.model.status, self.model.progress, self.model.stage = "loading", 0.63, "Loading weights"
        self.model.changed.emit()
        self.keep("empty")
        self.crowd()
        self.window.close()

    def crowd(self) -> None:
        """Many tabs, a drag over the window, a title being changed, the keyboard's place."""
        for title in ("Passport photo", "Bird at the feeder", "Lecture slides", "Garden plan"):
            self.library.new_chat().rename(title)
        self.library.select(self.library.tabs[0].id)
        mime = QMimeData()
        mime.setUrls([QUrl.fromLocalFile(f"/tmp/{name}.png") for name in "abc"])
        place = QPointF(self.window.rect().center())
        buttons, keys = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
        event = QDragEnterEvent(place.toPoint(), Qt.DropAction.CopyAction, mime, buttons, keys)
        QApplication.sendEvent(self.window, event)
        self.keep("drop")
        QApplication.sendEvent(self.window, QDragLeaveEvent())
        self.window.rename_tab()
        self.keep("rename")
        self.window.activateWindow()
        self.window.strip.row.tabs[self.library.tabs[1].id].setFocus(Qt.FocusReason.TabFocusReason)
        self.window.sidebar.search.clear()
        self.keep("focus")


def main() -> None:
    """Make the pictures of both appearances in the folder given."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    sizes = [tuple(map(int, size.split("x"))) for size in sys.argv[2:]] or [(1440, 900), (900, 600)]
    app = QApplication([])
    if "Inter" in QFontDatabase.families():
        app.setFont(QFont("Inter"))
    for size in sizes:
        for appearance in ("light", "dark"):
            Tour(folder, appearance, (size[0], size[1])).walk()


if __name__ == "__main__":
    main()
