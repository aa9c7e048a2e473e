"""Conversations, their turns, drafts and tabs as rows; every function runs on the storage thread."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Literal

Role = Literal["user", "assistant"]
_TURN_COLUMNS = "id, conversation_id, parent_id, role, text, reasoning, state, error, facts, created"
_ATTACHMENT_COLUMNS = "id, kind, name, digest, file, size, width, height, note, details"


@dataclass(frozen=True, slots=True)
class AttachmentRecord:
    """Media of a turn or draft; `digest` names the content, `file` our copy in the media folder, `details` is JSON."""

    id: str
    kind: str
    name: str
    digest: str
    file: str
    size: int
    width: int
    height: int
    note: str | None
    details: str = "{}"


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """One message; siblings (same `parent_id`) are variants of each other. `facts` is JSON or None."""

    id: str
    conversation_id: str
    parent_id: str | None
    role: Role
    text: str
    reasoning: str
    state: str
    error: str | None
    facts: str | None
    created: float
    attachments: tuple[AttachmentRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class ConversationRecord:
    """One conversation; `named` tells a title that a person chose, `active_leaf` the end of the shown branch."""

    id: str
    title: str
    named: bool
    created: float
    updated: float
    system_prompt: str = ""
    sampling: str = "{}"
    active_leaf: str | None = None


@dataclass(frozen=True, slots=True)
class DraftRecord:
    """What was typed and attached, but not sent."""

    text: str
    attachments: tuple[AttachmentRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredConversation:
    """A conversation as it is opened: the turns of all its branches, oldest first, then queued ones, and its draft."""

    record: ConversationRecord
    turns: tuple[TurnRecord, ...]
    draft: DraftRecord


def put_conversation(connection: sqlite3.Connection, record: ConversationRecord) -> None:
    """Insert a conversation, or update title, time, leaf and settings of a known one."""
    connection.execute(
        """INSERT INTO conversations (id, title, named, created, updated, system_prompt, sampling, active_leaf)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET title = excluded.title, named = excluded.named,
        updated = excluded.updated, system_prompt = excluded.system_prompt, sampling = excluded.sampling,
        active_leaf = excluded.active_leaf""",
        (
            record.id,
            record.title,
            record.named,
            record.created,
            record.updated,
            record.system_prompt,
            record.sampling,
            record.active_leaf,
        ),
    )


def put_turn(connection: sqlite3.Connection, record: TurnRecord) -> None:
    """Insert a turn with its attachments, or update a known turn.

    Attachments are written once: a sent turn never changes what it shows.
    """
    known = connection.execute("SELECT 1 FROM turns WHERE id = ?", (record.id,)).fetchone()
    if known:
        connection.execute(
            "UPDATE turns SET parent_id = ?, text = ?, reasoning = ?, state = ?, error = ?, facts = ? WHERE id = ?",
            (record.parent_id, record.text, record.reasoning, record.state, record.error, record.facts, record.id),
        )
        return
    values = [getattr(record, name) for name in _TURN_COLUMNS.split(", ")]
    connection.execute(f"INSERT INTO turns ({_TURN_COLUMNS}) VALUES (?{', ?' * (len(values) - 1)})", values)
    for position, item in enumerate(record.attachments):
        connection.execute(
            f"INSERT INTO attachments (turn_id, position, {_ATTACHMENT_COLUMNS}) VALUES (?, ?{', ?' * 10})",
            (record.id, position, *(getattr(item, name) for name in _ATTACHMENT_COLUMNS.split(", "))),
        )


def remove_turn(connection: sqlite3.Connection, turn_id: str) -> None:
    """Delete a turn and everything under it."""
    connection.execute("DELETE FROM turns WHERE id = ?", (turn_id,))


def put_draft(connection: sqlite3.Connection, conversation_id: str, draft: DraftRecord) -> None:
    """Keep what is typed and attached; an empty draft leaves no row."""
    if not draft.text and not draft.attachments:
        connection.execute("DELETE FROM drafts WHERE conversation_id = ?", (conversation_id,))
        return
    attachments = json.dumps([asdict(item) for item in draft.attachments])
    connection.execute(
        "INSERT OR REPLACE INTO drafts (conversation_id, text, attachments) VALUES (?, ?, ?)",
        (conversation_id, draft.text, attachments),
    )


def load_conversation(connection: sqlite3.Connection, conversation_id: str) -> StoredConversation | None:
    """Read the turns of all branches and the draft; None for an unknown or deleted conversation."""
    row = connection.execute(
        """SELECT id, title, named, created, updated, system_prompt, sampling, active_leaf FROM conversations
        WHERE id = ? AND deleted_at IS NULL""",
        (conversation_id,),
    ).fetchone()
    if row is None:
        return None
    record = ConversationRecord(row[0], row[1], bool(row[2]), *row[3:])
    return StoredConversation(record, _turns(connection, conversation_id), _draft(connection, conversation_id))


def _turns(connection: sqlite3.Connection, conversation_id: str) -> tuple[TurnRecord, ...]:
    shown: dict[str, list[AttachmentRecord]] = {}
    rows = connection.execute(
        f"""SELECT turn_id, {_ATTACHMENT_COLUMNS} FROM attachments
        WHERE turn_id IN (SELECT id FROM turns WHERE conversation_id = ?) ORDER BY turn_id, position""",
        (conversation_id,),
    )
    for turn_id, *values in rows:
        shown.setdefault(turn_id, []).append(AttachmentRecord(*values))
    turns = connection.execute(
        f"SELECT {_TURN_COLUMNS} FROM turns WHERE conversation_id = ? ORDER BY state = 'queued', seq",
        (conversation_id,),
    )
    return tuple(replace(TurnRecord(*row), attachments=tuple(shown.get(row[0], ()))) for row in turns)


def _draft(connection: sqlite3.Connection, conversation_id: str) -> DraftRecord:
    row = connection.execute(
        "SELECT text, attachments FROM drafts WHERE conversation_id = ?", (conversation_id,)
    ).fetchone()
    if row is None:
        return DraftRecord("")
    return DraftRecord(row[0], tuple(AttachmentRecord(**item) for item in json.loads(row[1])))


def list_conversations(connection: sqlite3.Connection) -> list[tuple[str, str, float, bool, str | None]]:
    """Id, title, time, pin and folder of every conversation that is not deleted, newest first."""
    rows = connection.execute(
        """SELECT id, title, updated, pinned, folder FROM conversations WHERE deleted_at IS NULL
        ORDER BY updated DESC, seq DESC"""
    )
    return [(id, title, updated, bool(pinned), folder) for id, title, updated, pinned, folder in rows]


def set_title(connection: sqlite3.Connection, conversation_id: str, title: str) -> None:
    """Give a conversation the title that a person chose."""
    connection.execute("UPDATE conversations SET title = ?, named = 1 WHERE id = ?", (title, conversation_id))


def set_place(connection: sqlite3.Connection, conversation_id: str, *, pinned: bool, folder: str | None) -> None:
    """Say where a conversation stands in the list."""
    values = (pinned, folder, conversation_id)
    connection.execute("UPDATE conversations SET pinned = ?, folder = ? WHERE id = ?", values)


def set_deleted(connection: sqlite3.Connection, conversation_id: str, when: float | None) -> None:
    """Mark a conversation as deleted at `when` (Unix seconds), or bring it back with None."""
    connection.execute("UPDATE conversations SET deleted_at = ? WHERE id = ?", (when, conversation_id))


def purge_deleted(connection: sqlite3.Connection) -> None:
    """Remove deleted conversations for good."""
    connection.execute("DELETE FROM conversations WHERE deleted_at IS NOT NULL")


def remove_conversation(connection: sqlite3.Connection, conversation_id: str) -> None:
    """Remove a conversation with all its turns for good."""
    connection.execute("DELETE FROM conversations WHERE id = ?", (conversation_id,))


def remove_if_empty(connection: sqlite3.Connection, conversation_id: str) -> None:
    """Forget a conversation that holds neither a turn nor a draft."""
    connection.execute(
        """DELETE FROM conversations WHERE id = :id AND NOT EXISTS (SELECT 1 FROM turns WHERE conversation_id = :id)
        AND NOT EXISTS (SELECT 1 FROM drafts WHERE conversation_id = :id)""",
        {"id": conversation_id},
    )


def cut_live_turns(connection: sqlite3.Connection) -> None:
    """Mark answers that were being written when the program ended: they keep their text as "cut"."""
    connection.execute("UPDATE turns SET state = 'cut' WHERE state = 'live'")


def bring_back(connection: sqlite3.Connection, now: float) -> None:
    """Give chats from the future, kept while the system's clock was wrong, the present: the list is sorted by time."""
    connection.execute("UPDATE conversations SET updated = ?1 WHERE updated > ?1", (now,))


