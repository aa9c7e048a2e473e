"""Full-text search in titles and messages; every function runs on the storage thread."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

_INDEXED = 3
"""The index holds runs of three characters; shorter words are looked for one text after the other."""
_BEFORE, _AFTER = 24, 120


@dataclass(frozen=True, slots=True)
class Found:
    """A conversation that holds all words: in its title, or in a turn, of which `snippet` shows a piece."""

    conversation_id: str
    turn_id: str | None = None
    snippet: str = ""


def search(connection: sqlite3.Connection, text: str, limit: int = 50) -> list[Found]:
    """Conversations with all words of `text` in their title or in one of their turns, newest first.

    Words are found inside longer ones; of several turns the newest is given.
    """
    words = text.split()
    if not words:
        return []
    parameters = {f"like{i}": f"%{_escaped(word)}%" for i, word in enumerate(words)}
    rows = connection.execute(
        f"""WITH hits AS (
            SELECT conversation_id, id AS turn_id, text, max(seq) FROM turns
            WHERE {_holds("text", "turn_index", words)} GROUP BY conversation_id
        ) SELECT conversations.id, turn_id, text FROM conversations LEFT JOIN hits ON conversation_id = conversations.id
        WHERE deleted_at IS NULL AND (turn_id IS NOT NULL OR {_holds("title", "title_index", words)})
        ORDER BY updated DESC, seq DESC LIMIT :limit""",
        parameters | {"match": _matching(words), "limit": limit},
    )
    return [Found(id, turn_id, snippet(text, words) if text else "") for id, turn_id, text in rows]


def snippet(text: str, words: Sequence[str]) -> str:
    """A piece of a text around the word that comes first, on one line."""
    lower = text.lower()
    places = [place for word in words if (place := lower.find(word.lower())) >= 0]
    start = max(0, min(places, default=0) - _BEFORE)
    if start > 0:
        start = text.find(" ", start, start + _BEFORE) + 1 or start
    piece = text[start : start + _AFTER]
    cut = "…" if start + _AFTER < len(text) else ""
    return ("…" if start else "") + " ".join(piece.split()) + cut


def _holds(column: str, index: str, words: Sequence[str]) -> str:
    """The condition that a column holds all words; long ones are looked up, short ones looked for."""
    short = [f"{column} LIKE :like{i} ESCAPE '\\'" for i, word in enumerate(words) if len(word) < _INDEXED]
    long = [f"seq IN (SELECT rowid FROM {index} WHERE {index} MATCH :match)"] if len(short) < len(words) else []
    return " AND ".join(long + short)


def _matching(words: Sequence[str]) -> str:
    return " AND ".join('"' + word.replace('"', '""') + '"' for word in words if len(word) >= _INDEXED)


def _escaped(word: str) -> str:
    return word.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_")
