"""Multi-token prediction: the model's own head guesses a row's next tokens, one forward of the model checks them.

What is emitted is always what the model itself would have sampled: each position keeps its own random key, so a guess
counts only if it equals the token that plain decoding picks there. Text with and without drafting is the same, greedy
or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_vlm.models.base import create_attention_mask
from mlx_vlm.models.cache import KVCache

from engine.sampling import RowSampler, sample


@dataclass(slots=True)
class Draft:
    """What a lone row carries from round to round.

    Attributes:
        cache: of the head's layers. It may have gaps (a prefix that was restored, a stretch decoded in a batch): the
            head then sees less of the past and guesses worse, never wrongly.
        tokens: ``(n,)`` newest tokens of the row, which the head has not seen; None when they must be learnt first.
        hidden: ``(1, n, hidden)`` the model's states that each of ``tokens`` was sampled from.
        position: index in the row of the first of these states.
    """

    cache: list[KVCache]
    tokens: mx.array | None = None
    hidden: mx.array | None = None
    position: int = 0

    @property
    def ready(self) -> bool:
        """Whether a round can start from it."""
        return self.tokens is not None

    def follow(self, tokens: mx.array, hidden: mx.array, position: int) -> None:
        """Take the newest tokens and the states before them."""
        self.tokens, self.hidden, self.position = tokens, hidden, position

    def lose(self) -> None:
        """Forget the newest state: the row went on without this draft."""
        self.tokens = self.hidden = None


@dataclass(frozen=True, slots=True)
class Round:
    """What one round brought.

    Attributes:
        tokens: what the row emits, in order.
        drafted: tokens guessed.
        accepted: how many of them were right and used.
    """

    tokens: list[int]
    drafted: int
    accepted: int


class Head:
    """The model's prediction head between its own embeddings and output layer; it holds no state of any row."""

    def __init__(self, model: nn.Module, head: nn.Module) -> None:
        lm = model.language_model
        self._head = head
        self._embed = lm.model.embed_tokens
        self._logits = lm.speculative_logits_from_hidden

    @classmethod
    def of(cls, model: nn.Module) -> Head | None:
        """The head that the loader found beside the model; None if the model has none."""
        head = getattr(model, "mtp", None)
        return None if head is None else cls(model, head)

    def draft(self) -> Draft:
        """An empty draft for one row."""
        return Draft([KVCache() for _ in self._head.layers])

    def feed(self, cache: Sequence[KVCache], tokens: mx.array, hidden: mx.array, position: int) -> mx.array:
        """Let the head read tokens.

        Args:
            cache: from a ``Draft``; takes the new keys and values.
            tokens: ``(n,)``.
            hidden: ``(1, n, hidden)`` state before each token.
            position: index in the row of the first state.

        Returns:
            ``(1, n, hidden)``; the last row foretells the token after the last one.
        """
        head, length = self._head, tokens.shape[0]
        embeds = head.pre_fc_norm_embedding(self._embed(tokens[None]))
        out = head.fc(mx.concatenate([embeds, head.pre_fc_norm_hidden(hidden)], axis=-1))
        where = mx.broadcast_to(mx.arange(position, position + length), (3, 1, length))
        for layer, layer_cache in zip(head.layers, cache, strict=True):
            mask = create_attention_mask(out, layer_cache)
            out = layer(out, mask=mask, cache=layer_cache, position_ids=where)
        result: mx.array = head.norm(out)
        return result

    def guess(self, draft: Draft, sampler: RowSampler, count: int) -> mx.array:
        """Guess the next tokens of a row, each with the key that the row will use there.

        Args:
            draft: ready; afterwards its cache holds every token the row has taken, and no guess.
            sampler: the row's, left as it is.
            count: how many.

        Returns:
            ``(count,)``, lazily.
        """
        assert draft.tokens is not None
        assert draft.hidden is not None
        trial = sampler.fork()
        out = self.feed(draft.cache, draft.tokens, draft.hidden, draft.position)[:, -1:]
        end = draft.position + draft.tokens.shape[0]
        guesses = [sample(self._logits(out)[:, -1], [trial])]
        for step in range(count - 1):
            out = self.feed(draft.cache, guesses[-1], out, end + step)
            guesses.append(sample(self._logits(out)[:, -1], [trial]))
        for layer in draft.cache:
            layer.trim(count - 1)
        draft.lose()
        return mx.concatenate(guesses)


def agreed(guesses: Sequence[int], targets: Sequence[int]) -> int:
    """How many guesses, from the first on, are what the model picked."""
    return next((i for i, guess in enumerate(guesses) if guess != targets[i]), len(guesses))


def until_stop(tokens: Sequence[int], stop_ids: frozenset[int]) -> list[int]:
    """Tokens up to and with the first one that ends the reply."""
    end = next((i for i, token in enumerate(tokens) if token in stop_ids), len(tokens) - 1)
    return list(tokens[: end + 1])


def states(cache: Sequence[Any]) -> list[mx.array]:
    """The arrays a head's cache holds."""
    return [array for layer in cache for array in layer.state if array is not None]
