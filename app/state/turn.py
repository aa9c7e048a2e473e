"""One message of a conversation, as it is shown, sent to the model and kept."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence, Set
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal
from uuid import uuid4

from app.state.attachment import NOUNS, Attachment
from app.storage.conversations import Role, TurnRecord
from app.storage.media import MediaStore
from engine.messages import MediaKind
from engine.request import MLLMRequest, RequestOutput

State = Literal["queued", "live", "done", "stopped", "cut", "failed"]
_STATES: dict[str, State] = {
    "queued": "queued",
    "live": "live",
    "done": "done",
    "stopped": "stopped",
    "cut": "cut",
    "failed": "failed",
}


@dataclass(frozen=True, slots=True)
class AnswerFacts:
    """What the engine measured for one answer; None where nothing was measured.

    Attributes:
        mtp_drafts, mtp_accepted: tokens that were guessed ahead, and how many of them were right.
        mtp_off: why none were guessed (`engine.request.MtpOff`).
        thinking_s: how long the model thought aloud before it answered.
    """

    completion_tokens: int
    tokens_per_second: float | None
    ttft_s: float | None
    prompt_tokens: int
    cached_tokens: int
    finish_reason: str | None
    mtp_drafts: int = 0
    mtp_accepted: int = 0
    mtp_off: str | None = None
    thinking_s: float | None = None

    @classmethod
    def restored(cls, kept: str) -> AnswerFacts:
        """Facts from their JSON; what another version measured besides is left out."""
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in json.loads(kept).items() if name in known})

    def kept(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def measured(cls, output: RequestOutput, request: MLLMRequest | None) -> AnswerFacts:
        """Facts of a finished answer; speed counts from the first token to the last."""
        ttft = rate = None
        if request is not None and request.first_token_time is not None:
            ttft = request.first_token_time - request.arrival_time
            if request.finish_time is not None and (took := request.finish_time - request.first_token_time) > 0:
                rate = (output.completion_tokens - 1) / took if output.completion_tokens > 1 else None
        return cls(
            output.completion_tokens,
            rate,
            ttft,
            output.prompt_tokens,
            output.cached_tokens,
            output.finish_reason,
            output.mtp_drafts,
            output.mtp_accepted,
            None if request is None else request.mtp_off,
        )

    def after(self, earlier: AnswerFacts | None) -> AnswerFacts:
        """Facts of an answer that was gone on with: its tokens add up, its first token is that of the beginning."""
        if earlier is None:
            return self
        return replace(
            self,
            completion_tokens=earlier.completion_tokens + self.completion_tokens,
            ttft_s=earlier.ttft_s,
            mtp_drafts=earlier.mtp_drafts + self.mtp_drafts,
            mtp_accepted=earlier.mtp_accepted + self.mtp_accepted,
        )


@dataclass(slots=True, eq=False)
class Turn:
    """One message; `error` says in a sentence why an answer failed or was cut, `parent_id` what it follows."""

    id: str = field(default_factory=lambda: uuid4().hex)
    role: Role = "user"
    text: str = ""
    attachments: tuple[Attachment, ...] = ()
    state: State = "done"
    error: str | None = None
    facts: AnswerFacts | None = None
    created: float = field(default_factory=time.time)
    parent_id: str | None = None
    reasoning: str = ""

    @property
    def told(self) -> bool:
        """Whether later questions repeat this turn to the model: not unsent ones, nor empty or failed answers."""
        if self.role == "user":
            return self.state != "queued"
        return self.state in ("done", "stopped", "cut") and bool(self.text.strip())

    @property
    def begun(self) -> bool:
        """Whether it is an answer with something in it."""
        return self.role == "assistant" and bool(self.text.strip() or self.reasoning.strip())

    @property
    def at_limit(self) -> bool:
        """Whether it is an answer that was ended by the limit of its length."""
        return self.state == "done" and self.facts is not None and self.facts.finish_reason == "length"

    @property
    def early(self) -> bool:
        """Whether it is the beginning of an answer that did not come to its end."""
        return self.begun and (self.at_limit or self.state in ("stopped", "cut"))

    def copy(self, parent_id: str | None) -> Turn:
        """The same turn as part of another chat."""
        return replace(self, id=uuid4().hex, parent_id=parent_id)

    def message(self, takes: Set[MediaKind] | None = None) -> dict[str, Any]:
        """The turn as a chat message with content parts, media first.

        Media that a model does not take stand there by their names; None: it takes all.
        """
        parts = [item.part() if _read_by(item, takes) else _named(item) for item in self.attachments]
        if self.text:
            parts.append({"type": "text", "text": self.text})
        return {"role": self.role, "content": parts}

    def record(self, conversation_id: str) -> TurnRecord:
        """What the library keeps of it."""
        return TurnRecord(
            id=self.id,
            conversation_id=conversation_id,
            parent_id=self.parent_id,
            role=self.role,
            text=self.text,
            reasoning=self.reasoning,
            state=self.state,
            error=self.error,
            facts=None if self.facts is None else self.facts.kept(),
            created=self.created,
            attachments=tuple(item.record() for item in self.attachments),
        )

    @classmethod
    def restore(cls, record: TurnRecord, media: MediaStore) -> Turn:
        """Bring a kept one back; reads thumbnails, so not on the GUI thread."""
        return cls(
            id=record.id,
            role=record.role,
            text=record.text,
            attachments=tuple(Attachment.restore(item, media) for item in record.attachments),
            state=_STATES[record.state],
            error=record.error,
            facts=None if record.facts is None else AnswerFacts.restored(record.facts),
            created=record.created,
            parent_id=record.parent_id,
            reasoning=record.reasoning,
        )


def messages(
    turns: Sequence[Turn], system_prompt: str = "", takes: Set[MediaKind] | None = None
) -> list[dict[str, Any]]:
    """The chat messages of a branch, with the media of every turn that the model takes."""
    head = [{"role": "system", "content": system_prompt}] if system_prompt else []
    return head + [turn.message(takes) for turn in turns if turn.told]


def _read_by(item: Attachment, takes: Set[MediaKind] | None) -> bool:
    return takes is None or item.needs is None or item.needs in takes


def _named(item: Attachment) -> dict[str, Any]:
    return {"type": "text", "text": f"[{NOUNS[item.kind]}: {item.name}]\n"}
