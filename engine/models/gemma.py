"""Google's Gemma models: pictures, clips and sounds between scaled embeddings, sliding-window attention."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx_vlm.models.gemma4.processing_gemma4 import get_aspect_ratio_preserving_size
from numpy.typing import NDArray
from PIL import Image

from engine.media.audio import DEFAULT_RATE
from engine.messages import MediaKind
from engine.models.encoding import Blocks, Encoding, Features
from engine.models.port import Chunk, Port
from engine.prompt import MediaItem
from engine.reader import Layout, MediaShape

_PART_PATCHES = 1024
"""Patches of a clip's frames encoded together, at least one frame's."""


_SOUND_MULTIPLE = 128
"""The feature extractor pads to this many samples."""
_FRAMES_PER_TOKEN = 4
"""Two convolutions of stride 2 in front of the tower."""


class GemmaPort(Port):
    """What the generations share: features are what the model itself would put in place of an item's own tokens."""

    feeds_embeddings: ClassVar[bool] = True

    def _embedded(self, kind: MediaKind, tokens: int, **inputs: mx.array) -> Features:
        """What the model puts in place of ``tokens`` pads of one item, or of a part of it."""
        ids = mx.full((1, tokens), self.pads[kind], mx.int32)
        found = self.model.get_input_embeddings(ids, mask=mx.ones_like(ids), **inputs)
        return Features(found.inputs_embeds[0])


