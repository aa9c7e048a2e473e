"""What one more output costs an answer that is already long: prose, one table, one block of code, one list."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from statistics import median

from PySide6.QtCore import QThreadPool
from PySide6.QtWidgets import QApplication

from app.settings import Settings
from app.state.preferences import Preferences
from app.state.turn import Turn
from app.views.latex import typesetter
from app.views.transcript import Transcript
from app.views.window import Window
from tests.app.views.fakes import Chats, Figures, Shelf

LENGTHS = (100, 10_000, 100_000)
"""Characters that are there already."""
_OUTPUTS, _SIZE = 60, 5
_WORDS = (
    "The seal is torn and the glass is marked by steam, so heat is lost at the **lower edge** of the door, some $3x^2$."
)


def prose() -> str:
    """Paragraphs without end."""
    return "".join(f"{_WORDS} That is fact {number}.\n\n" for number in range(1000))


def table() -> str:
    """Rows without end: 500 come to some 25,000 characters."""
    rows = (f"| part {number} | `{number * 7}` pieces, some **torn** | ${number} |\n" for number in range(3000))
    return "Look:\n\n| part | state | cost |\n| --- | --- | --- |\n" + "".join(rows)


def code() -> str:
    """Lines of code without end."""
    return "Look:\n\n```python\n" + "".join(f"value_{number} = {number}  # one more\n" for number in range(5000))


def items() -> str:
    """A list without end."""
    return "".join(f"{number}. Item number {number} with **some** words and `code`\n" for number in range(1, 3000))


KINDS: dict[str, Callable[[], str]] = {"prose": prose, "table": table, "code": code, "list": items}


def settled(transcript: Transcript) -> bool:
    """Whether nothing is left to draw, formulas included."""
    timers = (transcript._frame, transcript._builder, transcript._gather)
    return not (typesetter._queue or any(timer.isActive() for timer in timers))


def cost(text: str, length: int) -> float:
    """Median processor time of the window's thread for an output of five characters, drawn and painted; ms."""
    library = Chats("Kitchen")
    preferences = Preferences(Settings(appearance="light"), library.model, None)  # type: ignore[arg-type]
    window = Window(library, library.model, Figures(), preferences, Shelf(library.model))  # type: ignore[arg-type]
    window.resize(1200, 800)
    window.show()
    window.warm_up()
    turn, transcript = library.current.begin(text[:length]), window.page.transcript
    for _ in itertools.count():
        QApplication.processEvents()
        if settled(transcript):
            break
    took = [_output(transcript, turn, text) for _ in range(_OUTPUTS)]
    QThreadPool.globalInstance().waitForDone()
    window.close()
    window.deleteLater()
    return median(took)


def _output(transcript: Transcript, turn: Turn, text: str) -> float:
    turn.text += text[len(turn.text) :][:_SIZE]
    begun = time.thread_time()
    transcript._touch(turn.id)
    transcript._draw()
    QApplication.processEvents()
    return (time.thread_time() - begun) * 1e3
