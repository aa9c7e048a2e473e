"""Markdown text to HTML that Qt's rich text draws well and that can carry nothing foreign."""

from __future__ import annotations

import re
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from PySide6.QtGui import QFont

from app.views import code, data_table, formulas, latex
from app.views.theme import COLUMN_PX, SMALL_PX, TEXT_PX, Tokens, code_family, line_height, ui_font

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

SEGMENT_CHARS = 2000
_TABLE_CHARS = 600
"""Drawing a table again costs several times as much as drawing words again."""
_OPENING = re.compile(r"(`{3,}|~{3,})[ \t]*([^\s`]*)[^`\n]*\n")
CODE_PX, CODE_TOP_PX, CODE_BOTTOM_PX = 12, 4, 12


@dataclass(frozen=True, slots=True)
class Look:
    """How a piece of text looks: its font, the name of its colour, the width it has, in px."""

    font: QFont
    ink: str = "text"
    room: int = COLUMN_PX


@dataclass(frozen=True, slots=True)
class Drawn:
    """A formula in the text: what it says and, once it is set in type, its picture."""

    formula: latex.Formula
    markup: str
    picture: latex.Picture | None


@dataclass(frozen=True, slots=True)
class Rendered:
    """HTML and what is in it that is more than text.

    Attributes:
        blocks: code; a link ``copy:N`` stands for copying the N-th.
        formulas: in order; a picture ``formula:N`` stands for the N-th.
    """

    html: str
    blocks: tuple[code.Block, ...]
    formulas: tuple[Drawn, ...] = ()


@dataclass(frozen=True, slots=True)
class Piece:
    """Some Markdown; ``head``: first lines of the table or the code that it begins inside of, if it does."""

    text: str
    head: str = ""

    @property
    def inside_code(self) -> bool:
        """Whether it begins with further lines of code."""
        return self.head.lstrip().startswith(("```", "~~~"))


@dataclass(frozen=True, slots=True)
class Cut:
    """Where finished text ends: characters before ``offset`` will not change their look when text is added.

    Attributes:
        head: of the table or the code that the rest goes on with.
    """

    offset: int
    finished: tuple[Piece, ...]
    head: str = ""


def render(text: str | Piece, tokens: Tokens, look: Look | None = None, *, finished: bool = True) -> Rendered:
    """One piece of Markdown; raw HTML in it is shown as text, pictures become their description.

    Formulas are set in type once the text is ``finished``; while it grows, what looks like one may still become money.
    """
    blocks: list[code.Block] = []
    drawn: list[Drawn] = []
    look = look or Look(ui_font(TEXT_PX))
    piece = text if isinstance(text, Piece) else Piece(text)
    source = piece.head + piece.text
    source = source if finished else data_table.completed(source)
    env = {"blocks": blocks, "tokens": tokens, "lines": source.split("\n")}
    env |= {"look": look, "formulas": drawn, "finished": finished, "goes_on": piece.inside_code}
    parser = _parser()
    stream = parser.parse(source, env)
    if piece.head and not piece.inside_code:
        del stream[_place(stream, "thead_open") : _place(stream, "thead_close") + 1]
    return Rendered(parser.renderer.render(stream, parser.options, env), tuple(blocks), tuple(drawn))


def _place(stream: Sequence[Token], kind: str) -> int:
    return next(index for index, token in enumerate(stream) if token.type == kind)


def join(blocks: Sequence[Piece], limit: int = SEGMENT_CHARS) -> list[Piece]:
    """Blocks joined to pieces of at most ``limit`` characters each, unless one block alone is longer."""
    pieces: list[Piece] = []
    for block in blocks:
        if pieces and len(pieces[-1].text) + len(block.text) <= limit:
            pieces[-1] = Piece(pieces[-1].text + block.text, pieces[-1].head)
        else:
            pieces.append(block)
    return pieces


def cut(text: str, head: str = "") -> Cut:
    """Separate finished top-level blocks from the last one, which may still grow.

    Of a long list the last item may, of a long table the last row, of very long code the last line.

    Args:
        text: Markdown.
        head: of the table or the code that it goes on with.
    """
    starts = _starts(head + text, goes_on=bool(head))
    begins = [(0, head), *((start - len(head), of) for start, of in starts if start > len(head))]
    ends = [start for start, _ in begins[1:]]
    finished = (Piece(text[start:end], of) for (start, of), end in zip(begins, ends, strict=False))
    return Cut(begins[-1][0], tuple(finished), begins[-1][1])


@dataclass(frozen=True, slots=True)
class Growth:
    """How a piece that is nothing but one code block has grown; ``closed``: it has come to its end."""

    block: code.Block
    added: str
    closed: bool


