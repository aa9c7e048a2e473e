"""Log-probabilities of a row's tokens, computed beside sampling and read together with the tokens."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import mlx.core as mx
import numpy as np

from engine.request import TokenLogprobs


@dataclass(slots=True)
class Logprobs:
    """One row's log-probabilities: of each token taken, and of the ``count`` likeliest in its place.

    They are the model's own, before penalties, temperature and truncation.
    """

    count: int
    _lazy: deque[tuple[mx.array, mx.array]] = field(default_factory=deque)
    _read: deque[TokenLogprobs] = field(default_factory=deque)

    def note(self, logits: mx.array, tokens: mx.array) -> list[mx.array]:
        """Take tokens ``(n,)`` and the logits ``(n, vocab)`` they were chosen from; returns arrays to evaluate."""
        known = logits.astype(mx.float32)
        known = known - mx.logsumexp(known, axis=-1, keepdims=True)
        likeliest = mx.argsort(-known, axis=-1)[:, : self.count]
        chosen = mx.concatenate([tokens[:, None].astype(likeliest.dtype), likeliest], axis=1)
        values = mx.take_along_axis(known, chosen, axis=1)
        self._lazy += [(chosen[i], values[i]) for i in range(tokens.shape[0])]
        return [array for pair in self._lazy for array in pair]

    def read(self, count: int) -> None:
        """Unit: bring the oldest ``count`` tokens' figures to the host."""
        for _ in range(count):
            tokens, values = self._lazy.popleft()
            self._read.append(tuple(zip(np.array(tokens).tolist(), np.array(values).tolist(), strict=True)))

    def take(self) -> TokenLogprobs:
        """The figures of the oldest token read."""
        return self._read.popleft()

    def start_over(self) -> None:
        """Forget tokens that were never handed out."""
        self._lazy.clear()
        self._read.clear()
