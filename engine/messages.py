"""Chat messages: what they show, what they say, and how the model's own template writes them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from engine.errors import MediaError, RequestRejected
from engine.media.signature import Signature, sniff
from engine.media.source import Located, is_remote, locate
from engine.think_tags import ThinkTags

Message = Mapping[str, Any]
MediaKind = Literal["image", "video", "audio"]

_KEYS: dict[str, tuple[str, ...]] = {
    "image": ("image", "image_url", "input_image"),
    "video": ("video", "video_url", "input_video"),
    "audio": ("audio", "audio_url", "input_audio"),
}
_KINDS: dict[str, MediaKind] = {key: cast("MediaKind", kind) for kind, keys in _KEYS.items() for key in keys}
NOUNS: dict[MediaKind, str] = {"image": "picture", "video": "clip", "audio": "sound"}
_DETAILS = ("fps", "start", "end", "name", "seconds")
_GUARD = re.compile("\ue000([0-9]+)\ue001")


@dataclass(frozen=True, slots=True)
class MediaSource:
    """One picture, clip or sound as it was given.

    Attributes:
        source: a path, ``data:`` URL, address of the web or bytes; pictures also as a Pillow image or already read.
        fps: frames to sample per second of a clip; None takes the default.
        start: where to begin in a clip, in seconds.
        end: where to end in it.
        name: what to call it in sentences; None takes the file's name.
        seconds: of a sound, where its caller has read it before; spares estimates a guess by its header.
    """

    kind: MediaKind
    source: Any
    fps: float | None = None
    start: float | None = None
    end: float | None = None
    name: str | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a document as a picture source; ``label`` such as ``page 3`` is told to the model."""

    label: str
    picture: Any


def format_chat(
    processor: Any, messages: Sequence[Message], *, continue_final: bool = False, **template_options: Any
) -> str:
    """Render chat messages with the model's own template, ready for an answer.

    Args:
        processor: what ``load_model`` returned.
        messages: ``{"role": …, "content": text or parts}``; parts are ``{"type": "text", "text": …}`` and
            ``{"type": "image"}``, ``"video"`` or ``"audio"`` in the order they should be read.
        continue_final: the last message is the beginning of the answer (its thoughts in ``reasoning_content``), which
            the model goes on with.
        template_options: passed to the template, such as ``enable_thinking=True``.

    Raises:
        RequestRejected: the template refuses these messages, or there is no answer to go on with.
    """
    if continue_final:
        if not messages or messages[-1]["role"] != "assistant":
            raise RequestRejected("There is no answer to continue. Ask a question instead.")
        # Exactly what the answer was begun with: templates write a past answer in other words, and its end as well.
        prompt, tags = format_chat(processor, messages[:-1], **template_options), ThinkTags.of(tokenizer_of(processor))
        return _begun(prompt, _plain(messages[-1]), tags)
    # The tokenizer's own method: some processors override it with one that loads the media it finds.
    renderer = tokenizer_of(processor)
    template = getattr(processor, "chat_template", None) or getattr(renderer, "chat_template", None)
    try:
        text = renderer.apply_chat_template(
            [_plain(message) for message in messages],
            chat_template=template,
            tokenize=False,
            add_generation_prompt=True,
            **template_options,
        )
    except Exception as error:
        # Templates are programs written by others: any exception may come out, with a message meant for the caller.
        raise RequestRejected(f"This model's chat template refuses the conversation: {error}.") from error
    return str(text)


def _begun(prompt: str, answer: Message, tags: ThinkTags) -> str:
    """The prompt with the beginning of its answer behind it, thoughts first, whoever has opened their block."""
    thoughts, words = str(answer.get("reasoning_content") or ""), str(answer["content"])
    if not prompt.rstrip().endswith(tags.opens + tags.title):
        if not thoughts or prompt.rstrip().endswith(tags.closes):
            return prompt + words
        prompt += tags.opening
    return prompt + thoughts + (tags.closing + words if words else "")


