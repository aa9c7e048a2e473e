"""The one port to mlx-vlm's models: what the batch needs of a model, in the engine's terms."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx_vlm.models.cache import make_prompt_cache
from numpy.typing import NDArray

from engine.errors import ModelLoadError
from engine.memory import CacheCost, LayerCost
from engine.prompt import MediaItem

_FAMILIES = ("qwen3_5", "qwen3_5_moe", "qwen3_vl", "qwen3_vl_moe")
_MAX_ASPECT = 190
"""The processors refuse pictures more than 200 times longer than wide; those are padded to this."""


@dataclass(frozen=True, slots=True)
class Features:
    """What the vision tower made of one item.

    Attributes:
        hidden: ``(tokens, hidden)``, in place of the placeholders' embeddings.
        deepstack: per early language-model layer ``(tokens, hidden)``, added to its output (Qwen3-VL); empty elsewhere.
    """

    hidden: mx.array
    deepstack: tuple[mx.array, ...] = ()

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return int(self.hidden.nbytes + sum(layer.nbytes for layer in self.deepstack))


class Port:
    """One loaded model and its processor.

    Raises:
        ModelLoadError: the model's family is not supported.
    """

    def __init__(self, model: nn.Module, processor: Any) -> None:
        self.model, self.processor = model, processor
        config = model.config
        if config.model_type not in _FAMILIES:
            raise ModelLoadError(f"Models of type “{config.model_type}” are not supported yet. Choose another model.")
        self._lm = model.language_model
        self.tokenizer = processor.tokenizer
        self.image_token_id: int | None = config.image_token_id if model.vision_tower is not None else None
        self.uses_mrope = True
        self._image_processor = processor.image_processor
        self.merge_size: int = self._image_processor.merge_size
        self.geometry = "/".join(f"{name}={value}" for name, value in sorted(_geometry(self._image_processor).items()))
        self.guesses = _activation_guesses(config)
        self.context_limit: int = config.text_config.max_position_embeddings
        self.stop_ids = frozenset(_stop_ids(model, processor))

    def patch_image(self, pixels: NDArray[np.uint8]) -> tuple[NDArray[np.float32], tuple[int, int, int]]:
        """Resize and cut upright pixels ``(height, width, 3)`` into patches; NumPy and Pillow only."""
        out = self._image_processor([np.moveaxis(_padded(pixels), 2, 0)])
        grid = tuple(int(n) for n in out["image_grid_thw"][0])
        return out["pixel_values"], (grid[0], grid[1], grid[2])

    def image_tokens(self, width: int, height: int) -> int:
        """Prompt tokens that a picture of this upright size takes."""
        height, width = max(height, -(-width // _MAX_ASPECT)), max(width, -(-height // _MAX_ASPECT))
        return int(self._image_processor.num_image_tokens(height, width))

    def make_cache(self) -> list[Any]:
        """Fresh scalar caches, one per layer."""
        return list(make_prompt_cache(self._lm))

    def measure(self) -> CacheCost:
        """Unit: run one token through fresh caches and read off how each layer's cache grows."""
        cache = self.make_cache()
        mx.eval(self.prefill(Chunk([0], np.zeros((3, 1), np.int32) if self.uses_mrope else None), cache))
        return CacheCost(tuple(_layer_cost(layer) for layer in cache))

    def encode(self, item: MediaItem) -> Encoding:
        """Start a picture's vision encoding; the graph is built by the first ``advance``."""
        return Encoding(self.model.vision_tower, item)

    def prefill(self, chunk: Chunk, cache: list[Any]) -> list[mx.array]:
        """Feed a chunk of prompt into the cache; returns the lazy arrays to evaluate."""
        ids = mx.array([chunk.ids])
        embeds = self._lm.model.embed_tokens(ids)
        extra: dict[str, Any] = {}
        if chunk.visual:
            where = mx.array(np.concatenate([np.arange(a, b) for a, b, _, _ in chunk.visual]))
            hidden = mx.concatenate([f.hidden[lo : lo + b - a] for a, b, f, lo in chunk.visual])
            embeds[0, where] = hidden.astype(embeds.dtype)
            extra = _deepstack(chunk)
        if chunk.positions is not None:
            extra["position_ids"] = mx.array(chunk.positions[:, None, :])
        self._lm(ids, inputs_embeds=embeds, cache=cache, **extra)
        return [array for layer in cache for array in _arrays(layer.state)]

    def decode(self, tokens: mx.array, cache: list[Any], deltas: mx.array) -> mx.array:
        """One step: tokens ``(rows,)`` and M-RoPE deltas ``(rows, 1)`` → logits ``(rows, vocab)``, lazily."""
        out = self._lm(tokens[:, None], cache=cache, rope_deltas=deltas)
        logits: mx.array = out.logits[:, -1, :]
        return logits


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


