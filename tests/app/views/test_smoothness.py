"""Long chats and long answers: what the window's thread does at once stays short. Figures are printed (`pytest -s`)."""

from __future__ import annotations

import itertools
import time
from statistics import median

import pytest
from PySide6.QtCore import QThreadPool
from PySide6.QtWidgets import QApplication

from app.state.turn import Turn
from app.views.text import TextView
from app.views.theme import theme
from app.views.transcript import Transcript
from tests.app.views import growth
from tests.app.views.test_transcript import answers

PART = """## Step {n}

The seal is torn and the glass is marked by steam, so heat is lost at the **lower edge** of the door, some $3x^2$.

| part | state | cost |
| --- | --- | --- |
| seal | torn | $5 |
| glass | marked | $10 |

- first, switch it off
- then pull the `seal` out

```python
def step_{n}(x: int) -> int:
    return x + {n}  # one more
```

$$\\int_0^1 x\\,dx = \\frac{{1}}{{2}}$$

"""
LONG = "".join(PART.format(n=n) for n in range(1, 216))
"""About 80,000 characters, which is what 20,000 tokens come to."""


class Turns:
    """Measures every turn of Qt's loop in milliseconds of this thread: what else runs here does not count."""

    def __init__(self) -> None:
        self.took: list[float] = []

    def spin(self, seconds: float = 0.0, until=lambda: False) -> None:
        end = time.perf_counter() + seconds
        while True:
            begun = time.thread_time()
            QApplication.processEvents()
            self.took.append((time.thread_time() - begun) * 1e3)
            if until() or (seconds and time.perf_counter() > end):
                return

    def told(self, what: str) -> float:
        """The longest turn, printed with the usual one."""
        print(f"\n{what}: {len(self.took)} turns, median {median(self.took):.1f} ms, longest {max(self.took):.1f} ms")
        return max(self.took)


def quiet(transcript: Transcript):
    """Whether nothing is left to draw, formulas included."""
    return lambda: growth.settled(transcript)


def write(made, turn: Turn, text: str, pieces: int, size: int = 24) -> list[float]:
    """Stream some pieces, drawing after each; returns what each took, in milliseconds."""
    took = []
    for start in range(0, pieces * size, size):
        turn.text += text[start : start + size]
        begun = time.thread_time()
        made.window.page.transcript._touch(turn.id)
        made.window.page.transcript._draw()
        QApplication.processEvents()
        took.append((time.thread_time() - begun) * 1e3)
    return took


def test_an_output_costs_the_same_early_and_late_in_a_long_answer(stage, qtbot) -> None:
    assert len(LONG) > 75_000
    made = stage("Kitchen")
    turn = made.chat.begin()
    write(made, turn, LONG, 40)  # imports and first formulas
    early = write(made, turn, LONG, 80)
    made.chat.write(turn, LONG)
    qtbot.waitUntil(quiet(made.window.page.transcript), timeout=30_000)
    late = write(made, turn, LONG, 80)
    print(f"\nAn output: early {median(early):.1f} ms, after {len(LONG):,} characters {median(late):.1f} ms")
    assert median(late) < 2 * median(early) + 2


def test_the_end_of_a_long_answer_draws_nothing_again_but_its_last_block(stage, qtbot, monkeypatch) -> None:
    made = stage("Kitchen")
    turn = made.chat.begin()
    made.chat.write(turn, LONG + "The end")
    qtbot.waitUntil(quiet(made.window.page.transcript), timeout=30_000)
    drawn = []
    plain = TextView.setHtml
    monkeypatch.setattr(TextView, "setHtml", lambda view, html: (drawn.append(len(html)), plain(view, html))[1])
    made.chat.end(turn)
    qtbot.waitUntil(quiet(made.window.page.transcript), timeout=30_000)
    assert sum(drawn) < 500


def test_a_long_chat_opens_slice_by_slice(stage, qtbot) -> None:
    made = stage("Kitchen", "Long")
    long = made.library.tabs[1]
    turns = [Turn(role="user" if n % 2 == 0 else "assistant", text=PART.format(n=n)) for n in range(500)]
    long.turns = [*turns, Turn(role="user", text="More"), Turn(role="assistant", text=LONG)]
    made.library.select(long.id)
    transcript, turns_of_loop = made.window.page.transcript, Turns()
    turns_of_loop.spin(60, until=quiet(transcript))
    assert "".join(piece.text for piece in answers(transcript)[0]._prose._sealed).startswith(PART.format(n=1))
    assert transcript.verticalScrollBar().value() == transcript.verticalScrollBar().maximum()
    assert turns_of_loop.told("Opening 502 messages, the last of 20,000 tokens") < 250


