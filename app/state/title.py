"""What a chat is called until a person names it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from app.state.turn import Turn

NEW_TITLE = "New chat"
_CHARACTERS = 48


def automatic_title(turns: Sequence[Turn]) -> str:
    """The first words of the first question, or the name of its first file."""
    first = next((turn for turn in turns if turn.role == "user"), None)
    return NEW_TITLE if first is None else first_words(first.text, [item.name for item in first.attachments])


def first_words(text: str, files: Sequence[str] = ()) -> str:
    """The beginning of a question, or the name of its first file."""
    text = " ".join(text.split())
    if not text:
        return files[0] if files else NEW_TITLE
    if len(text) <= _CHARACTERS:
        return text
    head, space, _ = text[: _CHARACTERS + 1].rpartition(" ")
    return (head if space else text[:_CHARACTERS]) + "…"


def numbered(title: str, taken: Collection[str]) -> str:
    """The title with the first number behind it, from 2, that nobody has."""
    number = 2
    while f"{title} ({number})" in taken:
        number += 1
    return f"{title} ({number})"
