"""Tokens in, text out: piece by piece, never taken back, ended by the first stop string."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

_REPLACEMENT = "\ufffd"
# An unfinished UTF-8 character is at most three bytes, and a token is at least one.
_OPEN_TOKENS = 3
_MAX_PENDING = 8


class Tokenizer(Protocol):
    """What is needed of a Hugging Face tokenizer."""

    def decode(self, token_ids: list[int], *, skip_special_tokens: bool, clean_up_tokenization_spaces: bool) -> str:
        """Return the text of token ids."""
        ...


class Detokenizer:
    """Turns one reply's tokens into text as they come.

    The pieces returned by `add` and `finish` concatenate to the decoded text of all tokens, without special tokens
    other than those in `shown`, cut before the stop string that is complete first. Held back are bytes of an unfinished
    character and whatever may be the start of a stop string. Each token costs the decoding of a short window, however
    long the reply is.

    In one corner the text is better than the tokenizer's own: where byte tokens (`<0xC3>`) of whole characters are
    followed by an invalid byte, the characters stay and only the invalid byte shows as U+FFFD.
    """

    def __init__(
        self, tokenizer: Tokenizer, stop: Sequence[str] = (), shown: Mapping[int, str] = MappingProxyType({})
    ) -> None:
        """Start a reply.

        Args:
            tokenizer: of the model.
            stop: the reply ends before any of these strings; an empty one is a ValueError.
            shown: what to write for special tokens that mean something to a reader.
        """
        # The tokenizer's own decode wraps this one in checks that take ten times as long.
        self._backend = getattr(tokenizer, "backend_tokenizer", None)
        self._tokenizer = tokenizer
        self._shown = shown
        self._stops = _StopStrings(stop)
        # Tokens shown last: decoders strip or keep a leading space by what comes before.
        self._context: list[int] = []
        self._pending: list[int] = []
        self._pieces: list[str] = []

    @property
    def text(self) -> str:
        """Everything returned so far."""
        self._pieces[:] = ["".join(self._pieces)]
        return self._pieces[0]

    @property
    def stopped(self) -> bool:
        """Whether a stop string was found; it and what follows are never part of the text."""
        return self._stops.found

    def add(self, token_id: int) -> str:
        """Take the next token and return the text that may be shown now, often empty."""
        if self.stopped:
            return ""
        if self._is_skipped(token_id):
            return self._mark(self._shown.get(token_id, ""))
        self._pending.append(token_id)
        return self._show(self._stops.push(self._settle()))

    def finish(self) -> str:
        """End the reply and return the text held back; an unfinished character shows as U+FFFD."""
        if self.stopped:
            return ""
        tail, self._pending = self._new_text(self._pending), []
        return self._show(self._stops.push(tail) + self._stops.flush())

    def _mark(self, mark: str) -> str:
        """Write a special token's mark; what is pending ends before it, as no later token changes it any more."""
        if not mark:
            return ""
        before = self._new_text(self._pending)
        self._context, self._pending = self._pending or self._context, []
        return self._show(self._stops.push(before + mark))

    def _show(self, piece: str) -> str:
        if piece:
            self._pieces.append(piece)
        return piece

    def _settle(self) -> str:
        """Return the text of pending tokens that later ones cannot change, and make those tokens the context."""
        text = self._new_text(self._pending)
        if text and not text.endswith(_REPLACEMENT):
            self._context, self._pending = self._pending, []
            return text
        return self._settle_invalid(text) if len(self._pending) > _MAX_PENDING else ""

    def _settle_invalid(self, text: str) -> str:
        """Give up on bytes that can no longer become a character, so that the window stays short."""
        newest = len(self._pending) - _OPEN_TOKENS
        for cut in range(newest, newest - 4, -1):
            certain = self._new_text(self._pending[:cut])
            if certain and text.startswith(certain):  # else the cut goes through a character
                self._context, self._pending = self._pending[:cut], self._pending[cut:]
                return certain
        return ""

    def _new_text(self, tokens: list[int]) -> str:
        """Return what tokens add after the context."""
        before, after = self._decode(self._context), self._decode(self._context + tokens)
        # Byte tokens are decoded in runs: an invalid one can spoil characters before it that are shown already.
        return after[len(before) :] if after.startswith(before) else self._decode(tokens)

    def _is_skipped(self, token_id: int) -> bool:
        """Tell special tokens from those without text of their own, such as a first lone space."""
        return not self._decode([token_id]) and bool(self._decode([token_id], skip_special_tokens=False))

    def _decode(self, tokens: list[int], *, skip_special_tokens: bool = True) -> str:
        if self._backend is not None:
            text: str = self._backend.decode(tokens, skip_special_tokens=skip_special_tokens)
            return text
        return self._tokenizer.decode(
            tokens, skip_special_tokens=skip_special_tokens, clean_up_tokenization_spaces=False
        )


class _StopStrings:
    """Lets text through up to the first stop string, holding back what may be the start of one."""

    def __init__(self, stops: Sequence[str]) -> None:
        if isinstance(stops, str) or not all(stops):
            raise ValueError("stop must be a sequence of strings that are not empty")
        self._stops = tuple(stops)
        self._longest = max(map(len, self._stops), default=0)
        self._held = ""
        self.found = False

    def push(self, text: str) -> str:
        """Return the text that may be shown."""
        text = self._held + text
        # The one complete first wins, so that the text does not depend on how it was cut into tokens.
        ends = [(at + len(stop), at) for stop in self._stops if (at := text.find(stop)) >= 0]
        if ends:
            self.found, self._held = True, ""
            return text[: min(ends)[1]]
        keep = len(text) - self._open_length(text)
        self._held = text[keep:]
        return text[:keep]

    def flush(self) -> str:
        """Return the text held back: no stop string follows any more."""
        held, self._held = self._held, ""
        return held

    def _open_length(self, text: str) -> int:
        """Return the length of the longest suffix that begins a stop string."""
        for length in range(min(len(text), self._longest - 1), 0, -1):
            if any(stop.startswith(text[-length:]) for stop in self._stops):
                return length
        return 0
