"""Tiny random-weight models with a real, torch-free processor: nothing is downloaded, a decode step takes milliseconds.

Logits are spread, so that a greedy choice stands far above rounding noise and equality of tokens means something.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from functools import cache
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx.utils import tree_map_with_path
from mlx_vlm.models import qwen3_5, qwen3_vl
from mlx_vlm.models.qwen3_vl.processing_qwen3_vl import (
    Qwen3VLImageProcessor,
    Qwen3VLProcessor,
    Qwen3VLVideoProcessor,
)
from mlx_vlm.speculative.drafters.qwen3_5_mtp.config import Qwen3_5MTPConfig
from mlx_vlm.speculative.drafters.qwen3_5_mtp.qwen3_5_mtp import Qwen3_5MTPDraftModel
from PIL import Image
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from engine import device

Loaded = tuple[Any, Any]
"""(model, processor)."""

IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"
END = "<|im_end|>"
_SPECIALS = ["<|endoftext|>", "<|im_start|>", END, "<|vision_start|>", "<|vision_end|>"]
_SPECIALS += ["<|image_pad|>", "<|video_pad|>", "<think>", "</think>"]
_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content %}"
    "{% if part.type == 'image' %}" + IMAGE + "{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_HIDDEN = 96
_SPREAD = 2.5


def chat(text: str, pictures: int = 0) -> str:
    """One user turn, ready for an answer, its pictures before its words."""
    return f"<|im_start|>user\n{IMAGE * pictures}{text}<|im_end|>\n<|im_start|>assistant\n"


def picture(width: int, height: int, seed: int) -> Image.Image:
    """Soft random blobs, different for every seed."""
    rng = np.random.default_rng(seed)
    blobs = rng.integers(0, 255, (max(2, height // 16), max(2, width // 16), 3), dtype=np.uint8)
    return Image.fromarray(blobs).resize((width, height), Image.Resampling.BICUBIC)


@cache
def processor() -> Any:
    """Byte-level tokens without merges: one token per byte of text."""
    tokenizer = _tokenizer()
    return Qwen3VLProcessor(
        image_processor=Qwen3VLImageProcessor(patch_size=16, min_pixels=32 * 32, max_pixels=512 * 512),
        tokenizer=tokenizer,
        video_processor=Qwen3VLVideoProcessor(min_pixels=4 * 32 * 32, max_pixels=16 * 64 * 64),
        chat_template=_TEMPLATE,
    )


@cache
def hybrid() -> Loaded:
    """Qwen3.5 in small: gated-delta (recurrent) and full attention layers in turn, M-RoPE."""
    return _built(_hybrid, seed=0)


@cache
def dense() -> Loaded:
    """Qwen3-VL in small: full attention only, with deepstack features from two tower blocks."""
    return _built(_dense, seed=1)


@cache
def headed() -> Loaded:
    """The tiny hybrid with a random head, which guesses nearly everything wrong."""
    model, processor = hybrid()
    text = dataclasses.asdict(model.config.text_config) | {"mtp_num_hidden_layers": 1}
    config = Qwen3_5MTPConfig.from_dict({"model_type": "qwen3_5_mtp", "text_config": text, "block_size": 3})
    twin = copy.copy(model)

    def build() -> None:
        mx.random.seed(7)
        twin.mtp = Qwen3_5MTPDraftModel(config)
        mx.eval(twin.mtp.parameters())

    device.home().run_here(build)
    return twin, processor


def _tokenizer() -> PreTrainedTokenizerFast:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE(vocab={char: number for number, char in enumerate(alphabet)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=END, pad_token="<|endoftext|>")
    tokenizer.add_special_tokens({"additional_special_tokens": _SPECIALS})
    return tokenizer


def _built(make: Callable[[dict[str, Any]], nn.Module], seed: int) -> Loaded:
    tokenizer = processor().tokenizer
    names = {"image_token_id": "<|image_pad|>", "video_token_id": "<|video_pad|>"}
    names |= {"vision_start_token_id": "<|vision_start|>", "vision_end_token_id": "<|vision_end|>"}
    common: dict[str, Any] = {name: tokenizer.convert_tokens_to_ids(token) for name, token in names.items()}
    end = tokenizer.convert_tokens_to_ids(END)
    common |= {"vocab_size": -(-len(tokenizer) // 32) * 32, "eos_token_id": [end]}

    def build() -> nn.Module:
        mx.random.seed(seed)
        model = make(common)
        model.update(tree_map_with_path(_spread, model.parameters()))
        head = model.language_model.lm_head
        # Random weights would end an answer at a random place; a zero logit among spread ones is never the likeliest.
        head.weight[end] = 0
        mx.eval(model.parameters())
        model.eval()
        return model

    return device.home().run_here(build), processor()


def _spread(path: str, weight: mx.array) -> mx.array:
    if weight.ndim < 2 or "norm" in path or not mx.issubdtype(weight.dtype, mx.floating):
        return weight
    return weight * _SPREAD


def _vision(model_type: str, deepstack: list[int]) -> dict[str, Any]:
    return {
        "model_type": model_type,
        "depth": 3,
        "hidden_size": 64,
        "intermediate_size": 128,
        "out_hidden_size": _HIDDEN,
        "num_heads": 2,
        "patch_size": 16,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "num_position_embeddings": 256,
        "in_channels": 3,
        "deepstack_visual_indexes": deepstack,
    }


def _text(vocab_size: int) -> dict[str, Any]:
    return {
        "hidden_size": _HIDDEN,
        "intermediate_size": 2 * _HIDDEN,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-6,
        "vocab_size": vocab_size,
        "max_position_embeddings": 32768,
        "tie_word_embeddings": False,
    }


def _hybrid(common: dict[str, Any]) -> nn.Module:
    rope = {"type": "default", "mrope_section": [3, 3, 2], "rope_theta": 100000, "partial_rotary_factor": 0.25}
    text = _text(common["vocab_size"]) | {
        "model_type": "qwen3_5",
        "num_hidden_layers": 4,
        "head_dim": 64,
        "linear_num_value_heads": 4,
        "linear_num_key_heads": 2,
        "linear_key_head_dim": 32,
        "linear_value_head_dim": 32,
        "linear_conv_kernel_dim": 4,
        "full_attention_interval": 2,
        "rope_parameters": rope,
    }
    config = common | {"model_type": "qwen3_5", "text_config": text, "vision_config": _vision("qwen3_5", [])}
    return qwen3_5.Model(qwen3_5.ModelConfig.from_dict(config))


def _dense(common: dict[str, Any]) -> nn.Module:
    text = _text(common["vocab_size"]) | {
        "model_type": "qwen3_vl_text",
        "num_hidden_layers": 3,
        "head_dim": 32,
        "rope_theta": 100000.0,
        "rope_scaling": {"type": "default", "mrope_section": [6, 5, 5]},
    }
    config = common | {"model_type": "qwen3_vl", "text_config": text, "vision_config": _vision("qwen3_vl", [0, 1])}
    return qwen3_vl.Model(qwen3_vl.ModelConfig.from_dict(config))
