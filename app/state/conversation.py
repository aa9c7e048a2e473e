"""One chat: its turns, the question being answered and those that wait."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from uuid import uuid4

from PySide6.QtCore import QObject, Signal

from app.settings import Generation
from app.state.answer import Answer
from app.state.attachment import Attachment
from app.state.composer import Composer, Desk
from app.state.journal import Write
from app.state.model import Model, Scheduler
from app.state.pulse import Info, Pulse
from app.state.turn import AnswerFacts, State, Turn, messages
from app.storage import conversations as rows
from app.storage.conversations import ConversationRecord, DraftRecord
from engine.errors import EngineError
from engine.request import Phase

__all__ = ["AnswerFacts", "Conversation", "Phase", "Room", "Turn"]

NEW_TITLE = "New chat"
_TITLE_CHARACTERS = 48


@dataclass(frozen=True, slots=True)
class Room:
    """What all chats share: the model that answers, the desk that drafts use, and how answers are made."""

    model: Model
    desk: Desk
    pulse: Pulse
    generation: Callable[[], Generation]


class Conversation(QObject):
    """One chat, its draft and its answers; the views read it and call its methods.

    Signals:
        turn_added, turn_changed, turn_removed: id of the turn; changes come with every output of the engine.
        activity_changed: phase, activity, speed or unread changed.
        title_changed: the new title.
        stored: it became part of the library, or its title or time changed there.
    """

    turn_added = Signal(str)
    turn_changed = Signal(str)
    turn_removed = Signal(str)
    activity_changed = Signal()
    title_changed = Signal(str)
    stored = Signal()

    def __init__(self, room: Room, record: ConversationRecord | None = None, parent: QObject | None = None) -> None:
        super().__init__(parent)
        now = time.time()
        record = record or ConversationRecord(uuid4().hex, NEW_TITLE, named=False, created=now, updated=now)
        self.id = record.id
        self.title = record.title
        self.updated = record.updated
        self.turns: list[Turn] = []
        self.phase: Phase | None = None
        self.activity = ""
        self.tokens_per_second: float | None = None
        self.unread = False
        self.shown = False
        self.kept = False
        self._record = record
        self._named = record.named
        self._room = room
        self._task: asyncio.Task[None] | None = None
        self._live: Answer | None = None
        self._ended: State = "stopped"
        self.composer = Composer(room.desk, self._keep_draft, self)
        self.composer.submitted.connect(self._submit)

    # --- what the views ask for

    def stop(self) -> None:
        """End the answer that is being written; a question still waiting for the model returns to the draft."""
        if self._live is not None:
            self._live.stop()
        elif self._task is not None:
            self._task.cancel()

    def retry(self, turn_id: str) -> None:
        """Answer again the question that this answer belongs to; only the last answer can be tried again."""
        turn = self.turns[-1] if self.turns else None
        if turn is None or turn.id != turn_id or turn.role != "assistant" or self._task is not None:
            return
        self.turns.pop()
        if not turn.text:  # an answer with words stays in the library, as another variant
            self._write(partial(rows.remove_turn, turn_id=turn.id))
        self._keep()
        self.turn_removed.emit(turn.id)
        self._start(retry=True)

    def rename(self, title: str) -> None:
        """Give the chat a title of the person's choice; an empty one returns to the automatic title."""
        self._named = bool(title.strip())
        self._set_title(title.strip() or _automatic_title(self.turns))
        self._keep()

    def mark_read(self) -> None:
        """The person has seen the answer."""
        if self.unread:
            self.unread = False
            self.activity_changed.emit()

    # --- what the library asks for

    @property
    def answering(self) -> bool:
        """Whether an answer is being made or waited for."""
        return self._task is not None

    def restore(self, turns: Sequence[Turn], draft: tuple[str, Sequence[Attachment]]) -> None:
        """Fill a conversation that was read from the library; questions never sent return to the draft."""
        self.kept = True
        self.turns = [turn for turn in turns if turn.state != "queued"]
        self.composer.restore(*draft)
        self._return_to_draft([turn for turn in turns if turn.state == "queued"])
        self._answer_the_unanswered("cut")
        self.unread = False

    async def close(self, ended: State = "stopped") -> None:
        """Abort the answer, if any, and keep what there is of it with the state `ended`."""
        self._ended = ended
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    # --- one answer after the other

    def _submit(self, text: str, attachments: tuple[Attachment, ...]) -> None:
        turn = Turn(text=text, attachments=attachments, state="queued")
        self.turns.append(turn)
        if not self._named and not any(other.role == "user" for other in self.turns[:-1]):
            self._set_title(_automatic_title(self.turns))
        self.updated = turn.created
        self._keep(turn)
        self.turn_added.emit(turn.id)
        if self._task is None:
            self._start()

    def _start(self, *, retry: bool = False) -> None:
        self._task = self._room.desk.tasks.start(self._answer_all(retry=retry), f"answering {self.id}")
        self._task.add_done_callback(self._rest)

    def _rest(self, task: asyncio.Task[None]) -> None:
        """Tidy up when answering is over, also when it was cancelled before its first step."""
        self._task = None
        if task.cancelled():
            self._return_to_draft([turn for turn in self.turns if turn.state == "queued"])
            self._answer_the_unanswered(self._ended)
        self._show_activity(None, "", None)

    async def _answer_all(self, *, retry: bool) -> None:
        """Answer until no question waits."""
        if retry:
            await self._answer()
        while any(turn.state == "queued" for turn in self.turns):
            await self._answer()

    async def _answer(self) -> None:
        """Wait for the model, send what was said so far and fold what comes back into one new turn."""
        self._show_activity(Phase.QUEUED, "queued", None)
        try:
            scheduler = await self._room.model.answering()
        except EngineError as error:
            self._finish(self._begin(), "failed", str(error))
            return
        await self._stream(scheduler, self._begin())

    def _begin(self) -> Turn:
        """Mark the next question as sent and put an empty answer under it."""
        position = next((i for i, turn in enumerate(self.turns) if turn.state == "queued"), len(self.turns))
        if position < len(self.turns):
            question = self.turns[position]
            question.state = "done"
            question.parent_id = self.turns[position - 1].id if position else None
            position += 1
            self._keep(question)
            self.turn_changed.emit(question.id)
        answer = Turn(role="assistant", state="live", parent_id=self.turns[position - 1].id)
        self.turns.insert(position, answer)
        self._keep(answer)
        self.turn_added.emit(answer.id)
        return answer

    async def _stream(self, scheduler: Scheduler, turn: Turn) -> None:
        before = messages(self.turns[: self.turns.index(turn)], self._record.system_prompt)
        self._live = live = Answer(scheduler, turn, partial(self._grown, turn))
        self._room.pulse.follow(live.request_id, self._told)
        try:
            ending = await live.run(before, self._room.generation().options())
        except asyncio.CancelledError:
            self._finish(turn, self._ended)
            raise
        else:
            self._finish(turn, ending.state, ending.error)
        finally:
            self._live = None
            self._room.pulse.forget(live.request_id)

    def _grown(self, turn: Turn) -> None:
        self._keep_soon(turn)
        self.turn_changed.emit(turn.id)

    def _finish(self, answer: Turn, state: State, error: str | None = None) -> None:
        answer.state, answer.error = state, error
        self.updated = time.time()
        self.unread = self.unread or not self.shown
        self._keep(answer)
        self.turn_changed.emit(answer.id)

    def _answer_the_unanswered(self, state: State) -> None:
        """A question that was sent always has an answer under it, from which it can be tried again."""
        if self.turns and self.turns[-1].role == "user":
            self._finish(self._begin(), state)

    def _return_to_draft(self, waiting: Sequence[Turn]) -> None:
        for turn in reversed(waiting):
            if turn in self.turns:
                self.turns.remove(turn)
                self.turn_removed.emit(turn.id)
            self._write(partial(rows.remove_turn, turn_id=turn.id))
            self.composer.put_back(turn.text, turn.attachments)
        if waiting:
            self._keep()

    # --- activity

    def _told(self, info: Info) -> None:
        phase = Phase(info["phase"])
        self._show_activity(phase, _activity(phase, info), info["tokens_per_second"])

    def _show_activity(self, phase: Phase | None, activity: str, tokens_per_second: float | None) -> None:
        self.phase, self.activity, self.tokens_per_second = phase, activity, tokens_per_second
        self.activity_changed.emit()

    # --- what is kept

    def _leaf(self) -> str | None:
        """The end of the branch; questions that wait hang nowhere until they are sent."""
        return next((turn.id for turn in reversed(self.turns) if turn.state != "queued"), None)

    def record(self) -> ConversationRecord:
        """What the library keeps of it besides its turns."""
        record = self._record
        return ConversationRecord(
            self.id,
            self.title,
            self._named,
            record.created,
            self.updated,
            record.system_prompt,
            record.sampling,
            self._leaf(),
        )

    def _set_title(self, title: str) -> None:
        if title != self.title:
            self.title = title
            self.title_changed.emit(title)

    def _write(self, work: Write) -> None:
        self._room.desk.journal.write(work)

    def _keep(self, turn: Turn | None = None) -> None:
        """Write the conversation, and one turn of it, to the library."""
        self.kept = True
        self._write(partial(rows.put_conversation, record=self.record()))
        if turn is not None:
            self._write(partial(rows.put_turn, record=turn.record(self.id)))
        self.stored.emit()

    def _keep_soon(self, turn: Turn) -> None:
        self._room.desk.journal.write_soon(f"turn {turn.id}", partial(rows.put_turn, record=turn.record(self.id)))

    def _keep_draft(self, draft: DraftRecord) -> None:
        if not self.kept:
            if self.composer.empty:
                return
            self._keep()
        work = partial(rows.put_draft, conversation_id=self.id, draft=draft)
        self._room.desk.journal.write_soon(f"draft {self.id}", work)


def _automatic_title(turns: Sequence[Turn]) -> str:
    """The first words of the first question, or the name of its first file."""
    first = next((turn for turn in turns if turn.role == "user"), None)
    if first is None:
        return NEW_TITLE
    text = " ".join(first.text.split())
    if not text:
        return first.attachments[0].name if first.attachments else NEW_TITLE
    if len(text) <= _TITLE_CHARACTERS:
        return text
    head, space, _ = text[: _TITLE_CHARACTERS + 1].rpartition(" ")
    return (head if space else text[:_TITLE_CHARACTERS]) + "…"


def _activity(phase: Phase, info: Info) -> str:
    """What a request does, in at most three words."""
    if phase is Phase.PREFILL:
        return f"prefill {info['progress'] * 100:.0f} %"
    if phase is Phase.VISION:
        return str(info["detail"])
    rate: float | None = info["tokens_per_second"]
    if phase is Phase.GENERATION and rate is not None:
        return f"{rate:.0f} tok/s" if rate >= 10 else f"{rate:.1f} tok/s"
    return "answering" if phase is Phase.GENERATION else phase.value
