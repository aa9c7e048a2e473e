from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from PySide6.QtCore import Qt, QThreadPool
from PySide6.QtGui import QColor, QFontMetrics, QTextCursor
from PySide6.QtWidgets import QWidget

from app.views import latex, markdown
from app.views.latex import Formula, typesetter
from app.views.text import TextView
from app.views.theme import DARK, LIGHT, theme, ui_font


def found(text: str, *, finished: bool = True) -> list[tuple[str, bool]]:
    drawn = markdown.render(text, LIGHT, finished=finished).formulas
    return [(each.formula.source, each.formula.display) for each in drawn]


@pytest.mark.parametrize(
    ("text", "formulas"),
    [
        ("Let $x$ be", [("x", False)]),
        ("so $a_1 * b_1 * c$ and \\(y^2\\).", [("a_1 * b_1 * c", False), ("y^2", False)]),
        ("in words $$e=1$$ here", [("e=1", True)]),
        ("in words \\[e=1\\] here", [("e=1", True)]),
        ("$$\na\n=\n- b\n$$", [("a\n=\n- b", True)]),
        (
            "\\[\n\\begin{aligned} a &= b \\\\ # c \\end{aligned}\n\\]",
            [("\\begin{aligned} a &= b \\\\ # c \\end{aligned}", True)],
        ),
        ("It is\n$$x$$\nhere", [("x", True)]),
        ("- item $x$\n\n  $$y$$\n", [("x", False), ("y", True)]),
        ("> $$\n> z\n> $$", [("z", True)]),
        ("| a |\n| - |\n| $x$ |", [("x", False)]),
        ("the $n$th of $5$", [("n", False), ("5", False)]),
        ("$2 \\text{ apples and pears}$", [("2 \\text{ apples and pears}", False)]),
        ("$10\\%$ and $\\$5$", [("10\\%", False), ("\\$5", False)]),
    ],
)
def test_formulas_are_found(text: str, formulas: list[tuple[str, bool]], qapp) -> None:
    assert found(text) == formulas


@pytest.mark.parametrize(
    "text",
    [
        "It costs $5 and $10.",
        "between $5-$10 a day",
        "from $1,000 to $2,000, or $3.50",
        "I have $5, she has 10$ left",
        "US$5 or A$6",
        "$20k to US$",
        "Use `$x$` and\n\n    $y$\n\n```\n$z$ $$w$$\n```",
        "run $HOME/bin and $PATH/lib",
        "echo $HOME/$USER",
        "a \\$x\\$ b",
        "$ x $",
        "$$",
        "$$ is money",
        "$$\n\nx$$",
        "100$",
        "\\\\(x\\\\)",
    ],
)
def test_money_code_and_lone_signs_stay_text(text: str, qapp) -> None:
    rendered = markdown.render(text, LIGHT)
    assert rendered.formulas == ()
    assert "formula" not in rendered.html


def test_a_formula_is_set_only_when_its_block_is_finished(qapp) -> None:
    assert found("It is $x$ so far", finished=False) == []
    assert "<code>x</code>" in markdown.render("It is $x$ so far", LIGHT, finished=False).html
    assert found("$$\nx\n$$", finished=False) == [("x", True)]
    for end in range(2, len("$$\na\n= b")):
        html = markdown.render("$$\na\n= b"[:end], LIGHT, finished=False).html
        assert "<h1>" not in html
        assert "<img" not in html


def test_blocks_with_formulas_end_where_they_end_however_the_text_arrives(qapp) -> None:
    text = "One $a$.\n\n$$\nx\n=\ny\n$$\n\nTwo\n\\[\nz\n\\]\nthree.\n"
    for step in (1, 5):
        settled, parts = 0, []
        for end in range(step, len(text) + step, step):
            cut = markdown.cut(text[settled:end])
            parts += cut.finished
            settled += cut.offset
        parts.append(markdown.Piece(text[settled:]))
        assert "".join(part.text for part in parts) == text
        drawn = [each for part in parts for each in found(part.text)]
        assert drawn == [("a", False), ("x\n=\ny", True), ("z", True)]


def settled(view: TextView, qtbot) -> None:
    """Wait until the text's formulas are set, and draw it as the transcript would."""
    QThreadPool.globalInstance().waitForDone()
    qtbot.waitUntil(lambda: not typesetter._queue)
    view.restyle()


@pytest.fixture
def view(qtbot) -> Iterator[TextView]:
    host = QWidget()
    qtbot.addWidget(host)
    host.resize(700, 400)
    made = TextView("Answer text", host)
    made.resize(700, 100)
    host.show()
    yield made
    host.close()


