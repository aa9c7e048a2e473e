"""Qwen's vision models: pictures and clips as patches of one grid, three-dimensional positions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx_vlm.models.qwen3_vl.processing_qwen3_vl import _smart_resize_video
from numpy.typing import NDArray
from PIL import Image

from engine.messages import MediaKind
from engine.models.attention import bound_scores
from engine.models.convolutions import simplify
from engine.models.encoding import Blocks, Encoding, Features
from engine.models.gated_delta import shorten
from engine.models.port import Chunk, Port
from engine.prompt import MediaItem
from engine.reader import Layout, MediaShape

_MAX_ASPECT = 190
"""The processors refuse pictures more than 200 times longer than wide; those are padded to this."""
_PART_PATCHES = 1024
"""Patches encoded together: a picture of 512 × 512, or as many groups of frames."""


class QwenPort(Port):
    """Qwen3-VL: a clip is a row of time-stamped groups of frames."""

    uses_mrope: bool = True
    feeds_embeddings: ClassVar[bool] = True

    def __init__(self, model: nn.Module, processor: Any) -> None:
        super().__init__(model, processor)
        simplify(model)
        bound_scores(model)
        config = model.config
        self._pictures: Any = processor.image_processor
        self._clips: Any = processor.video_processor
        self.merge_size = self._pictures.merge_size
        self._start = getattr(processor, "vision_start_token", "<|vision_start|>")
        self._end = getattr(processor, "vision_end_token", "<|vision_end|>")
        if model.vision_tower is not None:
            self.pads = {"image": config.image_token_id, "video": config.video_token_id}
            self.markers = {"image": re.escape(processor.image_token), "video": self._clip_marker()}
        self.takes = frozenset(self.pads)
        self.geometry = f"{_geometry(self._pictures)}|{_geometry(self._clips)}"

    def patch_image(self, pixels: NDArray[np.uint8]) -> tuple[NDArray[np.float32], tuple[int, int, int]]:
        """Resize and cut upright pixels ``(height, width, 3)`` into patches; returns them and their grid."""
        out = self._pictures([np.moveaxis(_padded(pixels[None])[0], 2, 0)])
        return out["pixel_values"], _grid(out["image_grid_thw"])

    def lay_out(self, shape: MediaShape) -> Layout:
        """Tokens and grid for a picture or a clip of this shape."""
        height, width = _padded_size(shape.height, shape.width)
        if shape.kind == "image":
            grid = (1, *self._patches_of(*self._pictures._resolved_size(height, width)))  # noqa: SLF001 - no public one
            return Layout(self.processor.image_token, (self._tokens(grid),), grid[1] * grid[2], grid)
        height, width = _enlarged_size(height, width, self._factor)
        clips = self._clips
        limits = {"min_pixels": clips.min_pixels, "max_pixels": clips.max_pixels}
        groups = -(-len(shape.times) // clips.temporal_patch_size)
        size = _smart_resize_video(
            len(shape.times), height, width, clips.temporal_patch_size, factor=self._factor, **limits
        )
        return self._lay_out_clip(shape.times, (groups, *self._patches_of(*size)))

    def cut(self, kind: MediaKind, media: NDArray[Any]) -> tuple[NDArray[np.float32], NDArray[np.bool_] | None]:
        """Patches of a picture or of frames."""
        if kind == "image":
            return self.patch_image(media)[0], None
        frames = _enlarged(_padded(media), self._factor)
        patches: NDArray[np.float32] = self._clips([np.moveaxis(frames, 3, 1)])["pixel_values_videos"]
        return patches, None

    def encode(self, item: MediaItem) -> Encoding:
        """Start the vision encoding; frames attend within their group only, so groups are independent parts."""
        parts = [
            partial(self._encode_part, item.patches[start : start + item.at_once], item.grid)
            for start in range(0, len(item.patches), item.at_once)
        ]
        return Encoding(item, Blocks(self.model.vision_tower, "blocks"), parts)

    def _encode_part(self, patches: NDArray[np.float32], grid: tuple[int, int, int]) -> Features:
        tower = self.model.vision_tower
        pixels = mx.array(patches).astype(tower.patch_embed.proj.weight.dtype)
        groups = len(patches) // (grid[1] * grid[2])
        return self._run_tower(pixels, mx.array([[groups, grid[1], grid[2]]]))

    def _run_tower(self, pixels: mx.array, grid: mx.array) -> Features:
        hidden, deepstack = self.model.vision_tower(pixels, grid)
        return Features(hidden, tuple(deepstack))

    def _extra(self, ids: mx.array, chunk: Chunk) -> dict[str, Any]:
        extra = _deepstack(chunk) if chunk.visual else {}
        if chunk.positions is not None:
            extra["position_ids"] = mx.array(chunk.positions[:, None, :])
        return extra

    @property
    def _factor(self) -> int:
        """Sizes of frames are multiples of this."""
        return int(self._clips.patch_size * self._clips.merge_size)

    def _patches_of(self, height: int, width: int) -> tuple[int, int]:
        return height // self._pictures.patch_size, width // self._pictures.patch_size

    def _tokens(self, grid: tuple[int, int, int]) -> int:
        return grid[0] * grid[1] * grid[2] // self.merge_size**2

    def _clip_marker(self) -> str:
        """Each group of frames gets its own brackets, so the template's go with the placeholder."""
        start, pad, end = map(re.escape, (self._start, self.processor.video_token, self._end))
        return f"{start}{pad}{end}|{pad}"

    def _lay_out_clip(self, times: Sequence[float], grid: tuple[int, int, int]) -> Layout:
        """One time stamp and one run per group: the mean time of its first and last frame."""
        size = self._clips.temporal_patch_size
        padded = [*times, *times[-1:] * (-len(times) % size)]
        means = [(padded[a] + padded[a + size - 1]) / 2 for a in range(0, len(padded), size)]
        blocks = (f"<{mean:.1f} seconds>{self._start}{self.processor.video_token}{self._end}" for mean in means)
        return Layout("".join(blocks), (self._tokens((1, *grid[1:])),) * grid[0], _at_once(grid), grid)


