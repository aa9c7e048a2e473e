"""What a model's chat template writes around turns, learnt from a tiny conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.messages import tokenizer_of

_FIRST, _REPLY, _NEXT = "\ue100", "\ue101", "\ue102"
"""Private-use characters that stand for the texts of the tiny conversation."""
_NEAR = 32
"""Tokens so few that computing them again is cheaper than a stored state."""


@dataclass(frozen=True, slots=True)
class ChatShape:
    """Where replies and turns begin and end.

    Everything here only helps to find what can be reused; a wrong guess costs time, never a wrong answer.

    Attributes:
        opener: text before a reply: the template's generation prompt.
        closer: special token after a reply; empty where there is none.
        user_stem: token ids that begin a person's turn.
        unstable: tokens at the end of a prompt that the next turn writes differently, such as an empty think block.
    """

    opener: str = ""
    closer: str = ""
    user_stem: tuple[int, ...] = ()
    unstable: int = 0


def learn_shape(processor: Any, options: Mapping[str, Any]) -> ChatShape:
    """Read the shape off a tiny conversation; empty where the template shows none.

    Args:
        processor: what ``load_model`` returned.
        options: for the chat template.
    """
    tokenizer = tokenizer_of(processor)
    template = getattr(processor, "chat_template", None) or getattr(tokenizer, "chat_template", None)

    def render(messages: Sequence[Mapping[str, Any]], prompt: bool) -> str:
        return str(
            tokenizer.apply_chat_template(
                messages, chat_template=template, tokenize=False, add_generation_prompt=prompt, **options
            )
        )

    first = [{"role": "user", "content": _FIRST}]
    longer = [*first, {"role": "assistant", "content": _REPLY}, {"role": "user", "content": _NEXT}]
    try:
        bare, prompt, later = render(first, False), render(first, True), render(longer, True)
    except Exception:  # noqa: BLE001 - templates are programs written by others; one that fails here has no shape
        return ChatShape()
    return _shape(bare, prompt, later, tokenizer)


def _shape(bare: str, prompt: str, later: str, tokenizer: Any) -> ChatShape:
    before, mark, _ = prompt.partition(_FIRST)
    after, next_mark, _ = later.partition(_REPLY)[2].partition(_NEXT)
    if not (mark and next_mark and prompt.startswith(bare)):
        return ChatShape()

    def encode(text: str) -> list[int]:
        return list(tokenizer.encode(text, add_special_tokens=False))

    user_open = before[len(before) - _shared(before[::-1], after[::-1]) :]
    ids, closers = encode(prompt), tokenizer.get_added_vocab()
    # The last token of an opening may grow together with the words that follow.
    stem = tuple(encode(user_open))
    return ChatShape(
        opener=prompt[len(bare) :],
        closer=max((token for token in closers if after.startswith(token)), key=len, default=""),
        user_stem=stem[:-1] or stem,
        unstable=len(ids) - _shared(ids, encode(later)),
    )


def _shared(one: Sequence[Any], other: Sequence[Any]) -> int:
    """Length of the common beginning."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def store_points(ids: Sequence[int], media_ends: Sequence[int], shape: ChatShape) -> tuple[int, ...]:
    """Lengths at which a state is worth keeping, since another prompt is likely to go on from there.

    These are the end of the system prompt, the beginning of the last question, the end of its media, and the end of
    the prompt as the next turn will repeat it.

    Args:
        ids: of the prompt.
        media_ends: positions after each picture, clip or sound.
        shape: of the model's chats.
    """
    end = len(ids) - 1
    turns = _occurrences(ids, shape.user_stem)
    points = {turns[0], turns[-1]} if turns else set()
    points.update(media_ends[-1:])
    kept: list[int] = []
    for point in sorted(points):
        if point - (kept[-1] if kept else 0) >= _NEAR or point in media_ends:
            kept.append(point)
    # The last token of the prompt is fed by the first decode step.
    return (*(point for point in kept if point < end - shape.unstable), min(len(ids) - shape.unstable, end))


def _occurrences(ids: Sequence[int], stem: Sequence[int]) -> list[int]:
    """Positions after each occurrence of ``stem``."""
    if not stem or len(ids) < len(stem):
        return []
    windows = np.lib.stride_tricks.sliding_window_view(np.asarray(ids), len(stem))
    return [int(place) + len(stem) for place in np.flatnonzero((windows == np.asarray(stem)).all(axis=1))]