def ink_of(view: TextView) -> set[str]:
    """Names of the colours of the pixels of the text's pictures that are solid."""
    found = set()
    for drawn in view._rendered.formulas:
        assert drawn.picture is not None
        image = drawn.picture.image(2.0)
        for x, y in itertools.product(range(image.width()), range(image.height())):
            colour = QColor.fromRgba(image.pixel(x, y))
            if colour.alpha() == 255:
                found.add(colour.name())
    return found


def test_a_formula_shows_its_source_until_it_is_set_and_follows_the_theme(view: TextView, qtbot) -> None:
    theme.apply("light")
    view.show_markdown(markdown.Piece("So $\\frac{a}{2}+\\delta$ it is."))
    if view._rendered.formulas[0].picture is None:
        assert view.toPlainText() == "So \\frac{a}{2}+\\delta it is."
        assert view.awaits(Formula("\\frac{a}{2}+\\delta", False))
    settled(view, qtbot)
    assert view.toPlainText() == "So \ufffc it is."
    assert ink_of(view) == {LIGHT.text}
    height = view._rendered.formulas[0].picture.height
    theme.apply("dark")
    view.restyle()
    assert ink_of(view) == {DARK.text}
    theme.resize(150)
    view.restyle()
    assert view._rendered.formulas[0].picture.height > 1.3 * height
    theme.resize(100)
    theme.apply("light")


@pytest.mark.parametrize("source", ["\\frac{1}{", "\\nosuchcommand x", "{" * 400, "\\begin{pmatrix} 1"])
def test_what_cannot_be_set_shows_its_source(source: str, view: TextView, qtbot) -> None:
    view.show_markdown(markdown.Piece(f"Look: ${source}$"))
    settled(view, qtbot)
    assert view.toPlainText() == f"Look: {source}"
    families = view.document().find(source[-3:]).charFormat().fontFamilies()
    assert families == [markdown.code_family()]


def test_an_endless_formula_is_not_even_tried(view: TextView, qtbot) -> None:
    source = "x" * (latex.MAX_CHARS + 1)
    view.show_markdown(markdown.Piece(f"${source}$"))
    assert not typesetter._queue
    assert view.toPlainText() == source


def test_baselines_meet(qtbot, qapp) -> None:
    """The box's middle lies half an x's height above the line: what is above the baseline is the formula's ascent."""
    formula = Formula("\\sum_{i=0}^{n} q", True)
    qtbot.waitUntil(lambda: typesetter.setting(formula) is not None)
    setting = typesetter.setting(formula)
    font = ui_font(15)
    made = latex.picture(setting, font, "#000000", 700, inline=True)
    above = (made.height + QFontMetrics(font).xHeight() / 2) / 2  # what Qt puts above the baseline
    assert made.top + setting.ascent * made.em == pytest.approx(above, abs=0.01)
    assert made.top >= 0
    assert made.top + (setting.ascent + setting.descent) * made.em <= made.height + 0.01


def test_a_wide_formula_shrinks_to_the_column(view: TextView, qtbot) -> None:
    view.show_markdown(markdown.Piece("$$" + "+".join(f"x_{{{i}}}^2" for i in range(40)) + "$$"))
    settled(view, qtbot)
    assert view._rendered.formulas[0].picture.width <= 700
    view.resize(300, 100)
    qtbot.waitUntil(lambda: view._rendered.formulas[0].picture.width <= 300)


def test_copying_gives_the_source_between_its_signs(view: TextView, qtbot) -> None:
    view.show_markdown(markdown.Piece("Is \\(x\\) or $y$?\n\n$$z$$"))
    settled(view, qtbot)
    view.selectAll()
    assert view.createMimeDataFromSelection().text() == "Is \\(x\\) or $y$?\n$$z$$"
    cursor = view.textCursor()
    cursor.setPosition(4)
    cursor.movePosition(QTextCursor.MoveOperation.End, QTextCursor.MoveMode.KeepAnchor)
    view.setTextCursor(cursor)
    assert view.createMimeDataFromSelection().text() == " or $y$?\n$$z$$"
    cursor.setPosition(2)
    view.setTextCursor(cursor)
    assert Qt.TextInteractionFlag.TextSelectableByMouse in view.textInteractionFlags()


def test_nothing_but_formulas_is_ever_loaded(view: TextView) -> None:
    for name in ("file:///etc/passwd", "http://example.org/x.png", "formula:7", "formula:x", "formula:-1"):
        assert view.loadResource(2, name) is None
