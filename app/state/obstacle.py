"""What keeps a draft from being sent, or should be known before it is, in one sentence with a way out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.state.attachment import NOUNS, Attachment, Kind
from app.state.chips import Chip
from app.state.forecast import Cost
from app.state.model import Model
from app.state.reading import MAX_TEXT

_CANNOT: dict[Kind, str] = {
    "image": "cannot see pictures",
    "video": "cannot watch clips",
    "audio": "cannot hear sound",
    "pdf": "cannot see the pages of documents",
}


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One sentence and what can be done about it.

    Attributes:
        remove: ids of the attachments whose removal helps.
        remedy: what the button says that removes them.
        damaged: id of the attachment that can be sent although it is damaged.
        stills: ids of clips whose first frames the model could see as pictures.
        blocks: the draft cannot be sent as it is.
    """

    sentence: str
    remove: tuple[str, ...] = ()
    remedy: str = ""
    damaged: str = ""
    stills: tuple[str, ...] = ()
    blocks: bool = True


def unfit(attachment: Attachment | None, model: Model) -> str | None:
    """Why the loaded model cannot read an attachment; None if it can, or while that is not known."""
    if attachment is None or model.status != "ready" or attachment.needs is None or attachment.needs in model.takes:
        return None
    return f"{model.name} {_CANNOT[attachment.kind]}"


def left_out(asked: Sequence[Attachment], model: Model) -> str | None:
    """What to say when a question is answered without some of its attachments."""
    found = {item.name: reason for item in asked if (reason := unfit(item, model)) is not None}
    return f"{_together(found.values(), model)}, so it answers without {', '.join(found)}." if found else None


def _together(reasons: Iterable[str], model: Model) -> str:
    """Reasons that all begin with the model's name as one."""
    first, *others = sorted(set(reasons))
    return " and ".join([first, *(reason.removeprefix(f"{model.name} ") for reason in others)])


def obstacle(
    text: str, chips: Sequence[Chip], before: Iterable[Attachment], model: Model, cost: Cost | None, trouble: str = ""
) -> Obstacle | None:
    """The most pressing thing about a draft.

    Args:
        text: of the draft.
        chips: of the draft.
        before: attachments of the chat so far.
        model: which would answer.
        cost: of sending it, if known.
        trouble: what the engine has against it, in a sentence.
    """
    return (
        _failed(chips)
        or _unfit(chips, model)
        or _long(text)
        or _too_much(chips, model, cost)
        or (Obstacle(trouble, blocks=False) if trouble else None)
        or (_forgotten(before, model) if text or chips else None)
    )


def _failed(chips: Sequence[Chip]) -> Obstacle | None:
    failed = [chip for chip in chips if chip.state == "failed"]
    if not failed:
        return None
    ids = tuple(chip.id for chip in failed)
    if len(failed) == 1:
        chip = failed[0]
        return Obstacle(chip.error or "", ids, "Remove it", chip.id if chip.partial else "")
    names = ", ".join(chip.name for chip in failed[:3]) + (" and others" if len(failed) > 3 else "")
    return Obstacle(f"{len(failed)} files could not be read: {names}. Remove them to send.", ids, "Remove them")


def _unfit(chips: Sequence[Chip], model: Model) -> Obstacle | None:
    ready = [(chip.id, chip.attachment) for chip in chips if chip.attachment is not None and chip.state == "ready"]
    found = {chip_id: reason for chip_id, item in ready if (reason := unfit(item, model)) is not None}
    if not found:
        return None
    clips = tuple(chip_id for chip_id, item in ready if chip_id in found and item.kind == "video")
    stills = clips if "image" in model.takes else ()
    way_out = "Choose another model, or send without"
    if stills:
        way_out += (
            ", or with the first frame as a picture" if len(stills) == 1 else ", or with first frames as pictures"
        )
    return Obstacle(
        f"{_together(found.values(), model)}. {way_out}.", tuple(found), "Remove what it cannot read", stills=stills
    )


def _long(text: str) -> Obstacle | None:
    if len(text) <= MAX_TEXT:
        return None
    return Obstacle(
        f"This text has {len(text) / 1e6:.1f} million characters. "
        f"A message can hold {MAX_TEXT // 1_000_000} million: shorten it to send."
    )


def _too_much(chips: Sequence[Chip], model: Model, cost: Cost | None) -> Obstacle | None:
    if cost is None or cost.fits:
        return None
    more = "more than " if cost.at_least else ""
    sentence = (
        f"This takes {more}{cost.tokens:,} tokens, but {model.name} reads fewer than {cost.context:,} in one chat."
    )
    parts = {chip.id: cost.parts.get(chip.attachment.id, 0) for chip in chips if chip.attachment is not None}
    names = {chip.id: chip.name for chip in chips}
    over, gone = cost.tokens - cost.context + 1, list[str]()
    for chip_id in sorted(parts, key=lambda each: -parts[each]):
        if over > 0:
            gone.append(chip_id)
            over -= parts[chip_id]
    if over > 0:
        return Obstacle(f"{sentence} Shorten the message, or start a new chat.")
    what = f"{names[gone[0]]} ({parts[gone[0]]:,} tokens)" if len(gone) == 1 else f"{len(gone)} attachments"
    remedy = "Remove it" if len(gone) == 1 else "Remove them"
    return Obstacle(f"{sentence} Remove {what}, or start a new chat.", tuple(gone), remedy)


def _forgotten(before: Iterable[Attachment], model: Model) -> Obstacle | None:
    kinds = sorted({item.kind for item in before if unfit(item, model) is not None})
    if not kinds:
        return None
    what = " and ".join(f"{NOUNS[kind]}s" for kind in kinds)
    return Obstacle(
        f"{model.name} cannot read the {what} earlier in this chat, and answers without them.", blocks=False
    )
