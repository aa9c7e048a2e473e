"""One chat: its turns, the question being answered and those that wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from functools import partial
from typing import Any

from PySide6.QtCore import QObject, Signal

from app.state.answer import Answer, Ending
from app.state.attachment import Attachment
from app.state.branch import Offers, Tree, branch_off, offers
from app.state.composer import Composer
from app.state.forecast import Before
from app.state.identity import Identity, fresh
from app.state.keeper import Keeper
from app.state.obstacle import left_out
from app.state.pulse import Info, activity
from app.state.queue import Queue
from app.state.room import Room
from app.state.scheduler import Scheduler
from app.state.title import automatic_title
from app.state.turn import AnswerFacts, State, Turn, messages
from app.storage.conversations import ConversationRecord, DraftRecord
from engine.errors import EngineError
from engine.messages import MediaKind
from engine.request import Phase

__all__ = ["AnswerFacts", "Conversation", "Offers", "Phase", "Room", "Turn"]


class Conversation(Identity):
    """One chat, its draft and its answers; the views read it and call its methods.

    Signals:
        turn_added, turn_changed, turn_removed: id of the turn; changes come with every output of the engine.
        branch_changed: another branch is shown, so that many turns came or went at once.
        activity_changed: phase, activity, speed or unread changed.
        answered: an answer has come to its end, well or not, without being stopped.
        revealed: this turn is looked for and should be seen.
        forking: the person wants a copy of the chat up to this turn in another tab.
    """

    turn_added = Signal(str)
    turn_changed = Signal(str)
    turn_removed = Signal(str)
    branch_changed = Signal()
    activity_changed = Signal()
    answered = Signal()
    revealed = Signal(str)
    forking = Signal(str)

    def __init__(self, room: Room, record: ConversationRecord | None = None, parent: QObject | None = None) -> None:
        super().__init__(Keeper(room.desk.journal, record or fresh()), parent)
        self.turns: list[Turn] = []
        self.phase: Phase | None = None
        self.activity = ""
        self.tokens_per_second: float | None = None
        self.unread = False
        self.shown = False
        self._tree = Tree()
        self._room = room
        self._task: asyncio.Task[None] | None = None
        self._live: Answer | None = None
        self._ended: State = "stopped"
        self._closed = False
        self.composer = Composer(room.desk, room.model, self._keep_draft, self._before_draft, self)
        self.composer.submitted.connect(self._submit)
        self.queue = Queue(lambda: self.turns, self._keep_waiting, self._take_back, self)
        for followed in (self.branch_changed, self.instructed):
            followed.connect(self.composer.followed)

    # --- what the views ask for

    def stop(self) -> None:
        """End the answer that is being written; a question still waiting for the model returns to the draft."""
        if self._live is not None:
            self._live.stop()
        elif self._task is not None:
            self._task.cancel()

    def retry(self, turn_id: str) -> None:
        """Answer a question again; what was said before stays as another variant."""
        answer = self._resting(turn_id)
        if answer is None or answer.role != "assistant":
            return
        if not answer.text.strip() and not self._tree.under(answer):
            self._tree.remove(answer)
            self._keeper.remove(answer)
        self._show_branch(self.turns[: self.turns.index(answer)])
        self._start(self._begin)

    def resume(self, turn_id: str) -> None:
        """Go on with the last answer where it ended early."""
        answer = self._resting(turn_id)
        if answer is not None and answer is self.turns[-1] and answer.early:
            self._start(partial(self._take_up, answer))

    def edit(self, turn_id: str, text: str) -> None:
        """Ask a question in other words, with its media; the old one stays as another variant."""
        question = self._resting(turn_id)
        if question is None or question.role != "user" or not (text.strip() or question.attachments):
            return
        self._show_branch(self.turns[: self.turns.index(question)])
        self._submit(text, question.attachments)

    def show_variant(self, turn_id: str, by: int) -> None:
        """Show the next (1) or previous (-1) variant of a turn, and what followed it."""
        turn = self._resting(turn_id)
        if turn is None:
            return
        variants = self._tree.variants(turn)
        position = variants.index(turn) + by
        if 0 <= position < len(variants):
            self._show_branch(self._tree.through(variants[position]))

    def fork(self, turn_id: str) -> None:
        """Go another way from a turn on, in a tab of its own."""
        if self.offers(turn_id).fork:
            self.forking.emit(turn_id)

    def reveal(self, turn_id: str | None) -> None:
        """Show a turn, and the branch it is on; while an answer is being written, only on its branch."""
        turn = self._tree.get(turn_id)
        if turn is None:
            return
        if turn not in self.turns and self._task is None:
            self._show_branch(self._tree.through(turn))
        if turn in self.turns:
            self.revealed.emit(turn.id)

    def offers(self, turn_id: str) -> Offers:
        """What can be done with a turn now."""
        return offers(self._tree, self.turns, turn_id, rests=self._task is None)

    def _resting(self, turn_id: str) -> Turn | None:
        """A turn of the branch, while no answer is being made."""
        return next((turn for turn in self.turns if turn.id == turn_id and self._task is None), None)

    def _show_branch(self, turns: list[Turn]) -> None:
        self.turns = turns
        self._keep()
        self.branch_changed.emit()

    def rename(self, title: str) -> None:
        """Give the chat a title of the person's choice; an empty one returns to the automatic title."""
        self._keeper.change(named=bool(title.strip()))
        self._set_title(title.strip() or automatic_title(self.turns))
        self._keep()

    def mark_read(self) -> None:
        """The person has seen the answer."""
        if self.unread:
            self.unread = False
            self.activity_changed.emit()

    # --- what the library asks for

    @property
    def request_id(self) -> str | None:
        """The engine's id of the answer that is being written."""
        return None if self._live is None else self._live.request_id

    @property
    def answering(self) -> bool:
        """Whether an answer is being made or waited for."""
        return self._task is not None

    def restore(self, turns: Sequence[Turn], draft: tuple[str, Sequence[Attachment]]) -> None:
        """Fill a conversation that was read from the library; questions never sent return to the draft."""
        self._keeper.kept = True
        self._tree.fill(turn for turn in turns if turn.state != "queued")
        self.turns = self._tree.through(self._tree.get(self._keeper.record.active_leaf) or self._tree.newest())
        self.composer.restore(*draft)
        self._return_to_draft([turn for turn in turns if turn.state == "queued"])
        self._answer_the_unanswered("cut")
        self.unread = False

    def branch_off(self, turn_id: str) -> tuple[ConversationRecord, list[Turn]]:
        """What another chat needs to go its own way after a turn of this one."""
        return branch_off(self._keeper.record, self.turns, turn_id, self._room.clock.now())

    def begin_with(self, turns: Sequence[Turn]) -> None:
        """Fill a fresh conversation with turns that no library holds yet; a question at the end becomes the draft."""
        asked = turns[-1] if turns and turns[-1].role == "user" else None
        self.turns = [turn for turn in turns if turn is not asked]
        self._tree.fill(self.turns)
        self._keep()
        for turn in self.turns:
            self._keep(turn)
        if asked is not None:
            self.composer.put_back(asked.text, asked.attachments)

    async def close(self, ended: State = "stopped") -> None:
        """Abort the answer, if any, and keep what there is of it with the state `ended`."""
        self._ended, self._closed = ended, True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            await asyncio.sleep(0)  # had it ended before, its clean-up is still to come
        self.composer.close()  # last: a question that was not sent has returned to it

    # --- one answer after the other

    def _submit(self, text: str, attachments: tuple[Attachment, ...]) -> None:
        turn = Turn(text=text, attachments=attachments, state="queued")
        self.turns.append(turn)
        if not self._keeper.record.named and not any(other.role == "user" for other in self.turns[:-1]):
            self._set_title(automatic_title(self.turns))
        self._keeper.change(updated=self._room.clock.now())
        self._keep(turn)
        self.turn_added.emit(turn.id)
        if self._task is None:
            self._start()

    def _start(self, begin: Callable[[], Turn] | None = None) -> None:
        self._task = self._room.desk.tasks.start(self._answer_all(begin), f"answering {self.id}")
        self._task.add_done_callback(self._rest)

    def _rest(self, task: asyncio.Task[None]) -> None:
        """Tidy up when answering is over, also when it was cancelled before its first step."""
        self._task = None
        if not task.cancelled() and not self._closed and self._waits:
            self._start()  # a question came after the last look for one
            return
        if task.cancelled() or self._closed:
            self._return_to_draft([turn for turn in self.turns if turn.state == "queued"])
            self._show_what_followed()
            self._answer_the_unanswered(self._ended)
        self._show_activity(None, "", None)
        self.composer.followed()

    def _show_what_followed(self) -> None:
        """Nothing new came under the end of the branch: show again what stood there."""
        branch = self._tree.through(self.turns[-1] if self.turns else None)
        if len(branch) > len(self.turns):
            self._show_branch(branch)

    async def _answer_all(self, begin: Callable[[], Turn] | None) -> None:
        """Make one more answer, if `begin` gives its turn, and then answer until no question waits."""
        if begin is not None:
            await self._answer(begin)
        while self._waits:
            await self._answer(self._begin)

    @property
    def _waits(self) -> bool:
        """Whether a question has not been sent yet."""
        return any(turn.state == "queued" for turn in self.turns)

    async def _answer(self, begin: Callable[[], Turn]) -> None:
        """Wait for the model, send what was said so far and fold what comes back into the turn that `begin` gives."""
        self._show_activity(Phase.QUEUED, "queued", None)
        try:
            scheduler = await self._room.model.answering()
        except EngineError as error:
            answer = begin()
            self._conclude(answer, Ending("failed", str(error)), begun=answer.begun)
            return
        await self._stream(scheduler, begin())

    def _begin(self) -> Turn:
        """Mark the next question as sent and put an empty answer under it."""
        position = next((i for i, turn in enumerate(self.turns) if turn.state == "queued"), len(self.turns))
        if position < len(self.turns):
            question = self.turns[position]
            question.state = "done"
            question.parent_id = self.turns[position - 1].id if position else None
            position += 1
            self._tree.add(question)
            self._keep(question)
            self.turn_changed.emit(question.id)
            self.turn_added.emit(question.id)
        answer = Turn(role="assistant", state="live", parent_id=self.turns[position - 1].id)
        self.turns.insert(position, answer)
        self._tree.add(answer)
        self._keep(answer)
        self.turn_added.emit(answer.id)
        return answer

    def _take_up(self, answer: Turn) -> Turn:
        """Make an answer that ended early a growing one again; the model writes space before a word itself."""
        answer.text, answer.state = answer.text.rstrip(), "live"
        self._keep(answer)
        self.turn_changed.emit(answer.id)
        return answer

    async def _stream(self, scheduler: Scheduler, turn: Turn) -> None:
        asked, begun = self.turns[self.turns.index(turn) - 1].attachments, turn.begun
        if lacking := left_out(asked, self._room.model):  # the model may be another one than when it was asked
            self.composer.notice.emit(lacking)
        self._live = live = Answer(scheduler, turn, partial(self._grown, turn))
        self._room.pulse.follow(live.request_id, self._told)
        try:
            ending = await live.run(partial(self._said, turn, scheduler.takes), self._options(begun=begun))
        except asyncio.CancelledError:
            self._finish(turn, self._ended)
            raise
        else:
            self._conclude(turn, ending, begun=begun)
        finally:
            self._live = None
            self._room.pulse.forget(live.request_id)

    def _said(self, answer: Turn, takes: Set[MediaKind]) -> list[dict[str, Any]]:
        """Messages for an answer; what there is of it already is its beginning."""
        said = messages(self.turns[: self.turns.index(answer)], self.system_prompt, takes)
        return [*said, answer.message() | {"reasoning_content": answer.reasoning}] if answer.begun else said

    def _options(self, *, begun: bool) -> dict[str, Any]:
        options = self.sampling.over(self._room.generation().options())
        if begun:
            options["template_options"] = options["template_options"] | {"continue_final": True}
        return options

    def _grown(self, turn: Turn) -> None:
        self._keeper.keep_soon(turn)
        self.turn_changed.emit(turn.id)

    def _conclude(self, answer: Turn, ending: Ending, *, begun: bool) -> None:
        """End an answer; where going on with it failed, what there was before stays as it was: cut."""
        if begun and ending.state == "failed":
            self._finish(answer, "cut")
            self.composer.notice.emit(ending.error)
        else:
            self._finish(answer, ending.state, ending.error)
        if ending.state != "stopped":
            self.answered.emit()

    def _finish(self, answer: Turn, state: State, error: str | None = None) -> None:
        answer.state, answer.error = state, error
        self._keeper.change(updated=self._room.clock.now())
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
            self._keeper.remove(turn)
            self.composer.put_back(turn.text, turn.attachments)
        if waiting:
            self._keep()

    def _take_back(self, turn: Turn) -> None:
        self.turns.remove(turn)
        self._keeper.remove(turn)
        self.turn_removed.emit(turn.id)

    def _before_draft(self) -> Before:
        """What the draft would follow: also questions that wait, but not the answer being written."""
        turns = tuple(replace(turn, state="done") if turn.state == "queued" else turn for turn in self.turns)
        options = self.sampling.over(self._room.generation().options())
        return Before(turns, self.system_prompt, options["template_options"])

    # --- activity

    def _told(self, info: Info) -> None:
        phase = Phase(info["phase"])
        self._show_activity(phase, activity(phase, info), info["tokens_per_second"])

    def _show_activity(self, phase: Phase | None, activity: str, tokens_per_second: float | None) -> None:
        self.phase, self.activity, self.tokens_per_second = phase, activity, tokens_per_second
        self.activity_changed.emit()

    # --- what is kept

    def _leaf(self) -> str | None:
        """The end of the branch; questions that wait hang nowhere until they are sent."""
        return next((turn.id for turn in reversed(self.turns) if turn.state != "queued"), None)

    def _keep(self, turn: Turn | None = None) -> None:
        """Write the conversation, and one turn of it, to the library."""
        self._keeper.change(active_leaf=self._leaf())
        super()._keep(turn)

    def _keep_waiting(self, turns: Sequence[Turn]) -> None:
        """Write questions that wait; several of them in their new order, which is that of writing."""
        for turn in turns:
            if len(turns) > 1:
                self._keeper.remove(turn)
            self._keeper.keep(turn)

    def _keep_draft(self, draft: DraftRecord) -> None:
        if not self.kept:
            if self.composer.empty:
                return
            self._keep()
        self._keeper.keep_draft(draft)
