"""Chat messages or a raw prompt → token ids, media slots and rotary positions; NumPy only."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from engine.errors import RequestRejected
from engine.media.fingerprint import fingerprint
from engine.media.image import read_image

Message = Mapping[str, Any]
IMAGE_KEYS = ("image", "image_url", "input_image")
_GUARD = re.compile("\ue000([0-9]+)\ue001")


@dataclass(frozen=True, slots=True)
class MediaItem:
    """One picture of a prompt: where its tokens stand and what the vision tower reads.

    Attributes:
        key: fingerprint of the upright pixels and the processor's geometry.
        slots: (start, length) token ranges, in order; a picture has one.
        patches: ``(t*h*w, channels * patch volume)`` float32.
        grid: (t, h, w) in patches.
    """

    key: str
    kind: Literal["image", "video"]
    slots: tuple[tuple[int, int], ...]
    patches: NDArray[np.float32]
    grid: tuple[int, int, int]

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


class PromptModel(Protocol):
    """What preparation asks of a model; ``engine.models.port.Port`` is one."""

    tokenizer: Any
    processor: Any
    image_token_id: int | None
    uses_mrope: bool
    merge_size: int
    geometry: str

    def patch_image(self, pixels: NDArray[np.uint8]) -> tuple[NDArray[np.float32], tuple[int, int, int]]:
        """Resize and cut upright pixels ``(height, width, 3)`` into patches; returns them and their grid."""


def format_chat(processor: Any, messages: Sequence[Message], **template_options: Any) -> str:
    """Render chat messages with the model's own template, ready for an answer.

    Args:
        processor: what ``load_model`` returned.
        messages: ``{"role": …, "content": text or parts}``; parts are ``{"type": "text", "text": …}`` and
            ``{"type": "image"}`` in the order they should be read.
        template_options: passed to the template, such as ``enable_thinking=True``.

    Raises:
        RequestRejected: the template refuses these messages.
    """
    renderer = processor if getattr(processor, "chat_template", None) else processor.tokenizer
    try:
        text = renderer.apply_chat_template(
            [_plain(message) for message in messages], tokenize=False, add_generation_prompt=True, **template_options
        )
    except Exception as error:
        # Templates are programs written by others: any exception may come out, with a message meant for the caller.
        raise RequestRejected(f"This model's chat template refuses the conversation: {error}.") from error
    return str(text)


def _plain(message: Message) -> dict[str, Any]:
    """The message without media data: templates want the kind of each part, not its bytes."""
    content = message["content"]
    if isinstance(content, str):
        return {**message}
    return {**message, "content": [_plain_part(part) for part in content]}


def _plain_part(part: Mapping[str, Any]) -> dict[str, Any]:
    if part["type"] == "text":
        return {"type": "text", "text": part["text"]}
    return {"type": "image" if part["type"] in IMAGE_KEYS else part["type"]}


def images_of(messages: Sequence[Message]) -> list[Any]:
    """The pictures inside messages, in reading order."""
    found = []
    for message in messages:
        content = message["content"]
        for part in () if isinstance(content, str) else content:
            if part["type"] in IMAGE_KEYS:
                found.append(_media_source(part))
            elif part["type"] != "text":
                raise RequestRejected(f"Parts of type “{part['type']}” are not supported. Use text and image parts.")
    return found


def _media_source(part: Mapping[str, Any]) -> Any:
    source = next((part[key] for key in IMAGE_KEYS if key in part), None)
    if isinstance(source, Mapping):
        source = source.get("url")
    if source is None:
        raise RequestRejected("An image part holds no image. Give it as path, bytes, data URL or PIL image.")
    return source


def prepare_messages(model: PromptModel, messages: Sequence[Message], **template_options: Any) -> PreparedPrompt:
    """Prepare a conversation; special tokens typed by a person stay plain text.

    Raises:
        MediaError: a picture cannot be read.
        RequestRejected: the messages cannot be rendered.
    """
    specials = _special_pattern(model.tokenizer)
    typed: list[str] = []
    text = format_chat(model.processor, [_guard(m, specials, typed) for m in messages], **template_options)
    ids: list[int] = []
    for index, piece in enumerate(_GUARD.split(text)):
        if index % 2 == 0:
            ids += _encode(model.tokenizer, piece)
        else:
            # Cut inside the special token's text, so that neither half is recognised as special.
            token = typed[int(piece)]
            ids += _encode(model.tokenizer, token[:1]) + _encode(model.tokenizer, token[1:])
    return _assemble(model, ids, images_of(messages))


def prepare_prompt(model: PromptModel, prompt: str, images: Sequence[Any] = ()) -> PreparedPrompt:
    """Prepare a rendered prompt whose placeholders stand for ``images``, in order.

    Raises:
        MediaError: a picture cannot be read.
        RequestRejected: the prompt is empty, or placeholders and pictures differ in number.
    """
    return _assemble(model, _encode(model.tokenizer, prompt), images)


def _special_pattern(tokenizer: Any) -> re.Pattern[str]:
    added = sorted(tokenizer.get_added_vocab(), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, added)) or "(?!)")


def _guard(message: Message, specials: re.Pattern[str], typed: list[str]) -> Message:
    """Replace special tokens in a person's words by private-use marks that the template passes through."""
    if message["role"] not in ("user", "tool"):
        return message

    def mark(match: re.Match[str]) -> str:
        typed.append(match.group())
        return f"\ue000{len(typed) - 1}\ue001"

    def guarded(text: str) -> str:
        return specials.sub(mark, _GUARD.sub(r"\1", text))

    content = message["content"]
    if isinstance(content, str):
        return {**message, "content": guarded(content)}
    parts = [{**p, "text": guarded(p["text"])} if p["type"] == "text" else p for p in content]
    return {**message, "content": parts}


