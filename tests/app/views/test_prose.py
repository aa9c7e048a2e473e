"""However an answer arrives, in the end the same words, tables and code stand there as when it comes at once."""

from __future__ import annotations

import time
from collections.abc import Iterable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PySide6.QtGui import QTextTable

from app.views.prose import Prose
from app.views.text import TextView

CODE = "```python\nprint('x')\n\n# end\n```"
BLOCKS = [
    CODE,
    "~~~~js\n```\nx\n~~~~",
    "```\nno language\n```",
    "```py\nunclosed",
    "    indented\n    code",
    "- one\n- two\n\n  ```c\n  int x;\n  ```\n- three",
    "Some plain words.",
    "**bold *both* `code`** and ~~struck~~",
    "# Head\nand words",
    "| a | b |\n|---|---|\n| 1 | `x` |\n| 3 | 4 |",
    "| no | table",
    "a | b\n--|--\n1 | 2",
    "> quoted\n> more",
    "$$\\frac{1}{2}$$",
    "costs $5 and $6, or \\(y\\)",
    "odd\x0bline\x0cbreaks\x85of\u2028all\u2029kinds",
    "a\r\nb\rc",
    "😀 é ﷽",
    "| a | b |\n|---|---|\n" + "".join(f"| row {row} | `{row}` |\n" for row in range(70)),
    "```\n" + "".join(f"{line:>70}\n\n" for line in range(180)) + "```",
    "".join(f"- item {item} of a long list\n" for item in range(90)),
]


def shown(qapp, text: str, ends: Iterable[int]) -> tuple[str, int, list[tuple[str, str]]]:
    """The words without their spacing, how many tables there are, and each code with its language."""
    prose = Prose("Answer text", lambda piece: piece)
    for end in ends:
        prose.show_text(text[:end], live=True)
    prose.show_text(text, live=False)
    while prose.waits:
        prose.work(time.perf_counter() + 1)
    words = "".join("".join(piece.toPlainText() for piece in prose.pieces).split())
    return words, sum(map(tables, prose.pieces)), [block for piece in prose.pieces for block in codes(piece)]


def tables(piece: TextView) -> int:
    frames = piece.document().rootFrame().childFrames()
    found = sum(isinstance(frame, QTextTable) and frame.columns() > 1 for frame in frames)
    goes_on = bool(piece._shown.head) and not piece.inside_code  # with the table of the piece before
    return found - goes_on


def codes(piece: TextView) -> list[tuple[str, str]]:
    """Each code as it would be copied, with its language."""
    begun = int(piece.inside_code)
    return [(block.language, piece._code(begun + number)) for number, block in enumerate(piece.blocks[begun:])]


@pytest.mark.parametrize(
    "text",
    [
        f"{CODE}\n\nWords.\n\n**More** words.\n\nLast words.",
        f"{CODE}\nWords.\n",
        "| no | table",
        "Words:\r\n\r\n- a\r\n- b\r\n\r\n```py\r\nx = 1\r\ny = 2\r\n```\r\nLast words.",
        "One\u2028line.\n\n# Head\n\n- a\n- b\n\n**bold**\n",
    ],
)
def test_what_comes_character_by_character_ends_as_what_comes_at_once(qapp, text: str) -> None:
    assert shown(qapp, text, range(1, len(text) + 1)) == shown(qapp, text, [])


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from(BLOCKS), min_size=1, max_size=6),
    st.sampled_from(["\n", "\n\n"]),
    st.lists(st.floats(0, 1), max_size=20),
)
def test_what_comes_in_any_parts_ends_as_what_comes_at_once(qapp, blocks, between, parts) -> None:
    text = between.join(blocks)
    assert shown(qapp, text, sorted(int(part * len(text)) for part in parts)) == shown(qapp, text, [])