def code_growth(old: Piece, new: Piece, drawn: Sequence[code.Block]) -> Growth | None:
    """What was added, if both are nothing but the same code block, which was still open before.

    Args:
        old: what was shown.
        new: what is to be shown.
        drawn: the code in what was shown.
    """
    before, after = old.head + old.text, new.head + new.text
    opening = _OPENING.match(before)
    if opening is None or old.head != new.head or not after.startswith(before):
        return None
    fence, language, start = opening[1], opening[2], opening.end()
    shown = before[start:].removesuffix("\n")
    closing = _closing(fence)
    # Only what is new, and the line it goes on with, can hold the end: a long block is not searched again and again.
    end = closing.search(after, max(start, before.rfind("\n") + 1))
    if not shown or [block.text for block in drawn] != [shown] or (end and after[end.end() :].strip()):
        return None  # it had ended, or more is there than code
    grown = after[start : end.start() if end else len(after)].removesuffix("\n")
    if not grown.startswith(shown):
        return None  # the beginning of the closing fence was shown as code
    return Growth(code.Block(language, grown), grown[len(shown) :], end is not None)


def code_end(text: str, start: int, searched: int) -> int | None:
    """Where the block of code that begins at ``start`` ends, if one does; None: it has not ended yet.

    Args:
        text: Markdown.
        start: where a block begins, of code or not; then it ends where it begins.
        searched: before the line that begins here its end has been looked for in vain.
    """
    opening = _OPENING.match(text, start)
    if opening is None:
        return start
    end = _closing(opening[1]).search(text, max(opening.end(), searched))
    return None if end is None else end.end()


def _closing(fence: str) -> re.Pattern[str]:
    return re.compile(rf"^ {{0,3}}{fence}{fence[0]}*[ \t]*$", re.MULTILINE)


def style(tokens: Tokens, font: QFont, ink: str = "text") -> str:
    """The default style sheet of a message's document, whose sizes are those of its font."""
    height, size = line_height(font), font.pixelSize()
    mono, bar = _part(size, UI_CODE_PX), max(SMALL_PX, _part(size, SMALL_PX + 1))
    return f"""
        body, p, li, td, th, h1, h2, h3, h4, h5, h6 {{ color: {getattr(tokens, ink)}; }}
        p, li {{ line-height: {height}%; }}
        p, pre, ul, ol, blockquote {{ margin: 0 0 8px 0; }}
        ul ul, ul ol, ol ul, ol ol {{ margin: 0; }}
        li p {{ margin: 0 0 4px 0; }}
        h1, h2, h3, h4, h5, h6 {{ font-size: {size}px; font-weight: 600; margin: 8px 0 8px 0; }}
        h1 {{ font-size: {_part(size, 20)}px; }}
        h2 {{ font-size: {_part(size, 17)}px; }}
        blockquote {{ margin-left: 16px; color: {tokens.muted}; }}
        a {{ color: {tokens.accent}; text-decoration: underline; }}
        code {{ font-family: '{code_family()}'; font-size: {mono}px; }}
        pre {{ font-family: '{code_family()}'; font-size: {mono}px; line-height: 130%;
               white-space: pre-wrap; margin: 0; }}
        table.code {{ margin: {CODE_TOP_PX}px 0 {CODE_BOTTOM_PX}px 0; }}
        table.data {{ margin: 4px 0 12px 0; }}
        .bar {{ color: {tokens.muted}; font-size: {bar}px; line-height: 100%; }}
        p.formula {{ line-height: 100%; margin: 8px 0 16px 0; }}
        th {{ font-weight: 600; text-align: left; border-bottom: 1px solid {tokens.control_line}; }}
        td {{ border-bottom: 1px solid {tokens.line}; }}
        th, td {{ padding: 6px 16px 6px 0; }}
    """


UI_CODE_PX = 13


def _part(size: int, px: int) -> int:
    """A size beside text of this size, where it is ``px`` beside text as designed."""
    return round(size * px / TEXT_PX)


def _starts(text: str, *, goes_on: bool) -> list[tuple[int, str]]:
    """Offsets at which blocks begin, and items, rows and lines of long ones; rows and lines each with their head."""
    offsets = [0, *(found.end() for found in re.finditer("\n", text)), len(text)]
    found = _parser().parse(text)
    blocks = [token for token in found if token.level == 0 and token.map and token.nesting >= 0]
    starts: list[tuple[int, str]] = []
    for token, after in zip_longest(blocks, blocks[1:]):
        first, last = token.map or (0, 0)
        begin, end = offsets[first], offsets[after.map[0]] if after and after.map else len(text)
        starts.append((begin, ""))
        if token.type == "table_open" and end - begin > (SEGMENT_CHARS if after else _TABLE_CHARS):
            head = text[begin : offsets[first + 2]]
            starts += [(offsets[line], head) for line in range(first + 3, last)]
        elif token.type == "fence" and end - begin > (SEGMENT_CHARS if goes_on and not begin else code.MAX_CHARS):
            ended = _closed(token, text.split("\n"))
            starts += [(offsets[line], text[begin : offsets[first + 1]]) for line in range(first + 2, last - ended)]
        elif after is None and end - begin > SEGMENT_CHARS:
            starts += [(offsets[line], "") for line in _items(token, found)]
    return starts


