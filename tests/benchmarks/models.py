"""Models to measure: the embedded one, and random weights in the shape of real 2B models (speed needs no training)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_vlm.models.qwen3_vl.processing_qwen3_vl import Qwen3VLImageProcessor

import engine
from engine import device
from tests.engine import tiny

POCKET = Path(__file__).parents[2] / "resources" / "pocket"
_VOCAB = 151_936
_PIXELS = 65_536, 16_777_216
"""Smallest and largest picture, as Qwen3-VL is published: 64 to 16,384 tokens."""


def load(name: str) -> tuple[Any, Any]:
    """A model and its processor by name: ``pocket``, ``dense-2b`` (Qwen3-VL) or ``hybrid-2b`` (Qwen3.5)."""
    if name == "pocket":
        return engine.load_model_sync(POCKET)
    processor = tiny.processor()
    processor.image_processor = Qwen3VLImageProcessor(patch_size=16, min_pixels=_PIXELS[0], max_pixels=_PIXELS[1])
    return device.home().run_here(lambda: _random(_SHAPES[name])), processor


def _random(make: Callable[[dict[str, Any]], nn.Module]) -> nn.Module:
    tokenizer = tiny.processor().tokenizer
    names = {"image_token_id": "<|image_pad|>", "video_token_id": "<|video_pad|>"}
    names |= {"vision_start_token_id": "<|vision_start|>", "vision_end_token_id": "<|vision_end|>"}
    ids: dict[str, Any] = {name: tokenizer.convert_tokens_to_ids(token) for name, token in names.items()}
    mx.random.seed(0)
    # An end token beyond the vocabulary: answers run to their limit.
    model = make({**ids, "vocab_size": _VOCAB, "eos_token_id": [_VOCAB + 1]})
    model.set_dtype(mx.bfloat16)
    mx.eval(model.parameters())
    model.eval()
    return model


def _dense(common: dict[str, Any]) -> nn.Module:
    from mlx_vlm.models import qwen3_vl

    rope = {"type": "mrope", "mrope_section": [24, 20, 20], "rope_type": "default", "mrope_interleaved": True}
    text = {
        "model_type": "qwen3_vl_text",
        "num_hidden_layers": 28,
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "rms_norm_eps": 1e-6,
        "vocab_size": _VOCAB,
        "rope_theta": 5e6,
        "max_position_embeddings": 40_960,
        "rope_scaling": rope,
        "tie_word_embeddings": True,
    }
    vision = _vision("qwen3_vl", deepstack=[5, 11, 17])
    config = {"model_type": "qwen3_vl", "text_config": text, "vision_config": vision, **common}
    return qwen3_vl.Model(qwen3_vl.ModelConfig.from_dict(config))


def _hybrid(common: dict[str, Any]) -> nn.Module:
    from mlx_vlm.models import qwen3_5

    rope = {"type": "default", "rope_type": "default", "mrope_section": [11, 11, 10], "rope_theta": 1e7}
    text = {
        "model_type": "qwen3_5",
        "num_hidden_layers": 24,
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "linear_num_value_heads": 16,
        "linear_num_key_heads": 16,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 256,
        "rms_norm_eps": 1e-6,
        "vocab_size": _VOCAB,
        "max_position_embeddings": 40_960,
        "tie_word_embeddings": True,
        "full_attention_interval": 4,
        "rope_parameters": {**rope, "partial_rotary_factor": 0.25},
    }
    config = {"model_type": "qwen3_5", "text_config": text, "vision_config": _vision("qwen3_5", []), **common}
    return qwen3_5.Model(qwen3_5.ModelConfig.from_dict(config))


def _vision(model_type: str, deepstack: list[int]) -> dict[str, Any]:
    return {
        "model_type": model_type,
        "depth": 24,
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "out_hidden_size": 2048,
        "num_heads": 16,
        "patch_size": 16,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "num_position_embeddings": 2304,
        "in_channels": 3,
        "deepstack_visual_indexes": deepstack,
    }


_SHAPES = {"dense-2b": _dense, "hybrid-2b": _hybrid}
