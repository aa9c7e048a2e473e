"""Chat messages or a raw prompt → token ids, media slots and rotary positions; NumPy only."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from engine.errors import MediaError, RequestRejected
from engine.messages import (
    NOUNS,
    Guarded,
    MediaKind,
    MediaSource,
    Message,
    fetched,
    format_chat,
    is_document,
    kinds_of,
    media_of,
    render,
    with_fetched,
    with_pages,
)
from engine.reader import NO_PATCHES, MediaModel, MediaReader, Placed, Reader

__all__ = ["MediaItem", "PreparedPrompt", "PromptModel", "format_chat", "prepare_messages", "prepare_prompt"]

Encode = Callable[[str], list[int]]


@dataclass(frozen=True, slots=True)
class MediaItem:
    """One picture, clip or sound of a prompt: where its tokens stand and what its tower reads.

    Attributes:
        key: fingerprint of the upright pixels (or samples), of frame times and of the processor's geometry.
        slots: (start, length) token ranges, in order; a picture has one, a clip one per group of frames.
        patches: float32 as the model's family cuts it, such as ``(t*h*w, channels * patch volume)``; empty where
            only ``read`` gets them.
        grid: (t, h, w) in patches; zeros where positions do not depend on it.
        at_once: most patches that go through the tower together.
        mask: which frames of a sound are real; None where all are.
        read: gets patches that were left unread, since it was known from an earlier turn, or let go; None where they
            can be had only once.
    """

    key: str
    kind: MediaKind
    slots: tuple[tuple[int, int], ...]
    patches: NDArray[np.float32]
    grid: tuple[int, int, int]
    at_once: int
    mask: NDArray[np.bool_] | None = None
    read: Callable[[], Placed] | None = None

    @property
    def unread(self) -> bool:
        """Whether its patches must be read before it can be encoded."""
        return self.read is not None and not self.patches.size

    def light(self) -> MediaItem:
        """The same without patches, where they can be had again."""
        return self if self.read is None else replace(self, patches=NO_PATCHES, mask=None)

    def complete(self) -> MediaItem:
        """The same with its patches; reads them if need be.

        Raises:
            MediaError: its source cannot be read any more, or holds something else by now.
        """
        if self.read is None or not self.unread:
            return self
        placed = self.read()
        if placed.key != self.key:
            raise MediaError(f"A {NOUNS[self.kind]} of this chat has just been changed. Send the question again.")
        return replace(self, patches=placed.patches, mask=placed.mask)

    @property
    def end(self) -> int:
        """Position after its last token."""
        return self.slots[-1][0] + self.slots[-1][1]

    @property
    def tokens(self) -> int:
        """Prompt tokens this item takes."""
        return sum(length for _, length in self.slots)


@dataclass(frozen=True, slots=True)
class PreparedPrompt:
    """All that prefill needs, as host data.

    Attributes:
        ids: prompt token ids, media placeholders expanded.
        positions: ``(3, len(ids))`` int32 rotary positions (time, height, width); None for models without M-RoPE.
        rope_delta: what to add to a token's index to get its position after the prompt.
    """

    ids: tuple[int, ...]
    media: tuple[MediaItem, ...]
    positions: NDArray[np.int32] | None
    rope_delta: int


class PromptModel(MediaModel, Protocol):
    """What preparation asks of a model; ``engine.models.port.Port`` is one.

    Attributes:
        takes: kinds of media it reads.
        pads: the token of each kind whose embeddings the tower's features replace.
        markers: regular expressions for what chat templates write where a piece of media belongs.
        uses_mrope: whether positions are three-dimensional.
        merge_size: patches per token along each side, where they are.
    """

    tokenizer: Any
    processor: Any
    takes: frozenset[MediaKind]
    pads: dict[MediaKind, int]
    markers: dict[MediaKind, str]
    uses_mrope: bool
    merge_size: int


def prepare_messages(
    model: PromptModel,
    messages: Sequence[Message],
    reader: MediaReader | None = None,
    encode: Encode | None = None,
    **template_options: Any,
) -> PreparedPrompt:
    """Prepare a conversation; special tokens typed by a person stay plain text.

    Args:
        model: the port to it.
        messages: in the usual content-part form, media inline.
        reader: what reads the media; None takes its defaults.
        encode: tokenises the rendered text, piece after piece; None takes the tokenizer as it is.
        template_options: for the chat template.

    Raises:
        MediaError: a picture, clip, sound or document cannot be read.
        RequestRejected: the messages cannot be rendered, or hold what the model does not take.
    """
    reader = reader or Reader()
    _check_takes(model, kinds_of(messages))
    messages = with_pages(with_fetched(messages, reader.fetch), reader.pages)
    sources = media_of(messages)
    guarded = render(model.processor, messages, **template_options)
    return assemble(model, guarded, [reader.place(model, source) for source in sources], encode)


def prepare_prompt(
    model: PromptModel,
    prompt: str,
    images: Sequence[Any] = (),
    videos: Sequence[Any] = (),
    audio: Sequence[Any] = (),
    reader: MediaReader | None = None,
    encode: Encode | None = None,
) -> PreparedPrompt:
    """Prepare a rendered prompt whose placeholders stand for the media, in order within each kind.

    Args:
        model: the port to it.
        prompt: with one placeholder for each piece of media.
        images: in the order of their placeholders.
        videos: likewise.
        audio: likewise.
        reader: how to read clips; None takes its defaults.
        encode: as in ``prepare_messages``.

    Raises:
        MediaError: a picture, clip or sound cannot be read.
        RequestRejected: the prompt is empty, its placeholders and the media differ in number, or the model does not
            take a kind of media.
    """
    reader = reader or Reader()
    given: tuple[tuple[MediaKind, Sequence[Any]], ...] = (("image", images), ("video", videos), ("audio", audio))
    _check_takes(model, {kind for kind, found in given if found})
    sources = [fetched(MediaSource(kind, source), reader.fetch) for kind, found in given for source in found]
    sources = [one for source in sources for one in _pictures(source, reader)]
    return assemble(model, Guarded((prompt,), ()), [reader.place(model, source) for source in sources], encode)


_REFUSALS: dict[MediaKind, str] = {
    "image": "This model cannot see pictures. Remove them, or choose a model that takes images.",
    "video": "This model cannot watch clips. Remove them, or choose a model that takes video.",
    "audio": "This model cannot hear sound. Remove it, or choose a model that takes audio.",
}


def _check_takes(model: PromptModel, kinds: Set[MediaKind]) -> None:
    for kind, sentence in _REFUSALS.items():
        if kind in kinds and kind not in model.takes:
            raise RequestRejected(sentence)


def _pictures(source: MediaSource, reader: MediaReader) -> list[MediaSource]:
    """The pages of a document that was given as a picture; other sources as they are."""
    if source.kind != "image" or not is_document(source.source):
        return [source]
    return [replace(source, source=page.picture) for page in reader.pages(source.source, None, source.name)]


def assemble(
    model: PromptModel, text: Guarded, placed: Sequence[Placed], encode: Encode | None = None
) -> PreparedPrompt:
    """Put laid-out media into rendered text and tokenise it.

    Args:
        model: the port to it.
        text: rendered.
        placed: the media, in order within each kind.
        encode: as in ``prepare_messages``.

    Raises:
        RequestRejected: nothing remains, or placeholders and media differ in number.
    """
    ids, starts = _tokenise(model, text, placed, encode or partial(_encode, model.tokenizer))
    if not ids:
        raise RequestRejected("The prompt is empty. Write something, or add a picture.")
    media = _items(placed, starts)
    if media and media[-1].slots[-1][0] + media[-1].slots[-1][1] == len(ids):
        raise RequestRejected(f"The prompt ends with a {NOUNS[media[-1].kind]}. Add words after it.")
    positions, delta = mrope_positions(len(ids), media, model.merge_size) if model.uses_mrope else (None, 0)
    return PreparedPrompt(tuple(ids), tuple(media), positions, delta)


def _tokenise(
    model: PromptModel, text: Guarded, placed: Sequence[Placed], encode: Encode
) -> tuple[list[int], list[list[int]]]:
    """Token ids with every pad expanded to its run, and where the runs of each item start."""
    filled, order = _fill(model, text.pieces, placed)
    runs = iter([(number, length) for number in order for length in placed[number].layout.runs])
    pads = set(model.pads.values())
    ids: list[int] = []
    starts: list[list[int]] = [[] for _ in placed]
    for index, piece in enumerate(filled):
        if index:
            # Cut inside the special token's text, so that neither half is recognised as special.
            typed = text.typed[index - 1]
            ids += _encode(model.tokenizer, typed[:1]) + _encode(model.tokenizer, typed[1:])
        for token in encode(piece):
            if token not in pads:
                ids.append(token)
                continue
            number, length = next(runs)
            starts[number].append(len(ids))
            ids += [token] * length
    return ids, starts


def _fill(model: PromptModel, pieces: Sequence[str], placed: Sequence[Placed]) -> tuple[list[str], list[int]]:
    """The text with each placeholder replaced by its item's, and the items' numbers in reading order."""
    waiting: dict[MediaKind, deque[int]] = {kind: deque() for kind in model.markers}
    for number, item in enumerate(placed):
        waiting[item.kind].append(number)
    slots: dict[MediaKind, int] = dict.fromkeys(model.markers, 0)
    order: list[int] = []

    def replace(match: re.Match[str]) -> str:
        kind = cast("MediaKind", match.lastgroup)
        slots[kind] += 1
        if not waiting[kind]:
            return ""
        order.append(waiting[kind].popleft())
        return placed[order[-1]].layout.text

    pattern = re.compile("|".join(f"(?P<{kind}>{marker})" for kind, marker in model.markers.items()) or "(?!)")
    filled = [pattern.sub(replace, piece) for piece in pieces]
    for kind, found in slots.items():
        given = sum(item.kind == kind for item in placed)
        if found != given:
            noun = NOUNS[kind]
            raise RequestRejected(f"The prompt has {_count(found, f'{noun} slot')}, but {_given(given, noun)} given.")
    return filled, order


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _given(number: int, noun: str) -> str:
    return f"{_count(number, noun)} {'was' if number == 1 else 'were'}"


def _items(placed: Sequence[Placed], starts: Sequence[Sequence[int]]) -> list[MediaItem]:
    """The media in the order of their tokens."""
    items = [
        MediaItem(
            key=item.key,
            kind=item.kind,
            slots=tuple(zip(begun, item.layout.runs, strict=True)),
            patches=item.patches,
            grid=item.layout.grid,
            at_once=item.layout.at_once,
            mask=item.mask,
            read=item.read,
        )
        for item, begun in zip(placed, starts, strict=True)
    ]
    return sorted(items, key=lambda item: item.slots[0][0])


def _encode(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer.encode(text, add_special_tokens=False)) if text else []


def mrope_positions(length: int, media: Sequence[MediaItem], merge_size: int) -> tuple[NDArray[np.int32], int]:
    """Rotary positions of a prompt with media (M-RoPE of Qwen2-VL, arXiv 2409.12191, section 2.1).

    Text counts up in all three components; the tokens of a picture (or of one group of frames) share a time and take
    their row and column; the next text goes on after the largest component.

    Returns:
        Positions ``(3, length)`` int32 and the delta between index and position for what follows.
    """
    positions = np.empty((3, length), np.int32)
    done, base = 0, 0
    for start, count, rows, columns in _visual_slots(media, merge_size):
        positions[:, done:start] = np.arange(base, base + start - done)
        base += start - done
        steps = count // (rows * columns)
        positions[:, start : start + count] = base + np.indices((steps, rows, columns), np.int32).reshape(3, -1)
        base += max(steps, rows, columns)
        done = start + count
    positions[:, done:] = np.arange(base, base + length - done)
    return positions, base - done


def _visual_slots(media: Sequence[MediaItem], merge_size: int) -> Iterator[tuple[int, int, int, int]]:
    """(start, tokens, rows, columns) of every slot."""
    for item in media:
        for start, count in item.slots:
            yield start, count, item.grid[1] // merge_size, item.grid[2] // merge_size
