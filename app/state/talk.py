"""A conversation on its way in or out of the library, whatever program wrote it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from uuid import uuid4

from app.state.attachment import Attachment, Excerpt
from app.state.title import first_words
from app.storage.conversations import AttachmentRecord, ConversationRecord, Role, TurnRecord


class ExchangeError(Exception):
    """A file cannot be read or written; `str(error)` is a sentence for people."""


@dataclass(frozen=True, slots=True)
class Medium:
    """An attached file.

    Attributes:
        read: its bytes, when they are needed; None where the export lacks it, or it is too large to be taken.
        excerpt: which part of it was sent.
        note: what was told about it when it was attached.
    """

    name: str
    read: Callable[[], bytes] | None
    excerpt: Excerpt = field(default_factory=Excerpt)
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Said:
    """One message; ids hold inside their talk only."""

    id: str
    parent_id: str | None
    role: Role
    text: str
    created: float
    reasoning: str = ""
    state: str = "done"
    error: str | None = None
    facts: str | None = None
    media: tuple[Medium, ...] = ()


@dataclass(frozen=True, slots=True)
class Talk:
    """One conversation with all its branches; `leaf` is the end of the one that was shown."""

    title: str
    created: float
    updated: float
    said: tuple[Said, ...]
    leaf: str | None = None
    named: bool = True
    system_prompt: str = ""
    sampling: str = "{}"
    pinned: bool = False
    folder: str | None = None


@dataclass(frozen=True, slots=True)
class Incoming:
    """A talk as rows of the library, parents before children, and how many of its attachments had to stay out."""

    record: ConversationRecord
    pinned: bool
    folder: str | None
    turns: tuple[TurnRecord, ...]
    left_out: int


def admit(talk: Talk, read: Callable[[Medium], Attachment | None]) -> Incoming:
    """Give a talk new ids and read its media; `read` returns None for what cannot be attached.

    Half characters and times that cannot be, which other programs do write, become what the library can keep.
    """
    conversation_id = uuid4().hex
    ids: dict[str, str] = {}
    turns: list[TurnRecord] = []
    left_out = 0
    for said in parents_first(talk.said):
        ids[said.id] = uuid4().hex
        kept = [
            replace(found, excerpt=medium.excerpt, note=medium.note or found.note).record()
            for medium in said.media
            if (found := read(replace(medium, name=_whole(medium.name)))) is not None
        ]
        left_out += len(said.media) - len(kept)
        parent_id = ids.get(said.parent_id or "")
        turns.append(_row(said, ids[said.id], conversation_id, parent_id, tuple(kept)))
    record = ConversationRecord(
        id=conversation_id,
        title=_whole(talk.title.strip() or _untitled(talk)),
        named=talk.named,
        created=_possible(talk.created),
        updated=_possible(talk.updated),
        system_prompt=_whole(talk.system_prompt),
        sampling=talk.sampling,
        active_leaf=ids.get(talk.leaf or ""),
    )
    folder = None if talk.folder is None else _whole(talk.folder)
    return Incoming(record, talk.pinned, folder, tuple(turns), left_out)


def _whole(text: str) -> str:
    """The text with a question mark for each half of a character."""
    return text.encode(errors="replace").decode()


def _possible(when: float) -> float:
    """The time, or now for one that has not come yet or that no calendar has."""
    now = time.time()
    return when if 0 <= when <= now else now


def _untitled(talk: Talk) -> str:
    first = next((said for said in talk.said if said.role == "user"), None)
    return first_words("" if first is None else first.text)


def _row(
    said: Said, id: str, conversation_id: str, parent_id: str | None, media: tuple[AttachmentRecord, ...]
) -> TurnRecord:
    return TurnRecord(
        id=id,
        conversation_id=conversation_id,
        parent_id=parent_id,
        role=said.role,
        text=_whole(said.text),
        reasoning=_whole(said.reasoning),
        state=said.state,
        error=said.error,
        facts=said.facts,
        created=_possible(said.created),
        attachments=media,
    )


def parents_first(said: Iterable[Said]) -> Iterator[Said]:
    """Messages from the first ones down; a lost parent makes a first one, and what runs in a circle is left out."""
    said = tuple(said)
    known = {each.id for each in said}
    under: dict[str | None, list[Said]] = {}
    for each in said:
        under.setdefault(each.parent_id if each.parent_id in known else None, []).append(each)
    waiting = list(reversed(under.get(None, [])))
    while waiting:
        each = waiting.pop()
        yield each
        waiting += reversed(under.get(each.id, []))


def join_runs(said: Sequence[Said], leaf: str | None) -> tuple[tuple[Said, ...], str | None]:
    """Make one message of several by the same side in a row, as between steps of a tool; and the leaf after that."""
    children: dict[str | None, int] = {}
    for each in said:
        children[each.parent_id] = children.get(each.parent_id, 0) + 1
    joined: dict[str, Said] = {}
    place: dict[str, str] = {}
    for each in parents_first(said):
        parent = joined.get(place.get(each.parent_id or "", ""))
        if parent is not None and parent.role == each.role and children[each.parent_id] == 1:
            place[each.id] = parent.id
            joined[parent.id] = _joined(parent, each)
        else:
            place[each.id] = each.id
            joined[each.id] = replace(each, parent_id=parent.id if parent is not None else None)
    return tuple(joined.values()), place.get(leaf or "")


def _joined(first: Said, second: Said) -> Said:
    text = "\n\n".join(part for part in (first.text, second.text) if part)
    reasoning = "\n\n".join(part for part in (first.reasoning, second.reasoning) if part)
    return replace(first, text=text, reasoning=reasoning, media=first.media + second.media)