def tokenizer_of(processor: Any) -> Any:
    """A processor's tokenizer; models that only read text have nothing else."""
    return getattr(processor, "tokenizer", processor)


def _plain(message: Message) -> dict[str, Any]:
    """The message without media data: templates want the kind of each part, not its bytes."""
    content = message["content"]
    if isinstance(content, str):
        return {**message}
    parts = [_plain_part(part) for part in content]
    if all(part["type"] == "text" for part in parts):
        # Templates of text-only models know no parts, and some drop them without a word.
        return {**message, "content": "".join(part["text"] for part in parts)}
    return {**message, "content": parts}


def _plain_part(part: Mapping[str, Any]) -> dict[str, Any]:
    if part["type"] == "text":
        return {"type": "text", "text": part["text"]}
    return {"type": _KINDS.get(part["type"], part["type"])}


def media_of(messages: Sequence[Message]) -> list[MediaSource]:
    """The pictures, clips and sounds inside messages, in reading order; documents must have been spread out before.

    Raises:
        RequestRejected: a part is of an unknown type or holds nothing.
    """
    found = []
    for part in _parts(messages):
        kind = _KINDS.get(part["type"])
        if kind is not None:
            found.append(MediaSource(kind, _source(part, kind), *(part.get(key) for key in _DETAILS)))
        elif part["type"] != "text":
            raise RequestRejected(
                f"Parts of type “{part['type']}” are not supported. Use text, image, video, audio and pdf parts."
            )
    return found


def kinds_of(messages: Sequence[Message]) -> set[MediaKind]:
    """The kinds of media that a model must take for these messages; a document is read as pictures."""
    kinds: dict[str, MediaKind] = {**_KINDS, "pdf": "image"}
    return {kinds[part["type"]] for part in _parts(messages) if part["type"] in kinds}


Fetch = Callable[[str, MediaKind | Literal["pdf"]], Located]
"""Gets what is at an address of the web, which ought to be of that kind."""


def holds_addresses(messages: Sequence[Message]) -> bool:
    """Whether any part's source is an address of the web."""
    return any(is_remote(_given(part, kind)) for part in _parts(messages) if (kind := _kind(part)) is not None)


def with_fetched(messages: Sequence[Message], fetch: Fetch | None) -> list[Message]:
    """Messages in which what is on the web is there as bytes; as they are where nothing may be fetched.

    Raises:
        MediaError: it cannot be fetched.
    """
    if fetch is None or not holds_addresses(messages):
        return list(messages)
    return [
        message
        if isinstance(message["content"], str)
        else {**message, "content": [_fetched_part(part, fetch) for part in message["content"]]}
        for message in messages
    ]


def fetched(source: MediaSource, fetch: Fetch | None) -> MediaSource:
    """The same with what is at its address, if that is one of the web and may be fetched."""
    if fetch is None or not is_remote(source.source):
        return source
    found = fetch(source.source, source.kind)
    return replace(source, source=found.data, name=source.name or found.name)


def _fetched_part(part: Mapping[str, Any], fetch: Fetch) -> Mapping[str, Any]:
    kind = _kind(part)
    if kind is None or not is_remote(source := _given(part, kind)):
        return part
    found = fetch(source, kind)
    rest = {key: value for key, value in part.items() if key not in (*_KEYS.get(kind, ()), "pdf")}
    return {**rest, kind: found.data, "name": part.get("name") or found.name}


def _kind(part: Mapping[str, Any]) -> MediaKind | Literal["pdf"] | None:
    return "pdf" if part["type"] == "pdf" else _KINDS.get(part["type"])


Pages = Callable[[Any, range | None, str | None], list[Page]]
"""Gives the chosen pages (counted from 0, all if None) of a document that is called so."""


