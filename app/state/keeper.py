"""What of one chat is written to the library, and when."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from app.state.journal import Journal
from app.state.turn import Turn
from app.storage import conversations as rows
from app.storage.conversations import ConversationRecord, DraftRecord


class Keeper:
    """Hands a conversation's record, turns and draft to the journal.

    Attributes:
        record: the conversation without its turns, as it is now.
        kept: whether the library knows it; an untouched fresh chat leaves no trace.
    """

    def __init__(self, journal: Journal, record: ConversationRecord) -> None:
        """Nothing is written yet."""
        self.record = record
        self.kept = False
        self._journal = journal

    def change(self, **changes: Any) -> None:
        """Replace fields of the record; `keep` writes it."""
        self.record = replace(self.record, **changes)

    def keep(self, turn: Turn | None = None) -> None:
        """Write the conversation, and one turn of it, as soon as possible."""
        self.kept = True
        self._journal.write(partial(rows.put_conversation, record=self.record))
        if turn is not None:
            self._journal.write(partial(rows.put_turn, record=turn.record(self.record.id)))

    def keep_soon(self, turn: Turn) -> None:
        """Write a growing turn within a second."""
        work = partial(rows.put_turn, record=turn.record(self.record.id))
        self._journal.write_soon(f"turn {turn.id}", work)

    def keep_draft(self, draft: DraftRecord) -> None:
        """Write a draft within a second."""
        work = partial(rows.put_draft, conversation_id=self.record.id, draft=draft)
        self._journal.write_soon(f"draft {self.record.id}", work)

    def remove(self, turn: Turn) -> None:
        """Delete a turn that nothing follows."""
        self._journal.write(partial(rows.remove_turn, turn_id=turn.id))
