from __future__ import annotations

import pytest
from PySide6.QtCore import QThreadPool

from app.views import code, data_table, markdown
from app.views.markdown import Piece
from app.views.theme import DARK, LIGHT

TEXT = """# Title

First *words* with `code`.

- one
- two

  still two

| a | b |
| - | - |
| 1 | 2 |

```python
def f():

    return 1
```

> quoted

1. first
2. second

Last words
"""


def test_raw_html_and_pictures_are_only_words(qapp) -> None:
    html = markdown.render("<img src=x onerror=y> ![a cat](http://example.org/cat.png) <b>x</b>", LIGHT).html
    assert "<img" not in html
    assert "example.org" not in html
    assert "a cat" in html
    assert "&lt;b&gt;" in html


@pytest.mark.parametrize("target", ["javascript:alert(1)", "file:///etc/passwd", "data:text/html,x"])
def test_dangerous_links_are_no_links(target: str, qapp) -> None:
    assert "href" not in markdown.render(f"[press]({target})", LIGHT).html


def test_every_code_block_can_be_copied(qapp) -> None:
    rendered = markdown.render("```\none\n```\n\n    two\n\n```py\nthree\n", LIGHT)
    assert [block.text for block in rendered.blocks] == ["one", "two", "three"]
    for number in range(3):
        assert f'href="copy:{number}"' in rendered.html


def test_code_gets_its_colours_only_when_its_fence_is_closed(qapp, qtbot) -> None:
    source = "```python\nreturn 'colours'\n"
    assert LIGHT.keyword not in markdown.render(source, LIGHT).html
    QThreadPool.globalInstance().waitForDone()
    assert code.highlighter.spans(code.Block("", "return 'colours'")) is None
    with qtbot.waitSignal(code.highlighter.ready) as ready:
        markdown.render(source + "```", LIGHT)
    assert ready.args == [code.Block("python", "return 'colours'")]
    assert LIGHT.keyword in markdown.render(source + "```", LIGHT).html
    assert DARK.keyword in markdown.render(source + "```", DARK).html


def test_code_in_an_unknown_language_stays_plain_and_whole(qapp) -> None:
    source = "```nosuchlanguage\na < b & c\n```"
    markdown.render(source, LIGHT)
    QThreadPool.globalInstance().waitForDone()
    assert "a &lt; b &amp; c" in markdown.render(source, LIGHT).html


def test_colours_lose_no_character_of_the_code(qapp, qtbot) -> None:
    block = code.Block("python", "\n\n  x = 1  \n# end\n\n")
    with qtbot.waitSignal(code.highlighter.ready):
        code.highlighter.spans(block)
    spans = code.highlighter.spans(block)
    assert spans is not None
    assert "".join(text for _, text in spans) == block.text


def test_finished_blocks_keep_their_look_however_the_text_arrives(qapp) -> None:
    whole = markdown.render(TEXT, LIGHT).html
    for step in (1, 7):
        settled, finished = 0, []
        for end in range(step, len(TEXT) + step, step):
            found = markdown.cut(TEXT[settled:end])
            finished += found.finished
            settled += found.offset
        parts = [*finished, Piece(TEXT[settled:])]
        assert "".join(part.text for part in parts) == TEXT
        assert "".join(markdown.render(part, LIGHT).html for part in parts).replace("copy:0", "") == whole.replace(
            "copy:0", ""
        )
        assert len(parts) > 5


def test_pieces_of_a_long_text_are_bounded_and_complete() -> None:
    text = "\n\n".join(f"Paragraph {i} " + "word " * 30 for i in range(200))
    found = markdown.cut(text)
    pieces = markdown.join([*found.finished, Piece(text[found.offset :])])
    assert "".join(piece.text for piece in pieces) == text
    assert len(pieces) > 5
    assert max(len(piece.text) for piece in pieces) <= markdown.SEGMENT_CHARS


def test_code_that_has_colours_is_never_torn() -> None:
    text = "```\n" + "x = 1\n" * 1600 + "```\n"
    assert len(text) < code.MAX_CHARS
    assert markdown.cut(text) == markdown.Cut(0, ())


