"""A port without a model: the next token is a plain function of all tokens before, and calls fail where a script says.

Each row's state is one number that folds in every token it was fed, kept in mlx-vlm's cache for recurrent layers. A row
whose cache is mixed up, fed twice or not fed at all answers something else.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import reduce
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import pytest
from mlx_vlm.models.cache import ArraysCache

from engine.memory import CacheCost, LayerCost
from engine.models import families
from engine.models.port import Chunk, Port
from tests.engine import tiny

VOCAB = 288
STOPS = frozenset(range(0, VOCAB, 57))
_MODULUS = 9973


class Fault(Exception):
    """A scripted failure."""


def fold(state: Any, token: Any) -> Any:
    return (state * 31 + token + 1) % _MODULUS


def likeliest(state: Any) -> Any:
    return (state * 7 + 3) % VOCAB


def answer(prompt: Sequence[int], max_tokens: int) -> list[int]:
    """What a request must get: up to and with a stop token, or ``max_tokens``."""
    state: int = reduce(fold, prompt, 0)
    tokens: list[int] = []
    while len(tokens) < max_tokens and not (tokens and tokens[-1] in STOPS):
        tokens.append(likeliest(state))
        state = fold(state, tokens[-1])
    return tokens


class ScriptedPort(Port):
    """Counts its calls; ``prefill_faults`` and ``decode_faults`` name those that raise, by number from 0."""

    uses_mrope = False
    weight_bytes = 0

    def __init__(self, model: Any, processor: Any) -> None:
        super().__init__(model, processor)
        self.stop_ids = STOPS
        self.prefill_faults: Collection[int] = ()
        self.decode_faults: Collection[int] = ()
        self.prefills = self.decodes = self.faults = 0

    def make_cache(self) -> list[Any]:
        return [ArraysCache(1)]

    def measure(self) -> CacheCost:
        return CacheCost((LayerCost(fixed=4.0),))

    def prefill(self, chunk: Chunk, cache: list[Any]) -> list[mx.array]:
        number, self.prefills = self.prefills, self.prefills + 1
        # Half the work is done before it fails, as on a device.
        ids = chunk.ids[: len(chunk.ids) // 2] if number in self.prefill_faults else chunk.ids
        before = 0 if cache[0][0] is None else int(cache[0][0].item())
        cache[0][0] = mx.array([reduce(fold, ids, before)], mx.int32)
        if number in self.prefill_faults:
            self.faults += 1
            raise Fault("prefill")
        return [cache[0][0]]

    def decode(self, tokens: mx.array, cache: list[Any], deltas: mx.array) -> mx.array:
        del deltas
        number, self.decodes = self.decodes, self.decodes + 1
        before = mx.zeros_like(tokens) if cache[0][0] is None else cache[0][0]  # a prompt of one token has no prefill
        assert before.shape == tokens.shape
        cache[0][0] = state = fold(before, tokens.astype(mx.int32))
        if number in self.decode_faults:
            self.faults += 1
            raise Fault("decode")
        return (mx.arange(VOCAB)[None] == likeliest(state)[:, None]).astype(mx.float32)


def loaded(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """(model, processor) for ``MLLMScheduler`` that end up in a ``ScriptedPort``."""
    monkeypatch.setitem(families.FAMILIES, "scripted", ScriptedPort)
    widths = {"hidden_size": 1, "intermediate_size": 1, "vocab_size": VOCAB, "max_position_embeddings": 100_000}
    config = SimpleNamespace(model_type="scripted", text_config=SimpleNamespace(**widths))
    return SimpleNamespace(config=config, language_model=None), SimpleNamespace(tokenizer=tiny.processor().tokenizer)
