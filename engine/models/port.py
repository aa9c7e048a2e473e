"""The one port to mlx-vlm's models: what the batch needs of a model, in the engine's terms."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx.utils import tree_flatten
from mlx_vlm.models.cache import make_prompt_cache
from numpy.typing import NDArray

from engine.memory import CacheCost, LayerCost
from engine.messages import MediaKind, tokenizer_of
from engine.models.encoding import Encoding, Features
from engine.prompt import MediaItem
from engine.reader import Layout, MediaShape

__all__ = ["Chunk", "Encoding", "Features", "Port", "Verification"]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A run of prompt tokens with the media features that fall into it.

    Attributes:
        positions: ``(3, len(ids))`` or None.
        visual: (start, end, features, first feature row) per slot, in chunk-relative token indices.
    """

    ids: Sequence[int]
    positions: NDArray[np.int32] | None
    visual: Sequence[tuple[int, int, Features, int]] = ()


class Port:
    """One loaded model and its processor; by itself it serves models that only read text.

    Attributes:
        takes: kinds of media the model reads.
        pads: the token of each kind whose embeddings its features replace.
        markers: regular expressions for what chat templates write where a piece of media belongs.
        geometry: names the processor's settings; part of every media key.
        vocab_size: width of the logits.
        context_limit: most tokens of one conversation.
        stop_ids: tokens that end an answer.
        cache_cost: how a conversation's caches grow; None before ``measure``.
        guesses: transient bytes per prompt token and per patch, before any was measured.
        max_frames: most frames of one clip; None: no limit of the model's own.
        max_sound_s: longest sound, in seconds; None: no limit of the model's own.
        merge_size: patches per token along each side, for models with three-dimensional positions.
    """

    uses_mrope: bool = False
    feeds_embeddings: ClassVar[bool] = False
    """Whether prefill gives the language model embeddings, with features among them, rather than tokens."""

    def __init__(self, model: nn.Module, processor: Any) -> None:
        self.model, self.processor = model, processor
        self._lm = model.language_model
        self.tokenizer = tokenizer_of(processor)
        self.takes: frozenset[MediaKind] = frozenset()
        self.pads: dict[MediaKind, int] = {}
        self.markers: dict[MediaKind, str] = {}
        self.geometry = ""
        self.max_frames: int | None = None
        self.max_sound_s: float | None = None
        self.merge_size = 1
        self.cache_cost: CacheCost | None = None
        self.guesses = _activation_guesses(model.config)
        self.vocab_size: int = _text_config(model.config).vocab_size
        self.context_limit: int = _text_config(model.config).max_position_embeddings
        self.stop_ids = frozenset(_stop_ids(model, self.tokenizer))

    @property
    def weight_bytes(self) -> int:
        """Size of the language model's weights."""
        weights: dict[str, mx.array] = dict(tree_flatten(self._lm.parameters()))
        return sum(array.nbytes for array in weights.values())

    # ---------------------------------------------------------------- preparation, NumPy only

    def lay_out(self, shape: MediaShape) -> Layout:
        """Tokens and grid for media of this shape; exact, without touching pixels."""
        raise NotImplementedError(f"{type(self).__name__} takes no {shape.kind}")

    def cut(self, kind: MediaKind, media: NDArray[Any]) -> tuple[NDArray[np.float32], NDArray[np.bool_] | None]:
        """What the tower reads of a picture, frames or samples, and which frames of a sound are real."""
        raise NotImplementedError(f"{type(self).__name__} takes no {kind}")

    def image_tokens(self, width: int, height: int) -> int:
        """Prompt tokens that a picture of this upright size takes."""
        return sum(self.lay_out(MediaShape("image", width, height)).runs)

    # ---------------------------------------------------------------- units

    def make_cache(self) -> list[Any]:
        """Fresh scalar caches, one per layer."""
        return list(make_prompt_cache(self._lm))

    def measure(self) -> CacheCost:
        """Unit: run one token through fresh caches and read off how each layer's cache grows."""
        cache = self.make_cache()
        mx.eval(self.prefill(Chunk([0], np.zeros((3, 1), np.int32) if self.uses_mrope else None), cache))
        self.cache_cost = CacheCost(tuple(_layer_cost(layer) for layer in cache))
        return self.cache_cost

    def encode(self, item: MediaItem) -> Encoding:
        """Start the encoding of a piece of media; graphs are built by ``advance``."""
        raise NotImplementedError(f"{type(self).__name__} takes no {item.kind}")

    def prefill(self, chunk: Chunk, cache: list[Any]) -> list[mx.array]:
        """Feed a chunk of prompt into the cache; returns the lazy arrays to evaluate."""
        self._feed(chunk, cache)
        return [array for layer in cache for array in _arrays(layer.state)]

    def prefill_hidden(self, chunk: Chunk, cache: list[Any]) -> tuple[list[mx.array], mx.array]:
        """``prefill`` that also returns the last layer's states ``(1, tokens, hidden)``."""
        out = self._feed(chunk, cache, return_hidden=True)
        return [array for layer in cache for array in _arrays(layer.state)], out.hidden_states[-1]

    def _feed(self, chunk: Chunk, cache: list[Any], **options: Any) -> Any:
        ids = mx.array([chunk.ids])
        if not self.feeds_embeddings:
            return self._lm(ids, cache=cache, **options)
        embeds = self._embed(ids)
        if chunk.visual:
            where = mx.array(np.concatenate([np.arange(a, b) for a, b, _, _ in chunk.visual]))
            hidden = mx.concatenate([f.hidden[lo : lo + b - a] for a, b, f, lo in chunk.visual])
            embeds[0, where] = hidden.astype(embeds.dtype)
        return self._lm(ids, inputs_embeds=embeds, cache=cache, **self._extra(ids, chunk), **options)

    def decode(self, tokens: mx.array, cache: list[Any], deltas: mx.array) -> mx.array:
        """One step: tokens ``(rows,)`` and M-RoPE deltas ``(rows, 1)`` → logits ``(rows, vocab)``, lazily."""
        extra = {"rope_deltas": deltas} if self.uses_mrope else {}
        logits: mx.array = self._lm(tokens[:, None], cache=cache, **extra).logits[:, -1, :]
        return logits

    def decode_hidden(self, tokens: mx.array, cache: list[Any], deltas: mx.array) -> tuple[mx.array, mx.array]:
        """``decode`` that also returns the last layer's states ``(rows, 1, hidden)``; for models with a head."""
        out = self._lm(tokens[:, None], cache=cache, rope_deltas=deltas, return_hidden=True)
        return out.logits[:, -1, :], out.hidden_states[-1]

    def verify(self, tokens: mx.array, cache: list[Any], deltas: mx.array) -> Verification:
        """Feed several tokens ``(n,)`` of one row at once, to be kept in part; for models with a head."""
        options = {"return_hidden": True, "return_shared_kv": True, "capture_layer_ids": []}
        out = self._lm(tokens[None], cache=cache, rope_deltas=deltas, speculative_verify=True, **options)
        return Verification(out.logits[0], out.hidden_states[-1], out.gdn_states)

    def _embed(self, ids: mx.array) -> mx.array:
        """Embeddings of tokens, in the scale in which features are put between them."""
        embeds: mx.array = self._lm.model.embed_tokens(ids)
        return embeds

    def _extra(self, ids: mx.array, chunk: Chunk) -> dict[str, Any]:
        """What else the family's language model wants with a chunk."""
        del ids, chunk
        return {}


