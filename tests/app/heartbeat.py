"""How late a 10 ms timer in the real window fires while tabs stream and the panel is open: prints one JSON line.

    python -m tests.app.heartbeat [ROUNDS [TABS ...]]

Each round asks in all tabs at once, in four unless told otherwise. The first asks about a 448 x 448 picture after more
than 500 tokens of words, the others for a count and for stories, every fifth about the words again, so that decoding,
a long prefill and vision encoding all fall into the measured stretch. Importing mlx-vlm and loading the model are
measured apart.
"""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import monotonic, perf_counter, thread_time
from typing import Any

from PIL import Image, ImageDraw
from PySide6.QtCore import QObject, Qt, QTimer

from tests.app.driving import run, until
from tests.app.quiet import Control, noise
from tests.app.typist import Typist

INTERVAL_MS = 10
_WORDS = "Look at the picture with care and then count everything that you can see in it, one by one. " * 26
_ASKED = (_WORDS, "Count to 30.", "Tell me a story.", "Tell me another story.")
_BINS_MS = (1, 2, 4, 8, 16, 32, 64, 128)


class Heartbeat(QObject):
    """A precise timer that remembers, in milliseconds, how late it fired and for how long its thread worked until then.

    A machine with other things to do makes it late as well; the thread's processor time tells what is its own doing.
    """

    def __init__(self) -> None:
        super().__init__()
        self._timer = QTimer(self, interval=INTERVAL_MS, timerType=Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._beat)
        self._last: float | None = None
        self._worked = 0.0
        self.late: list[float] = []
        self.worked: list[float] = []
        self._timer.start()

    def take(self) -> tuple[list[float], list[float]]:
        """Lateness and work, beat by beat, since the last call."""
        taken, self.late, self.worked = (self.late, self.worked), [], []
        return taken

    def stop(self) -> None:
        """Measure no more."""
        self._timer.stop()

    def _beat(self) -> None:
        now, worked = perf_counter(), thread_time()
        if self._last is not None:
            self.late.append(max((now - self._last) * 1e3 - INTERVAL_MS, 0.0))
            self.worked.append((worked - self._worked) * 1e3)
        self._last, self._worked = now, worked


def summary(late: list[float], worked: list[float]) -> dict[str, Any]:
    """Lateness of a stretch with a histogram, and the longest work of the thread between two beats; milliseconds."""
    bins = {f"<= {edge} ms": sum(value <= edge for value in late) for edge in _BINS_MS}
    return {
        "beats": len(late),
        "p50_ms": rank(late, 0.5),
        "p99_ms": rank(late, 0.99),
        "max_ms": max(late),
        "work_p99_ms": rank(worked, 0.99),
        "work_max_ms": max(worked),
        "histogram": bins,
    }


def rank(values: list[float], share: float) -> float:
    """The value below which this share of all lies."""
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


async def one_round(window: Any, picture: Path, beat: Heartbeat, tabs: int, *, typed: bool) -> dict[str, Any]:
    """Ask in so many new tabs at once, measure until all have answered, and close them; ``typed``: type meanwhile."""
    library = window.library
    chats = [library.new_chat() for _ in range(tabs)]
    chats[0].composer.add_files([picture])
    await until(lambda: chats[0].composer.chips and chats[0].composer.chips[0].state == "ready")
    for chat, text in zip(chats, itertools.cycle(_ASKED), strict=False):
        chat.composer.set_text(text)
    beat.take()
    began = monotonic()
    for chat in chats:
        chat.composer.send()
    await until(lambda: all(chat.answering for chat in chats))
    typist = Typist(window.page.composer.field) if typed else None
    await until(lambda: not any(chat.answering for chat in chats))
    found = {**summary(*beat.take()), "span": (began, monotonic())}
    if typist is not None:
        keys = typist.end()
        found["keys"] = {"count": len(keys), "p50_ms": rank(keys, 0.5), "p99_ms": rank(keys, 0.99), "max_ms": max(keys)}
        window.page.composer.field.clear()
    last = [chat.turns[-1] for chat in chats]
    for chat in chats:
        library.close_tab(chat.id)
    return {
        **found,
        "tabs": tabs,
        "prompt_tokens": [turn.facts.prompt_tokens if turn.facts else 0 for turn in last],
        "failed": [turn.error for turn in last if turn.state == "failed"],
    }


def measure(rounds: int, tabs: Sequence[int] = (4,), *, typed: bool = False) -> dict[str, Any]:
    """Rounds with so many tabs, and the stretch of import and loading; each beside what the machine itself did."""

    async def drive(program: Any) -> dict[str, Any]:
        control, beat, began = Control(), Heartbeat(), monotonic()
        await until(lambda: program.model.status in ("ready", "failed"))
        loading = {**summary(*beat.take()), "span": (began, monotonic())}
        with tempfile.TemporaryDirectory() as folder:
            pictures = (_picture(Path(folder), number) for number in itertools.count())
            results = [
                await one_round(program.window, next(pictures), beat, count, typed=typed)
                for count in tabs
                for _ in range(rounds)
            ]
        beats = control.end()
        for stretch in (loading, *results):
            stretch["noise"] = noise(beats, *stretch.pop("span"))
        seen = program.window.vitals.isVisible() and program.vitals.latest is not None
        return {"panel": seen, "loading": loading, "rounds": results}

    return run(drive)


def _picture(folder: Path, number: int) -> Path:
    """A 448 x 448 picture, another one each round, so that its encoding is never found in a cache."""
    image = Image.new("RGB", (448, 448), (252, 252, 252))
    ImageDraw.Draw(image).ellipse((100 + number, 120, 260 + number, 280), fill=(220, 30, 30))
    image.save(folder / f"circle-{number}.png")
    return folder / f"circle-{number}.png"


if __name__ == "__main__":
    given = [int(number) for number in sys.argv[1:]]
    print(json.dumps(measure(*given[:1] or [3], given[1:] or [4])))