class Gemma3Port(GemmaPort):
    """Gemma 3: a picture is scaled to a square and takes a fixed number of tokens."""

    def __init__(self, model: nn.Module, processor: Any) -> None:
        super().__init__(model, processor)
        self.pads = {"image": model.config.image_token_index}
        self.markers = {"image": re.escape(processor.boi_token)}
        self.takes = frozenset(self.pads)
        self.geometry = _geometry(processor.image_processor)

    def lay_out(self, shape: MediaShape) -> Layout:
        """Tokens for a picture of any shape."""
        del shape
        one_token = self.processor.full_image_sequence.replace(
            self.processor.image_token * self.processor.image_seq_length, self.processor.image_token
        )
        vision = self.model.config.vision_config
        return Layout(one_token, (self.processor.image_seq_length,), (vision.image_size // vision.patch_size) ** 2)

    def cut(self, kind: MediaKind, media: NDArray[Any]) -> tuple[NDArray[np.float32], NDArray[np.bool_] | None]:
        """A picture ``(1, 3, side, side)``."""
        del kind
        return np.asarray(self.processor.image_processor(Image.fromarray(media))["pixel_values"], np.float32), None

    def encode(self, item: MediaItem) -> Encoding:
        """Start a picture's encoding."""

        def part() -> Features:
            return self._embedded("image", item.tokens, pixel_values=mx.array(item.patches))

        return Encoding(item, Blocks(self.model.vision_tower.vision_model.encoder, "layers"), [part])


class Gemma4Port(GemmaPort):
    """Gemma 4: pictures keep their shape, frames of a clip are time-stamped, sounds take a token per 40 ms."""

    def __init__(self, model: nn.Module, processor: Any) -> None:
        super().__init__(model, processor)
        config = model.config
        # Models whose pictures attend both ways need a mask that mlx-vlm builds for one-shot prefill only.
        if getattr(config.text_config, "use_bidirectional_attention", None) != "vision":
            self._take("image", config.image_token_id, processor.image_token)
            self._take("video", config.video_token_id or processor.video_token_id, processor.video_token)
        if model.audio_tower is not None and processor.feature_extractor is not None:
            self._take("audio", config.audio_token_id, processor.audio_token)
        self.takes = frozenset(self.pads)
        self.max_frames = processor.video_processor.num_frames
        self.max_sound_s = processor.audio_seq_length * processor.audio_ms_per_token / 1000
        self.geometry = f"{_geometry(processor.image_processor)}|{processor.video_processor.max_soft_tokens}"

    def _take(self, kind: MediaKind, pad: int, marker: str) -> None:
        self.pads[kind], self.markers[kind] = pad, re.escape(marker)

    def lay_out(self, shape: MediaShape) -> Layout:
        """Tokens for a picture, a clip or a sound of this shape."""
        processor = self.processor
        if shape.kind == "audio":
            text = f"{processor.boa_token}{processor.audio_token}{processor.eoa_token}"
            tokens = self._sound_tokens(shape.samples)
            return Layout(text, (tokens,), tokens * _FRAMES_PER_TOKEN)
        budget = (processor.image_processor if shape.kind == "image" else processor.video_processor).max_soft_tokens
        patches = self._patches(shape.height, shape.width, budget)
        tokens = patches // self._pool**2
        if shape.kind == "image":
            return Layout(f"{processor.boi_token}{processor.image_token}{processor.eoi_token}", (tokens,), patches)
        together = patches * min(max(1, _PART_PATCHES // patches), len(shape.times))
        return Layout(self._stamped(shape.times), (tokens,) * len(shape.times), together)

    def _sound_tokens(self, samples: int) -> int:
        """One per 40 ms as mlx-vlm's processor counts, but never more than the tower has rows for them.

        With about a fifth of all lengths it counts one too many, and puts the first row in its place.
        """
        processor, extractor = self.processor, self.processor.feature_extractor
        counted = math.ceil(samples / DEFAULT_RATE * 1000 / processor.audio_ms_per_token)
        padded = -(-samples // _SOUND_MULTIPLE) * _SOUND_MULTIPLE
        frames = (padded + extractor.frame_length // 2 - extractor.frame_length - 1) // extractor.hop_length + 1
        return int(min(counted, processor.audio_seq_length, -(-frames // _FRAMES_PER_TOKEN)))

    def _patches(self, height: int, width: int, soft_tokens: int) -> int:
        side = self.processor.image_processor.patch_size
        rows, columns = get_aspect_ratio_preserving_size(height, width, side, soft_tokens * self._pool**2, self._pool)
        return int(rows // side) * int(columns // side)

    @property
    def _pool(self) -> int:
        """Patches per token along each side."""
        return int(self.processor.image_processor.pooling_kernel_size)

    def _stamped(self, times: Sequence[float]) -> str:
        one = f"{self.processor.boi_token}{self.processor.video_token}{self.processor.eoi_token}"
        return " ".join(f"{int(time // 60):02d}:{int(time % 60):02d} {one}" for time in times)

    def cut(self, kind: MediaKind, media: NDArray[Any]) -> tuple[NDArray[np.float32], NDArray[np.bool_] | None]:
        """Pictures ``(n, 3, height, width)``, or the sound's log-mel spectrum ``(frames, bins)`` and its mask."""
        if kind == "audio":
            found = self.processor.feature_extractor([media])
            return found["input_features"][0], found["input_features_mask"][0]
        frames = media[None] if kind == "image" else media
        part = self.processor.image_processor if kind == "image" else self.processor.video_processor
        # The video processor pads frames to its budget; cut like pictures they give the same features without.
        found, _ = self.processor.image_processor(
            [Image.fromarray(frame) for frame in frames], max_soft_tokens=part.max_soft_tokens
        )
        return found["pixel_values"], None

    def encode(self, item: MediaItem) -> Encoding:
        """Start the encoding; frames of a clip are independent parts."""
        if item.kind == "audio":
            return Encoding(item, Blocks(self.model.audio_tower, "layers"), [partial(self._encode_sound, item)])
        side = self.processor.image_processor.patch_size
        frame = item.patches.shape[2] // side * (item.patches.shape[3] // side)
        step = item.at_once // frame
        parts = [
            partial(self._encode_frames, item, slice(start, start + step))
            for start in range(0, len(item.patches), step)
        ]
        return Encoding(item, Blocks(self.model.vision_tower.encoder, "layers"), parts)

    def _encode_frames(self, item: MediaItem, frames: slice) -> Features:
        tokens = sum(length for _, length in item.slots[frames])
        name = "pixel_values" if item.kind == "image" else "pixel_values_videos"
        return self._embedded(item.kind, tokens, **{name: mx.array(item.patches[frames])})

    def _encode_sound(self, item: MediaItem) -> Features:
        mask = item.mask if item.mask is not None else np.ones(len(item.patches), bool)
        return self._embedded(
            "audio",
            item.tokens,
            input_features=mx.array(item.patches)[None],
            input_features_mask=mx.array(mask)[None],
        )

    def _embed(self, ids: mx.array) -> mx.array:
        embeds: mx.array = self._lm.model.embed_tokens(ids) * self._lm.model.embed_scale
        return embeds

    def _extra(self, ids: mx.array, chunk: Chunk) -> dict[str, Any]:
        """The small models look each token up once more for every layer; media have no entry there and take token 0."""
        if not self._lm.model.hidden_size_per_layer_input:
            return {}
        words = np.array(chunk.ids)
        words[np.isin(words, list(self.pads.values()))] = 0
        return {"per_layer_inputs": self._lm.model.get_per_layer_inputs(mx.array(words)[None])}


def _geometry(image_processor: Any) -> str:
    return repr(sorted(image_processor.to_dict().items()))
