"""The token ids of earlier replies, so that a conversation is read back exactly as it was generated.

Decoding a reply and tokenising its text again can give other tokens; then nothing after them would be found in the
prefix cache.
"""

from __future__ import annotations

import re
import threading
from array import array
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from engine.chat_shape import ChatShape, learn_shape
from engine.messages import tokenizer_of

_KEPT_BYTES = 8_000_000
_ENTRY_BYTES = 256
"""What one reply takes besides its ids."""


class History:
    """What was answered to which prompt; any thread may ask.

    Args:
        processor: of the model, with its tokenizer and chat template.
        pads: tokens that stand for media; a reply with one in it cannot be read back.
    """

    def __init__(self, processor: Any, pads: Iterable[int] = ()) -> None:
        self._processor, self._pads = processor, frozenset(pads)
        self._lock = threading.Lock()
        self._shapes: dict[str, ChatShape] = {}
        self._replies: OrderedDict[bytes, array[int]] = OrderedDict()
        self._nbytes = 0

    def spelling(self, options: Mapping[str, Any]) -> Spelling:
        """A tokeniser for one prompt, rendered with these template options."""
        return Spelling(self, tokenizer_of(self._processor), self._shape(options))

    def record(self, prompt: bytes, text: str, ids: Sequence[int]) -> None:
        """Remember a reply.

        Args:
            prompt: digest of the spelling of the prompt that it answers.
            text: as shown, and as later turns will repeat it.
            ids: what was generated, without an end token.
        """
        if not text.strip() or self._pads.intersection(ids):
            return
        key, packed = _reply_key(prompt, text), array("I", ids)
        with self._lock:
            self._nbytes += _size(packed) - _size(self._replies.pop(key, None))
            self._replies[key] = packed
            while self._nbytes > _KEPT_BYTES:
                self._nbytes -= _size(self._replies.popitem(last=False)[1])

    def reply(self, prompt: bytes, text: str) -> array[int] | None:
        """The ids of a reply that was recorded."""
        with self._lock:
            return self._replies.get(_reply_key(prompt, text))

    def snapshot(self) -> dict[str, Any]:
        """How many replies are remembered, and what they take, in MB of 1e6 bytes."""
        with self._lock:
            count, nbytes = len(self._replies), self._nbytes
        return {"entry_count": count, "current_memory_mb": nbytes / 1e6, "max_memory_mb": _KEPT_BYTES / 1e6}

    def openers(self) -> list[str]:
        """What has come before replies so far: thinking on and off differ."""
        with self._lock:
            return [shape.opener for shape in self._shapes.values() if shape.opener and shape.closer]

    def _shape(self, options: Mapping[str, Any]) -> ChatShape:
        name = repr(sorted(options.items()))
        with self._lock:
            shape = self._shapes.get(name)
        if shape is None:
            shape = learn_shape(self._processor, options)
            with self._lock:
                self._shapes[name] = shape
        return shape


class Spelling:
    """Tokenises one rendered prompt, piece by piece; replies that are known keep their ids.

    Attributes:
        shape: of the chat.
    """

    def __init__(self, history: History, tokenizer: Any, shape: ChatShape) -> None:
        self.shape = shape
        self._history, self._tokenizer = history, tokenizer
        self._hash = blake2b(digest_size=16)

    @property
    def digest(self) -> bytes:
        """Stands for the text spelt so far."""
        return self._hash.digest()

    def encode(self, text: str) -> list[int]:
        """Token ids of the prompt's next piece of text."""
        ids: list[int] = []
        done = hashed = 0
        for start in self._reply_starts(text):
            if start < done:
                continue
            end = text.find(self.shape.closer, start)
            if end < 0:
                end = len(text)  # an answer that is to be gone on with
            self._hash.update(text[hashed:start].encode())
            hashed = start
            known = self._history.reply(self.digest, text[start:end])
            if known is not None:
                ids += [*self._plain(text[done:start]), *known]
                done = end
        self._hash.update(text[hashed:].encode())
        return ids + self._plain(text[done:])

    def _reply_starts(self, text: str) -> list[int]:
        if not self.shape.closer:
            return []
        found = {m.end() for opener in self._history.openers() for m in re.finditer(re.escape(opener), text)}
        return sorted(found)

    def _plain(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False)) if text else []


def _reply_key(prompt: bytes, text: str) -> bytes:
    """Stands for a reply to a prompt: the words themselves would take several times what their ids take."""
    return blake2b(prompt + text.strip().encode(errors="surrogatepass"), digest_size=16).digest()


def _size(ids: array[int] | None) -> int:
    return 0 if ids is None else _ENTRY_BYTES + ids.itemsize * len(ids)
