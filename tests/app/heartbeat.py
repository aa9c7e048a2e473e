"""How late a 10 ms timer in the real window fires while three tabs stream: prints one JSON line.

    python -m tests.app.heartbeat [ROUNDS]

Each round asks in three tabs at once: a count, a story, and a 448 x 448 picture after more than 500 tokens of words, so
that decoding, a long prefill and vision encoding all fall into the measured stretch. The import of mlx-vlm and the
loading of the model are measured apart.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import monotonic, perf_counter, process_time
from typing import Any

from PIL import Image, ImageDraw
from PySide6.QtCore import QObject, Qt, QTimer

from tests.app.driving import run, until
from tests.app.quiet import Control, noise

INTERVAL_MS = 10
_WORDS = "Look at the picture with care and then count everything that you can see in it, one by one. " * 26
_BINS_MS = (1, 2, 4, 8, 16, 32, 64, 128)


class Heartbeat(QObject):
    """A precise timer that remembers how late it fired, in milliseconds."""

    def __init__(self) -> None:
        super().__init__()
        self._timer = QTimer(self, interval=INTERVAL_MS, timerType=Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._beat)
        self._last: float | None = None
        self._worked = 0.0
        self.late: list[float] = []
        self.own: list[float] = []
        """The same without what other programs took from this one: no more than the processor time it has had."""
        self._timer.start()

    def take(self) -> list[float]:
        """What was measured since the last call."""
        late, self.late, self.own = self.late, [], []
        return late

    def stop(self) -> None:
        """Measure no more."""
        self._timer.stop()

    def _beat(self) -> None:
        now, worked = perf_counter(), process_time()
        if self._last is not None:
            self.late.append(max((now - self._last) * 1e3 - INTERVAL_MS, 0.0))
            self.own.append(min(self.late[-1], (worked - self._worked) * 1e3))
        self._last, self._worked = now, worked


def summary(late: list[float]) -> dict[str, Any]:
    """p50, p99, max in milliseconds and a histogram of a stretch."""
    ordered = sorted(late)
    bins = {f"<= {edge} ms": sum(value <= edge for value in ordered) for edge in _BINS_MS}
    return {
        "beats": len(ordered),
        "p50_ms": ordered[len(ordered) // 2],
        "p99_ms": ordered[min(int(len(ordered) * 0.99), len(ordered) - 1)],
        "max_ms": ordered[-1],
        "histogram": bins,
    }


async def one_round(library: Any, picture: Path, beat: Heartbeat) -> dict[str, Any]:
    """Ask in three new tabs at once and measure until all have answered."""
    chats = [library.new_chat() for _ in range(3)]
    chats[2].composer.add_files([picture])
    await until(lambda: chats[2].composer.chips and chats[2].composer.chips[0].state == "ready")
    beat.take()
    began = monotonic()
    for chat, text in zip(chats, ("Count to 30.", "Tell me a story.", _WORDS), strict=True):
        chat.composer.set_text(text)
        chat.composer.send()
    await until(lambda: all(chat.answering for chat in chats))
    await until(lambda: not any(chat.answering for chat in chats))
    tokens = [chat.turns[-1].facts.prompt_tokens for chat in chats]
    failed = [chat.turns[-1].error for chat in chats if chat.turns[-1].state == "failed"]
    return {**summary(beat.take()), "prompt_tokens": tokens, "failed": failed, "span": (began, monotonic())}


def measure(rounds: int) -> dict[str, Any]:
    """Medians over rounds, and the stretch of import and loading; each beside what the machine itself did meanwhile."""

    async def drive(window: Any) -> dict[str, Any]:
        control, beat, began = Control(), Heartbeat(), monotonic()
        await until(lambda: window.model.status in ("ready", "failed"))
        loading = {**summary(beat.take()), "span": (began, monotonic())}
        with tempfile.TemporaryDirectory() as folder:
            results = [await one_round(window.library, _picture(Path(folder), n), beat) for n in range(rounds)]
        beats = control.end()
        for stretch in (loading, *results):
            stretch["noise"] = noise(beats, *stretch.pop("span"))
        return {
            "loading": loading,
            "p99_ms": median(found["p99_ms"] for found in results),
            "max_ms": median(found["max_ms"] for found in results),
            "rounds": results,
        }

    return run(drive)


def _picture(folder: Path, number: int) -> Path:
    """A 448 x 448 picture, another one each round, so that its encoding is never found in a cache."""
    image = Image.new("RGB", (448, 448), (252, 252, 252))
    ImageDraw.Draw(image).ellipse((100 + number, 120, 260 + number, 280), fill=(220, 30, 30))
    image.save(folder / f"circle-{number}.png")
    return folder / f"circle-{number}.png"


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 3)))