def test_the_theme_changes_slice_by_slice(stage, qtbot) -> None:
    made = stage("Kitchen")
    made.chat.add(Turn(role="user", text="All of it"))
    made.chat.add(Turn(role="assistant", text=LONG))
    transcript, loop = made.window.page.transcript, Turns()
    loop.spin(60, until=quiet(transcript))
    QThreadPool.globalInstance().waitForDone()
    loop.spin(60, until=quiet(transcript))
    seen = [view for view in answers(transcript)[0].views() if not view.visibleRegion().isEmpty()]
    drawn: list[TextView] = []
    plain = TextView._render
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TextView, "_render", lambda view: (drawn.append(view), plain(view))[1])
        begun = time.thread_time()
        theme.apply("dark")
        took = (time.thread_time() - begun) * 1e3
        assert drawn
        assert set(drawn) <= set(seen)
        loop.took.clear()
        loop.spin(60, until=quiet(transcript))
        assert set(drawn) == set(answers(transcript)[0].views())
    print(f"\nAt once: {took:.1f} ms for {len(seen)} pieces that are seen, of {len(drawn)}")
    assert loop.told("The rest of a theme's change") < 250


@pytest.mark.parametrize("lines", [400, 4000])
def test_closing_a_long_code_block_draws_nothing_again(stage, qtbot, monkeypatch, lines: int) -> None:
    made = stage("Kitchen")
    turn = made.chat.begin("Look:\n\n```python\n" + "x = 1  # one\n" * lines)
    qtbot.waitUntil(quiet(made.window.page.transcript), timeout=30_000)
    drawn = []
    monkeypatch.setattr(TextView, "setHtml", lambda view, html: drawn.append(html))
    took = write(made, turn, "```\n\nDone, as you see.", 2, size=5)
    print(f"\nClosing {lines} lines of code: {max(took):.1f} ms")
    assert all(len(html) < 100 for html in drawn)
    for one, two in itertools.pairwise(answers(made.window.page.transcript)[0].views()):
        assert one is not two


def test_an_endless_list_costs_the_same_early_and_late(stage, qtbot) -> None:
    made = stage("Kitchen")
    turn = made.chat.begin("Items:\n\n")
    items = "".join(f"{n}. Item number {n} with **some** words and `code`\n" for n in range(1, 401))
    write(made, turn, items, 40)
    early = write(made, turn, items[960:], 60)
    turn.text = f"Items:\n\n{items}"
    write(made, turn, "401. More\n", 1)
    qtbot.waitUntil(quiet(made.window.page.transcript), timeout=30_000)
    late = write(made, turn, "".join(f"{n}. Item number {n} with some words\n" for n in range(402, 450)), 60)
    print(f"\nAn output into a list: early {median(early):.1f} ms, after 400 items {median(late):.1f} ms")
    assert median(late) < 2 * median(early) + 2


def test_three_tabs_that_stream_long_answers_leave_the_loop_free(stage, qtbot) -> None:
    made = stage("Kitchen", "Garden", "Street")
    live = [(chat, chat.begin(LONG)) for chat in made.library.tabs]
    qtbot.waitUntil(quiet(made.window.page.transcript), timeout=30_000)
    loop, next_at, written = Turns(), time.perf_counter(), 0
    ends = next_at + 2.0
    while time.perf_counter() < ends:
        while next_at < time.perf_counter():  # 200 tokens a second in each
            for chat, turn in live:
                chat.write(turn, LONG[written : written + 4])
            written += 4
            next_at += 1 / 200
        loop.spin(0.002)
    assert written > 1200
    shown = answers(made.window.page.transcript)[0]
    assert shown.turn.text.endswith(LONG[written - 4 : written])
    assert loop.told(f"Three tabs at 200 tokens/s, {written // 4} tokens each") < 100


@pytest.mark.parametrize("kind", growth.KINDS)
def test_an_update_costs_the_same_however_long_the_answer_is(qapp, kind: str) -> None:
    text = growth.KINDS[kind]()
    costs = {length: growth.cost(text, length) for length in growth.LENGTHS}
    told = ", ".join(f"{cost:.1f} ms after {length:,} characters" for length, cost in costs.items())
    print(f"\nAn update of {kind}: {told}")
    first, *later = costs.values()
    assert max(later) < 2 * first + 6
