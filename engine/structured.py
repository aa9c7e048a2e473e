"""Answers that follow a JSON schema: before each token is sampled, the ones that would break it are ruled out."""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from engine.errors import RequestRejected

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

_WORD = 32


class Grammars:
    """Turns JSON schemas into matchers over one model's tokens; safe from several threads, no MLX.

    Args:
        tokenizer: the model's.
        vocab_size: width of its logits.
        stop_ids: tokens that may end an answer once the schema is satisfied.
    """

    def __init__(self, tokenizer: Any, vocab_size: int, stop_ids: Collection[int]) -> None:
        self._tokenizer, self._vocab_size = tokenizer, vocab_size
        self._stop_ids = sorted(token for token in stop_ids if token < vocab_size)
        self._lock = threading.Lock()
        self._vocabulary: LLTokenizer | None = None

    def matcher(self, schema: Mapping[str, Any]) -> LLMatcher:
        """Follows one answer.

        Raises:
            RequestRejected: the schema is not valid, or the tokenizer is of a kind that cannot be guided.
        """
        # Imported late: few requests need it.
        from llguidance import JsonCompiler, LLMatcher

        try:
            # Fixed separators: a small model that may put white space anywhere tends to go on with it for ever.
            grammar = JsonCompiler(separators=(", ", ": "), whitespace_pattern="").compile(json.dumps(schema))
            matcher = LLMatcher(self._known_vocabulary(), grammar)
        except ValueError as error:
            raise _rejected(str(error)) from error
        if problem := matcher.get_error():
            raise _rejected(problem)
        return matcher

    def _known_vocabulary(self) -> LLTokenizer:
        from llguidance.hf import from_tokenizer

        with self._lock:
            if self._vocabulary is None:
                # Walks the whole vocabulary: about a second for a large one.
                self._vocabulary = from_tokenizer(self._tokenizer, self._vocab_size, self._stop_ids)
            return self._vocabulary


def _rejected(problem: str) -> RequestRejected:
    return RequestRejected(f"The JSON schema cannot be used: {problem.splitlines()[0].rstrip('.')}. Correct it.")


@dataclass(slots=True)
class SchemaRule:
    """Lets one row's answer follow its schema.

    Attributes:
        matcher: stands after the tokens taken so far.
        waits_for: the token that ends the thinking block which the prompt has opened; None: the schema holds from the
            first token.
    """

    waits: ClassVar[bool] = True

    matcher: LLMatcher
    waits_for: int | None = None
    _active: bool = field(init=False)
    _unread: mx.array | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._active = self.waits_for is None

    def apply(self, logits: mx.array) -> mx.array:
        """Rule out what the schema forbids after the tokens taken; waits for the last of them."""
        if self._unread is not None:
            self._follow(int(np.array(self._unread)[0]))
            self._unread = None
        if not self._active:
            return logits
        return mx.where(_bits(self.matcher.compute_bitmask(), logits.shape[-1]), logits, -mx.inf)

    def took(self, token: mx.array) -> None:
        """Note the sampled token ``(1,)``, read by the next ``apply``."""
        self._unread = token

    def fork(self) -> SchemaRule:
        """A copy that goes on by itself."""
        twin = SchemaRule(self.matcher.deep_copy(), self.waits_for)
        twin._active, twin._unread = self._active, self._unread
        return twin

    def resumed(self, emitted: Sequence[int]) -> SchemaRule:
        """A fresh one that stands after ``emitted``."""
        matcher = self.matcher.deep_copy()
        matcher.reset()
        rule = SchemaRule(matcher, self.waits_for)
        for token in emitted:
            rule._follow(token)
        return rule

    def _follow(self, token: int) -> None:
        if not self._active:
            self._active = token == self.waits_for
        elif not self.matcher.is_stopped():
            self.matcher.consume_token(token)


def _bits(mask: bytes, vocab_size: int) -> mx.array:
    """A packed mask, one bit per token from the lowest on, as ``(1, vocab)`` booleans."""
    words: NDArray[np.uint32] = np.frombuffer(mask, np.uint32)
    place = mx.arange(vocab_size)
    return ((mx.array(words)[place // _WORD] >> (place % _WORD).astype(mx.uint32)) & 1).astype(mx.bool_)[None]