def _encode(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer.encode(text, add_special_tokens=False)) if text else []


def _assemble(model: PromptModel, ids: Sequence[int], images: Sequence[Any]) -> PreparedPrompt:
    if not ids:
        raise RequestRejected("The prompt is empty. Write something, or add a picture.")
    slots = sum(token == model.image_token_id for token in ids)
    if images and model.image_token_id is None:
        raise RequestRejected("This model cannot see pictures. Remove them, or choose a model that takes images.")
    if slots != len(images):
        raise RequestRejected(f"The prompt has {slots} picture slots, but {len(images)} pictures were given.")
    expanded: list[int] = []
    media: list[MediaItem] = []
    sources = iter(images)
    for token in ids:
        if token == model.image_token_id:
            item = _image_item(model, next(sources), len(expanded))
            media.append(item)
            expanded += [token] * item.tokens
        else:
            expanded.append(token)
    if media and media[-1].slots[-1][0] + media[-1].slots[-1][1] == len(expanded):
        raise RequestRejected("The prompt ends with a picture. Add words after it.")
    positions, delta = mrope_positions(len(expanded), media, model.merge_size) if model.uses_mrope else (None, 0)
    return PreparedPrompt(tuple(expanded), tuple(media), positions, delta)


def _image_item(model: PromptModel, source: Any, start: int) -> MediaItem:
    picture = read_image(source)
    patches, grid = model.patch_image(picture.pixels)
    length = grid[0] * grid[1] * grid[2] // model.merge_size**2
    return MediaItem(fingerprint(picture.pixels, model.geometry), "image", ((start, length),), patches, grid)


def mrope_positions(length: int, media: Sequence[MediaItem], merge_size: int) -> tuple[NDArray[np.int32], int]:
    """Rotary positions of a prompt with media (M-RoPE of Qwen2-VL, arXiv 2409.12191, section 2.1).

    Text counts up in all three components; the tokens of a picture (or of one group of frames) share a time and take
    their row and column; the next text goes on after the largest component.

    Returns:
        Positions ``(3, length)`` int32 and the delta between index and position for what follows.
    """
    positions = np.empty((3, length), np.int32)
    done, base = 0, 0
    for item in media:
        rows, columns = item.grid[1] // merge_size, item.grid[2] // merge_size
        for start, count in item.slots:
            positions[:, done:start] = np.arange(base, base + start - done)
            base += start - done
            steps = count // (rows * columns)
            positions[:, start : start + count] = base + np.indices((steps, rows, columns), np.int32).reshape(3, -1)
            base += max(steps, rows, columns)
            done = start + count
    positions[:, done:] = np.arange(base, base + length - done)
    return positions, base - done