class HybridQwenPort(QwenPort):
    """Qwen3.5: most layers keep a recurrent state instead of keys and values."""

    def __init__(self, model: nn.Module, processor: Any) -> None:
        super().__init__(model, processor)
        shorten()


class EarlierQwenPort(QwenPort):
    """Qwen2-VL and Qwen2.5-VL: a clip is one block without times, and no features are added on later layers."""

    def _clip_marker(self) -> str:
        return re.escape(str(self.processor.video_token))

    def _lay_out_clip(self, times: Sequence[float], grid: tuple[int, int, int]) -> Layout:
        del times
        return Layout(self.processor.video_token, (self._tokens(grid),), _at_once(grid), grid)

    def _run_tower(self, pixels: mx.array, grid: mx.array) -> Features:
        return Features(self.model.vision_tower(pixels, grid, output_hidden_states=False))


def _at_once(grid: tuple[int, int, int]) -> int:
    """Patches of as many whole groups of frames as are encoded together."""
    group = grid[1] * grid[2]
    return group * min(max(1, _PART_PATCHES // group), grid[0])


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


def _geometry(processor: Any) -> str:
    names = ("patch_size", "temporal_patch_size", "merge_size", "min_pixels", "max_pixels", "image_mean", "image_std")
    return "/".join(f"{name}={getattr(processor, name)}" for name in sorted(names))


def _grid(thw: NDArray[np.int64]) -> tuple[int, int, int]:
    t, h, w = (int(n) for n in thw[0])
    return t, h, w


def _padded_size(height: int, width: int) -> tuple[int, int]:
    return max(height, -(-width // _MAX_ASPECT)), max(width, -(-height // _MAX_ASPECT))


def _padded(frames: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """White margins on pictures ``(n, height, width, 3)`` too long and thin for the processor."""
    _, height, width, _ = frames.shape
    rows, columns = _padded_size(height, width)
    if (rows, columns) == (height, width):
        return frames
    return np.pad(frames, ((0, 0), (0, rows - height), (0, columns - width), (0, 0)), constant_values=255)


def _enlarged_size(height: int, width: int, least: int) -> tuple[int, int]:
    scale = max(1.0, least / min(height, width))
    return max(round(height * scale), least), max(round(width * scale), least)


def _enlarged(frames: NDArray[np.uint8], least: int) -> NDArray[np.uint8]:
    """Frames with no side under ``least``: the processor refuses smaller ones."""
    _, height, width, _ = frames.shape
    rows, columns = _enlarged_size(height, width, least)
    if (rows, columns) == (height, width):
        return frames
    resized = [Image.fromarray(frame).resize((columns, rows), Image.Resampling.BICUBIC) for frame in frames]
    return np.stack([np.asarray(frame) for frame in resized])