@dataclass(frozen=True, slots=True)
class Verification:
    """Tokens fed on approval. Leaving the ``with`` block without ``keep`` restores the cache as it was.

    Attributes:
        logits: ``(n, vocab)``, after each token.
        hidden: ``(1, n, hidden)``, the last layer's states.
    """

    logits: mx.array
    hidden: mx.array
    _transaction: Any

    def __enter__(self) -> Verification:
        return self

    def __exit__(self, *_: object) -> None:
        self._transaction.abort()

    def keep(self, count: int) -> None:
        """Let the cache stand after the first ``count`` tokens."""
        self._transaction.commit([count])


def _layer_cost(layer: Any) -> LayerCost:
    profile = layer.memory_profile(1)
    window = profile.window_size
    return LayerCost(profile.fixed_bytes, profile.bytes_per_token, profile.step, window)


def _arrays(state: Any) -> Iterator[mx.array]:
    if isinstance(state, mx.array):
        yield state
    elif isinstance(state, (list, tuple)):
        for part in state:
            yield from _arrays(part)


def _text_config(config: Any) -> Any:
    return getattr(config, "text_config", None) or config


def _activation_guesses(config: Any) -> tuple[float, float]:
    """A few float32 copies of the widths, and of a patch's pixels.

    A tower whose config names no inner width has four times the hidden one.
    """

    def guess(part: Any) -> float:
        hidden = getattr(part, "embed_dim", None) or part.hidden_size
        return float(4 * (6 * hidden + 3 * (getattr(part, "intermediate_size", None) or 4 * hidden)))

    text, vision = _text_config(config), getattr(config, "vision_config", None)
    if vision is None:
        return guess(text), 0.0
    pixels = 3 * vision.patch_size**2 * getattr(vision, "temporal_patch_size", 1)
    return guess(text), guess(vision) + 4 * 2 * pixels


def _stop_ids(model: nn.Module, tokenizer: Any) -> set[int]:
    """The union of the end tokens named by tokenizer, model config and generation_config.json.

    mlx-vlm lets generation_config.json replace what config.json says; models that split the list need both.
    """
    config = model.config
    sources = [getattr(tokenizer, "eos_token_id", None), getattr(tokenizer, "eos_token_ids", None)]
    sources += [getattr(config, "eos_token_id", None), getattr(_text_config(config), "eos_token_id", None)]
    sources.append(getattr(getattr(tokenizer, "stopping_criteria", None), "eos_token_ids", None))
    folder = Path(getattr(model, "model_path", None) or "-")
    for name in ("config.json", "generation_config.json"):
        file = folder / name
        sources.append(json.loads(file.read_text("utf-8")).get("eos_token_id") if file.exists() else None)
    found: set[int] = set()
    for source in sources:
        found.update({source} if isinstance(source, int) else source or ())
    return found