def test_very_long_code_goes_on_in_pieces_and_ends_with_the_last_one(qapp) -> None:
    text = "~~~~py\n" + "".join(f"x = {n}\n" for n in range(2000)) + "~~~~\n\nThat is it."
    found = markdown.cut(text)
    pieces = markdown.join([*found.finished, Piece(text[found.offset :], found.head)])
    assert "".join(piece.text for piece in pieces) == text
    assert [piece.head for piece in pieces] == ["", *["~~~~py\n"] * (len(pieces) - 1)]
    assert max(len(piece.text) for piece in pieces) <= markdown.SEGMENT_CHARS
    drawn = [markdown.render(piece, LIGHT) for piece in pieces]
    lines = [line for each in drawn for line in each.blocks[0].text.split("\n")]
    assert lines == [f"x = {n}" for n in range(2000)]
    assert [each.html.count("Copy") for each in drawn] == [1, *[0] * (len(pieces) - 1)]
    assert drawn[-1].html.rstrip().endswith("<p>That is it.</p>")


@pytest.mark.parametrize("marker", ["-", "{}."])
def test_the_items_of_a_long_list_are_finished_one_by_one(marker: str, qapp) -> None:
    items = [f"{marker.format(n)} Item {n} with some words\n    - below\n" for n in range(1, 101)]
    text = "".join(items) + f"{marker.format(101)} Ite"
    found = markdown.cut(text)
    assert [piece.text for piece in found.finished] == items
    assert text[found.offset :] == f"{marker.format(101)} Ite"
    if marker != "-":
        assert '<ol start="51">' in markdown.render("".join(items[50:60]), LIGHT).html


def test_a_list_that_cannot_go_on_elsewhere_and_a_short_one_stay_whole(qapp) -> None:
    for text in ("1. Each item says one\n" * 200, "- short\n- list\n- here"):
        assert markdown.cut(text) == markdown.Cut(0, ())


HEAD = "| part | state |\n| --- | --- |\n"


def test_the_rows_of_a_long_table_are_finished_one_by_one_and_know_their_head(qapp) -> None:
    rows = [f"| part {n} | *torn* at {n} |\n" for n in range(1, 101)]
    found = markdown.cut(f"See:\n\n{HEAD}{''.join(rows)}| par")
    see, first, *others = found.finished
    assert (see, first) == (Piece("See:\n\n"), Piece(HEAD + rows[0]))
    assert others == [Piece(row, HEAD) for row in rows[1:]]
    assert found.head == HEAD
    rest = markdown.cut("| part 101 | torn |\n\nThat is all, and so", found.head)
    assert rest == markdown.Cut(21, (Piece("| part 101 | torn |\n\n", HEAD),))
    drawn = markdown.render(others[0], LIGHT).html
    assert drawn.count("<tr>") == 1
    assert "<th" not in drawn
    assert "<em>torn</em> at 2" in drawn


def test_a_short_table_stays_whole(qapp) -> None:
    assert markdown.cut(HEAD + "| a | b |\n" * 20) == markdown.Cut(0, ())


def test_a_table_is_one_from_its_first_word_on_and_never_signs(qapp) -> None:
    whole = f"Look:\n\n{HEAD}| seal | torn |\n"
    for end in range(len("Look:\n\n| p"), len(whole) + 1):
        drawn = markdown.render(whole[:end], LIGHT, finished=False).html
        assert drawn.count("<table") == 1, whole[:end]
        assert "|" not in drawn, whole[:end]
        assert "---" not in drawn, whole[:end]


def test_a_row_is_one_from_its_first_word_on(qapp) -> None:
    for begun in ("|", "| ", "| | "):
        assert markdown.render(f"{HEAD}{begun}", LIGHT, finished=False).html.count("<tr>") == 1
        assert markdown.render(Piece(begun, HEAD), LIGHT, finished=False).html.count("<tr>") == 0
    for begun in ("| s", "| seal | to"):
        assert markdown.render(f"{HEAD}{begun}", LIGHT, finished=False).html.count("<tr>") == 2
        drawn = markdown.render(Piece(begun, HEAD), LIGHT, finished=False).html
        assert drawn.count("<tr>") == 1
        assert "---" not in drawn


@pytest.mark.parametrize("text", ["|x| is", "a | b", "```\n| a | b", f"{HEAD}| seal", "| a |\nb"])
def test_what_is_no_head_of_a_table_is_left_as_it_is(text: str) -> None:
    assert data_table.completed(text) == text


@pytest.mark.parametrize("step", [1, 5, 64])
def test_the_end_of_growing_code_is_found_however_it_arrives(step: int) -> None:
    text = "~~~~py\nx = 1\n~~~\n" + "y = 2\n" * 20 + "~~~~\nEnd"
    searched = 0
    for end in range(step, len(text) + step, step):
        place = markdown.code_end(text[:end], 0, searched)
        closed = "\n~~~~" in text[:end] and end >= len("~~~~py\n")
        assert (place not in (None, 0)) == closed, text[:end]
        if place is None:
            searched = text.rfind("\n", searched, end) + 1 or searched