@dataclass(frozen=True, slots=True)
class Tabs:
    """The open conversations by their ids, in order; which one is current, and which is shown beside it."""

    ids: tuple[str, ...]
    current: str | None = None
    beside: str | None = None


def put_tabs(connection: sqlite3.Connection, tabs: Tabs) -> None:
    """Keep which conversations are open; those that are not stored yet are left out."""
    connection.execute("DELETE FROM tabs")
    connection.executemany(
        """INSERT INTO tabs (position, conversation_id, current, beside)
        SELECT ?, id, ?, ? FROM conversations WHERE id = ?""",
        [(position, id == tabs.current, id == tabs.beside, id) for position, id in enumerate(tabs.ids)],
    )


def load_tabs(connection: sqlite3.Connection) -> Tabs:
    """The conversations that were open."""
    found = connection.execute(
        """SELECT conversation_id, tabs.current, beside FROM tabs
        JOIN conversations ON conversations.id = conversation_id WHERE deleted_at IS NULL ORDER BY position"""
    ).fetchall()
    current, beside = (next((row[0] for row in found if row[which]), None) for which in (1, 2))
    return Tabs(tuple(row[0] for row in found), current, beside)


def media_in_use(connection: sqlite3.Connection) -> set[str]:
    """Digests of all media that a turn or a draft shows."""
    digests = {row[0] for row in connection.execute("SELECT DISTINCT digest FROM attachments")}
    drafts: Iterable[tuple[str]] = connection.execute("SELECT attachments FROM drafts")
    return digests | {item["digest"] for (attachments,) in drafts for item in json.loads(attachments)}