def _items(block: Token, found: Sequence[Token]) -> list[int]:
    """Lines at which the items of the last block begin, if it is a list that can go on in a piece of its own there."""
    items = [token for token in found[found.index(block) :] if token.type == "list_item_open" and token.level == 1]
    first = int(items[0].info) if items and items[0].info else None
    # Where a model numbers every item 1, a new piece would begin to count again.
    numbered = (item for n, item in enumerate(items) if first is None or int(item.info) == first + n)
    return [item.map[0] for item in numbered if item.map and item is not items[0]]


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    # Imported at first use: it takes 80 ms, which the first paint does not wait for.
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    parser.add_render_rule("fence", _fence)
    parser.add_render_rule("code_block", _fence)
    parser.add_render_rule("code_inline", _code_inline)
    parser.add_render_rule("image", _image)
    parser.add_render_rule("table_open", _table_open)
    parser.add_render_rule("table_close", _table_close)
    parser.add_render_rule("hr", _rule)
    parser.add_render_rule("s_open", _strike)
    formulas.install(parser)
    for kind in (formulas.INLINE, formulas.BLOCK, formulas.OPEN):
        parser.add_render_rule(kind, _formula)
    return parser


def warm_up() -> None:
    """Import what rendering needs; called off the GUI thread once the window is painted."""
    _parser().render("*warm*")
    code.warm_up()


def _fence(_: Any, stream: Sequence[Token], index: int, __: Any, env: MutableMapping[str, Any]) -> str:
    token = stream[index]
    language = token.info.split()[0] if token.info.strip() else ""
    block = code.Block(language, token.content.removesuffix("\n"))
    env["blocks"].append(block)
    goes_on = env["goes_on"] and len(env["blocks"]) == 1
    closed = token.type == "code_block" or (_closed(token, env["lines"]) and not goes_on)
    body = code.html(block, env["tokens"]) if closed else escape(block.text)
    link = f'<a href="copy:{len(env["blocks"]) - 1}" style="text-decoration:none">Copy</a>'
    head = f'<td class="bar">{escape(language) or "code"}</td><td class="bar" align="right">{link}</td>'
    # A one-column table gives code its own padded place; the text view paints the rounded surface behind it.
    bar = f'<table width="100%" cellpadding="0" cellspacing="0" class="head"><tr>{_plain(head)}</tr></table>'
    top, margin, bar = (0, 0, "") if goes_on else (CODE_PX, CODE_TOP_PX, bar)
    return (
        f'<table width="100%" cellspacing="0" class="code" style="margin-top:{margin}px">'
        f'<tr><td style="border:none; padding:{top}px {CODE_PX}px {CODE_PX}px {CODE_PX}px">'
        f"{bar}<pre>{body}</pre></td></tr></table>"
    )


def _plain(cells: str) -> str:
    return cells.replace("<td", '<td style="border:none; padding:0 0 8px 0;"')


def _closed(token: Token, lines: Sequence[str]) -> bool:
    if not token.map or token.map[1] - token.map[0] < 2:
        return False
    last = lines[min(token.map[1], len(lines)) - 1].strip(" >\t\r")
    return last.startswith(token.markup) and not last.strip(token.markup[0])


def _code_inline(_: Any, stream: Sequence[Token], index: int, __: Any, env: MutableMapping[str, Any]) -> str:
    colours: Tokens | None = env["tokens"]
    surface = f' style="background-color:{colours.code}"' if colours else ""
    return f"<code{surface}>{escape(stream[index].content)}</code>"


def _formula(_: Any, stream: Sequence[Token], index: int, __: Any, env: MutableMapping[str, Any]) -> str:
    """A formula as a picture once it is set, as its source in the code's font until then or for good."""
    token, look = stream[index], env["look"]
    inline = token.type == formulas.INLINE
    formula = latex.Formula(token.content, token.info == "display" or not inline)
    settles = token.type == formulas.BLOCK or (inline and env["finished"])
    setting = latex.typesetter.setting(formula) if settles else None
    colour = getattr(env["tokens"], look.ink)
    made = None if setting is None else latex.picture(setting, look.font, colour, look.room, inline=inline)
    if settles:
        env["formulas"].append(Drawn(formula, token.markup, made))
    if made is None:
        drawn = f"<code>{escape(formula.source).replace(chr(10), '<br/>')}</code>"
    else:
        # The name stands for all that the picture depends on: documents keep pictures by name.
        name = f"formula:{len(env['formulas']) - 1}#{hash(made):x}"
        drawn = f'<img src="{name}" width="{made.width}" height="{made.height}" style="vertical-align:middle"/>'
    return drawn if inline else f'<p class="formula" align="center">{drawn}{escape(token.info)}</p>\n'


def _image(_: Any, stream: Sequence[Token], index: int, __: Any, ___: Any) -> str:
    # An answer must not make the app fetch anything, so its pictures stay words.
    return f"<i>{escape(stream[index].content or 'picture')}</i>"


def _table_open(*_: Any) -> str:
    return '<table class="data" cellspacing="0" style="border-collapse:collapse">'


def _table_close(*_: Any) -> str:
    return "</table>"


def _rule(*_: Any) -> str:
    return "<hr/>"


def _strike(*_: Any) -> str:
    return "<s>"
