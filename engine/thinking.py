"""The thinking block of an answer: where it is open, and how long it may get."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import mlx.core as mx

from engine.think_tags import ThinkTags

_TAIL_TOKENS = 16
"""More than an opening tag and the space after it take."""


@dataclass(frozen=True, slots=True)
class ThinkTokens:
    """The tokens that open and close a thinking block."""

    opens: int
    closes: int

    @classmethod
    def of(cls, tokenizer: Any) -> ThinkTokens | None:
        """Those of a tokenizer; None if it has no single tokens for them."""
        added, tags = tokenizer.get_added_vocab(), ThinkTags.of(tokenizer)
        opens, closes = added.get(tags.opens), added.get(tags.closes)
        return None if opens is None or closes is None else cls(opens, closes)

    def left_open(self, ids: Sequence[int]) -> bool:
        """Whether these tokens end inside a block."""
        return next((token == self.opens for token in reversed(ids) if token in (self.opens, self.closes)), False)


def left_open(tokenizer: Any, prompt: Sequence[int]) -> bool:
    """Whether a prompt ends inside a thinking block, also where its tags are no tokens of their own."""
    think = ThinkTokens.of(tokenizer)
    if think is not None:
        return think.left_open(prompt)
    tail = tokenizer.decode(list(prompt[-_TAIL_TOKENS:]), skip_special_tokens=False)
    return str(tail).rstrip().endswith(ThinkTags().opens)


@dataclass(slots=True)
class ThinkingBudget:
    """Closes a row's thinking block after so many tokens, and opens none after that.

    Its state stays on the device, so that decoding never waits for a token to be read.
    """

    waits: ClassVar[bool] = False

    tokens: ThinkTokens
    budget: int
    opened: bool
    _inside: mx.array | None = None
    _used: mx.array | None = None

    def apply(self, logits: mx.array) -> mx.array:
        """Where the budget is used up: the closing token only inside the block, no opening token outside."""
        inside, used = self._state()
        token, spent = mx.arange(logits.shape[-1])[None], used >= self.budget
        forbidden = spent & ((token == self.tokens.opens) | (inside & (token != self.tokens.closes)))
        return mx.where(forbidden, -mx.inf, logits)

    def took(self, token: mx.array) -> None:
        """Note the sampled token ``(1,)``, lazily."""
        inside, used = self._state()
        opens, closes = token == self.tokens.opens, token == self.tokens.closes
        self._used = used + (inside & ~closes)
        self._inside = opens | (inside & ~closes)

    def fork(self) -> ThinkingBudget:
        """A copy that goes on by itself."""
        return replace(self)

    def resumed(self, emitted: Sequence[int]) -> ThinkingBudget:
        """A fresh one that stands after ``emitted``."""
        rule = ThinkingBudget(self.tokens, self.budget, self.opened)
        for token in emitted:
            rule.took(mx.array([token]))
        return rule

    def _state(self) -> tuple[mx.array, mx.array]:
        # Made late: rows are prepared on threads that may not touch MLX.
        if self._inside is None or self._used is None:
            self._inside, self._used = mx.array([self.opened]), mx.array([0])
        return self._inside, self._used