@dataclass(slots=True)
class Encoding:
    """One picture's way through the vision tower, evaluated a run of blocks at a time.

    The lazy graph is built once with recorders standing in for the tower's blocks; then the recorded outputs are
    evaluated one after another, so that a long forward becomes short units without re-implementing the model.
    """

    tower: Any
    item: MediaItem
    features: Features | None = None
    blocks_done: int = 0
    blocks: int = 0
    _stages: Iterator[mx.array] | None = field(default=None, repr=False)

    def advance(self, budget_s: float) -> bool:
        """Evaluate at least one block, and more while the budget lasts; True when the features are ready."""
        start = time.perf_counter()
        if self._stages is None:
            self._stages = self._build()
        while True:
            before = time.perf_counter()
            stage = next(self._stages, None)
            if stage is None:
                return True
            mx.eval(stage)
            self.blocks_done += 1
            now = time.perf_counter()
            if now - start + (now - before) > budget_s and self.blocks_done <= self.blocks:
                return False

    def _build(self) -> Iterator[mx.array]:
        pixels = mx.array(self.item.patches).astype(self.tower.patch_embed.proj.weight.dtype)
        outputs: list[mx.array] = []
        blocks = self.tower.blocks
        self.tower["blocks"] = [_Recorder(block, outputs) for block in blocks]
        try:
            hidden, deepstack = self.tower(pixels, mx.array([self.item.grid]))
        finally:
            self.tower["blocks"] = blocks
        self.blocks = len(outputs)
        self.features = Features(hidden, tuple(deepstack))
        return self._drain(outputs)

    def _drain(self, outputs: list[mx.array]) -> Iterator[mx.array]:
        assert self.features is not None
        outputs.reverse()
        while outputs:
            yield outputs.pop()  # popped, so that an evaluated block's activations can go
        mx.eval(self.features.deepstack)
        yield self.features.hidden


class _Recorder:
    """Stands in for one tower block and remembers its lazy output."""

    def __init__(self, block: Any, outputs: list[mx.array]) -> None:
        self._block, self._outputs = block, outputs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        out = self._block(*args, **kwargs)
        self._outputs.append(out)
        return out


def _deepstack(chunk: Chunk) -> dict[str, Any]:
    """Mask and features of this chunk only.

    Both are cut together: mlx-vlm 0.7.10 cuts only the mask in chunked prefill and adds the wrong rows.
    """
    layers = len(chunk.visual[0][2].deepstack)
    if not layers:
        return {}
    mask = np.zeros((1, len(chunk.ids)), bool)
    for a, b, _, _ in chunk.visual:
        mask[0, a:b] = True
    embeds = [mx.concatenate([f.deepstack[n][lo : lo + b - a] for a, b, f, lo in chunk.visual]) for n in range(layers)]
    return {"visual_pos_masks": mx.array(mask), "deepstack_visual_embeds": embeds}


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


def _geometry(image_processor: Any) -> dict[str, Any]:
    names = ("patch_size", "temporal_patch_size", "merge_size", "min_pixels", "max_pixels", "image_mean", "image_std")
    return {name: getattr(image_processor, name) for name in names}


def _activation_guesses(config: Any) -> tuple[float, float]:
    """Transient bytes per prompt token and per patch, before any was measured: a few float32 copies of the widths."""

    def guess(part: Any) -> float:
        return float(4 * (6 * part.hidden_size + 3 * part.intermediate_size))

    return guess(config.text_config), guess(config.vision_config)


def _padded(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """White margins on a picture too long and thin for the processor."""
    height, width, _ = pixels.shape
    rows, columns = -(-width // _MAX_ASPECT) - height, -(-height // _MAX_ASPECT) - width
    if rows <= 0 and columns <= 0:
        return pixels
    return np.pad(pixels, ((0, max(rows, 0)), (0, max(columns, 0)), (0, 0)), constant_values=255)


def _stop_ids(model: nn.Module, processor: Any) -> set[int]:
    """The union of the end tokens named by tokenizer, model config and generation_config.json.

    mlx-vlm lets generation_config.json replace what config.json says; models that split the list need both.
    """
    tokenizer, config = processor.tokenizer, model.config
    sources = [getattr(tokenizer, "eos_token_id", None), getattr(tokenizer, "eos_token_ids", None)]
    sources += [getattr(config, "eos_token_id", None), getattr(config.text_config, "eos_token_id", None)]
    sources.append(getattr(getattr(tokenizer, "stopping_criteria", None), "eos_token_ids", None))
    folder = Path(getattr(model, "model_path", None) or "-")
    for name in ("config.json", "generation_config.json"):
        file = folder / name
        sources.append(json.loads(file.read_text("utf-8")).get("eos_token_id") if file.exists() else None)
    found: set[int] = set()
    for source in sources:
        found.update({source} if isinstance(source, int) else source or ())
    return found
