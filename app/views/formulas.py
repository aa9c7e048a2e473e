"""Formulas in Markdown: what lies between dollar signs or LaTeX's brackets and is no money."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline

INLINE, BLOCK, OPEN = "formula", "formula_block", "formula_open"
"""Kinds of tokens; ``content`` is the source, ``info`` "display" or "", and of a block what follows it on its line. An
open one has no end yet, while the text grows."""
_BRACKETS = {"$$": "$$", "\\[": "\\]", "$": "$", "\\(": "\\)"}
_DISPLAY = ("$$", "\\[")
_AMOUNT = re.compile(r"\d[\d.,]*[kKmMbB]?(?=\s|[a-zA-Z]{2,}|$)")
_WORDS = re.compile(r"(?<![\\a-zA-Z])[a-zA-Z]{2,}\s+[a-zA-Z]+|\s[a-zA-Z]{2,}\s")
_COMMANDS = re.compile(r"\\[a-zA-Z]+\s*(\{[^{}]*\})?")
_AFTER = re.compile(r"[.,;:!?)]*\s*$")


def install(parser: MarkdownIt) -> None:
    """Teach a parser formulas."""
    parser.inline.ruler.before("escape", INLINE, _inline)
    parser.block.ruler.before("fence", BLOCK, _block, {"alt": ["paragraph", "reference", "blockquote", "list"]})


def _inline(state: StateInline, silent: bool) -> bool:
    opening = _opening(state.src, state.pos)
    if not opening:
        return False
    start = state.pos + len(opening)
    end = _end(state.src, start, state.posMax, opening)
    if end < 0:
        return False
    if not silent:
        token = state.push(INLINE, "", 0)
        token.content = state.src[start:end].strip()
        token.info = "display" if opening in _DISPLAY else ""
        token.markup = opening
    state.pos = end + len(_BRACKETS[opening])
    return True


def _opening(text: str, at: int) -> str:
    """The bracket that opens here; a dollar sign after a letter or digit is money."""
    found = next((bracket for bracket in _BRACKETS if text.startswith(bracket, at)), "")
    if found == "$" and at and text[at - 1].isalnum():
        return ""
    return found


def _end(text: str, start: int, limit: int, opening: str) -> int:
    """Where the formula's source ends; -1: it is none."""
    closing, at = _BRACKETS[opening], start
    while (at := text.find(closing, at, limit)) >= 0:
        if not _escaped(text, at, start):
            break
        at += 1
    if at <= start or not text[start:at].strip():
        return -1
    return at if opening != "$" or _formula(text, start, at, limit) else -1


def _escaped(text: str, at: int, start: int) -> bool:
    """Whether an odd number of backslashes stands before a sign."""
    before = text[start:at]
    return text[at] == "$" and (len(before) - len(before.rstrip("\\"))) % 2 == 1


def _formula(text: str, start: int, end: int, limit: int) -> bool:
    """Whether what lies between two single dollar signs is a formula and not text between two amounts of money."""
    source, after = text[start:end], text[end + 1 : end + 2] if end + 1 < limit else ""
    if source[0].isspace() or source[-1].isspace() or after.isdigit() or after.isupper() or "\n\n" in source:
        return False
    return not (_AMOUNT.match(source) and _WORDS.search(_COMMANDS.sub("", source)))


def _block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    line = _line(state, start)
    opening = next((bracket for bracket in _DISPLAY if line.startswith(bracket)), "")
    if not opening or state.is_code_block(start):
        return False
    found = _lines(state, start, end, line[len(opening) :], _BRACKETS[opening])
    if found is None:
        return False
    if not silent:
        source, after, following = found
        token = state.push(BLOCK if after is not None else OPEN, "", 0)
        token.content, token.info = source.strip(), after or ""
        token.map, token.markup, token.block = [start, following], opening, True
        state.line = following
    return True


def _lines(state: StateBlock, start: int, end: int, first: str, closing: str) -> tuple[str, str | None, int] | None:
    """Source, what follows on its last line (None: it has no end yet) and the next line; None: it is no formula."""
    source, line, at = "", first, start
    while True:
        before, closed, after = line.partition(closing)
        source += before
        if closed:
            # Words behind the end make it part of a sentence.
            whole = bool(_AFTER.match(after)) and bool(source.strip())
            return (source, after.strip(), at + 1) if whole else None
        source, at = source + "\n", at + 1
        if at >= end:
            grows = at >= state.lineMax and not state.env.get("finished")
            return (source, None, at) if grows else None
        if state.isEmpty(at) or state.sCount[at] < state.blkIndent:
            return None
        line = _line(state, at)


def _line(state: StateBlock, number: int) -> str:
    return state.src[state.bMarks[number] + state.tShift[number] : state.eMarks[number]]
