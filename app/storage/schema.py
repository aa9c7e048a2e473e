"""The tables of the library, as numbered migrations."""

from __future__ import annotations

from typing import NamedTuple


class Version(NamedTuple):
    """Format of a library file: a newer `major` cannot be read by this program, a newer `minor` can."""

    major: int
    minor: int

    @property
    def packed(self) -> int:
        """The one integer that SQLite keeps for us in `user_version`."""
        return self.major << 16 | self.minor

    @classmethod
    def unpack(cls, packed: int) -> Version:
        """Read `user_version` back."""
        return cls(packed >> 16, packed & 0xFFFF)


# Turns form a tree by parent_id; turns under one parent are variants in the order of seq.
# Text is indexed once a turn has ended: re-indexing a growing answer each second would cost more than the answer.
_FIRST = """
CREATE TABLE conversations (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    title TEXT NOT NULL DEFAULT '',
    named INTEGER NOT NULL DEFAULT 0,
    created REAL NOT NULL,
    updated REAL NOT NULL,
    pinned INTEGER NOT NULL DEFAULT 0,
    folder TEXT,
    system_prompt TEXT NOT NULL DEFAULT '',
    sampling TEXT NOT NULL DEFAULT '{}',
    active_leaf TEXT,
    deleted_at REAL
) STRICT;

CREATE TABLE turns (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    conversation_id TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    parent_id TEXT REFERENCES turns (id) ON DELETE CASCADE,
    role TEXT NOT NULL CHECK (role IN ('user', 'assistant')),
    text TEXT NOT NULL DEFAULT '',
    reasoning TEXT NOT NULL DEFAULT '',
    state TEXT NOT NULL,
    error TEXT,
    facts TEXT,
    created REAL NOT NULL
) STRICT;
CREATE INDEX turns_by_conversation ON turns (conversation_id);
CREATE INDEX turns_by_parent ON turns (parent_id);

CREATE TABLE attachments (
    turn_id TEXT NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    digest TEXT NOT NULL,
    file TEXT NOT NULL,
    size INTEGER NOT NULL,
    width INTEGER NOT NULL,
    height INTEGER NOT NULL,
    note TEXT,
    PRIMARY KEY (turn_id, position)
) STRICT;

CREATE TABLE drafts (
    conversation_id TEXT PRIMARY KEY REFERENCES conversations (id) ON DELETE CASCADE,
    text TEXT NOT NULL,
    attachments TEXT NOT NULL DEFAULT '[]'
) STRICT;

CREATE TABLE tabs (
    position INTEGER PRIMARY KEY,
    conversation_id TEXT NOT NULL UNIQUE REFERENCES conversations (id) ON DELETE CASCADE,
    current INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE VIRTUAL TABLE turn_index USING fts5 (text, content = 'turns', content_rowid = 'seq', tokenize = 'trigram');
CREATE TRIGGER turn_added AFTER INSERT ON turns WHEN new.state <> 'live' BEGIN
    INSERT INTO turn_index (rowid, text) VALUES (new.seq, new.text);
END;
CREATE TRIGGER turn_removed AFTER DELETE ON turns WHEN old.state <> 'live' BEGIN
    INSERT INTO turn_index (turn_index, rowid, text) VALUES ('delete', old.seq, old.text);
END;
CREATE TRIGGER turn_unindexed AFTER UPDATE OF text, state ON turns WHEN old.state <> 'live' BEGIN
    INSERT INTO turn_index (turn_index, rowid, text) VALUES ('delete', old.seq, old.text);
END;
CREATE TRIGGER turn_indexed AFTER UPDATE OF text, state ON turns WHEN new.state <> 'live' BEGIN
    INSERT INTO turn_index (rowid, text) VALUES (new.seq, new.text);
END;

CREATE VIRTUAL TABLE title_index USING fts5 (
    title, content = 'conversations', content_rowid = 'seq', tokenize = 'trigram'
);
CREATE TRIGGER title_added AFTER INSERT ON conversations BEGIN
    INSERT INTO title_index (rowid, title) VALUES (new.seq, new.title);
END;
CREATE TRIGGER title_removed AFTER DELETE ON conversations BEGIN
    INSERT INTO title_index (title_index, rowid, title) VALUES ('delete', old.seq, old.title);
END;
CREATE TRIGGER title_changed AFTER UPDATE OF title ON conversations BEGIN
    INSERT INTO title_index (title_index, rowid, title) VALUES ('delete', old.seq, old.title);
    INSERT INTO title_index (rowid, title) VALUES (new.seq, new.title);
END;
"""

_DETAILS = """
ALTER TABLE attachments ADD COLUMN details TEXT NOT NULL DEFAULT '{}';
"""

_BESIDE = """
ALTER TABLE tabs ADD COLUMN beside INTEGER NOT NULL DEFAULT 0;
"""

MIGRATIONS: tuple[tuple[Version, str], ...] = (
    (Version(1, 0), _FIRST),
    (Version(1, 1), _DETAILS),
    (Version(1, 2), _BESIDE),
)
"""Each script leads from the version before it to its own; a shipped one never changes."""