def with_pages(messages: Sequence[Message], pages: Pages) -> list[Message]:
    """Messages in which each document is a row of page pictures, each after its label.

    Args:
        messages: with ``{"type": "pdf", "pdf": source, "pages": [first, last]}`` parts, pages counted from 1 and all
            of them if left out; a picture part whose source is a PDF file is one, too.
        pages: draws or measures them.

    Raises:
        MediaError: a document cannot be read.
        RequestRejected: the pages are no range.
    """
    return [
        message
        if isinstance(message["content"], str)
        else {**message, "content": [one for part in message["content"] for one in _spread(part, pages)]}
        for message in messages
    ]


def _spread(part: Mapping[str, Any], pages: Pages) -> list[Mapping[str, Any]]:
    if part["type"] == "pdf":
        found = pages(_source(part, "pdf"), _page_range(part.get("pages")), part.get("name"))
    elif _KINDS.get(part["type"]) == "image" and is_document(_source(part, "image")):
        found = pages(_source(part, "image"), None, part.get("name"))
    else:
        return [part]
    return [
        one
        for page in found
        for one in ({"type": "text", "text": f"{page.label}\n"}, {"type": "image", "image": page.picture})
    ]


def _page_range(pages: Any) -> range | None:
    if pages is None:
        return None
    first, last = (pages, pages) if isinstance(pages, int) else pages
    if not 1 <= first <= last:
        raise RequestRejected(f"Pages {first} to {last} are no range. Give the first page, then the last, from 1 on.")
    return range(first - 1, last)


def is_document(source: Any) -> bool:
    """Whether a source holds a PDF document; False for what cannot be opened, so that its reader says why."""
    if not isinstance(source, (str, bytes, os.PathLike)):
        return False
    try:
        return sniff(locate(source).head()) is Signature.PDF
    except MediaError:
        return False


def _parts(messages: Sequence[Message]) -> Iterator[Mapping[str, Any]]:
    for message in messages:
        if not isinstance(message["content"], str):
            yield from message["content"]


def _given(part: Mapping[str, Any], kind: MediaKind | Literal["pdf"]) -> Any:
    source = next((part[key] for key in (*_KEYS.get(kind, ()), "pdf") if key in part), None)
    return source.get("url", source.get("data")) if isinstance(source, Mapping) else source


def _source(part: Mapping[str, Any], kind: MediaKind | Literal["pdf"]) -> Any:
    source = _given(part, kind)
    if source is None:
        noun = "document" if kind == "pdf" else NOUNS[kind]
        raise RequestRejected(f"A part of type “{kind}” holds no {noun}. Give it as path, bytes or data URL.")
    return source


@dataclass(frozen=True, slots=True)
class Guarded:
    """A rendered conversation cut where a person typed a special token.

    Attributes:
        pieces: template text and guarded words; special tokens in them are real ones.
        typed: the special tokens typed between the pieces, to be read as plain text.
    """

    pieces: tuple[str, ...]
    typed: tuple[str, ...]


def render(processor: Any, messages: Sequence[Message], **template_options: Any) -> Guarded:
    """Render messages so that special tokens typed by a person stay plain text.

    Raises:
        RequestRejected: the template refuses these messages.
    """
    specials = _special_pattern(tokenizer_of(processor))
    typed: list[str] = []
    text = format_chat(processor, [_guard(m, specials, typed) for m in messages], **template_options)
    cut = _GUARD.split(text)
    return Guarded(tuple(cut[::2]), tuple(typed[int(number)] for number in cut[1::2]))


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


def check(messages: Sequence[Message]) -> None:
    """Refuse what is no conversation.

    Raises:
        RequestRejected: a message lacks its role or content, or a part its type or text.
    """
    for message in messages:
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise RequestRejected("Every message needs a role, such as “user”.")
        content = message.get("content")
        if isinstance(content, str):
            continue
        if not isinstance(content, Sequence) or isinstance(content, bytes):
            raise RequestRejected("Every message needs content: words, or a list of parts.")
        for part in content:
            if not isinstance(part, Mapping) or not isinstance(part.get("type"), str):
                raise RequestRejected("Every part of a message needs a type, such as “text” or “image”.")
            if part["type"] == "text" and not isinstance(part.get("text"), str):
                raise RequestRejected("A text part of a message holds no text.")
