"""Tiny random-weight models of further families, with the real torch-free processors: nothing is downloaded."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_map_with_path
from mlx_vlm.models import gemma3, gemma3_text, gemma4, gemma4_text, llama, qwen2, qwen2_5_vl, qwen2_vl, qwen3
from mlx_vlm.models import qwen3_moe as moe
from mlx_vlm.models.gemma3.processing_gemma3 import Gemma3Processor
from mlx_vlm.models.gemma4.audio_feature_extractor import Gemma4AudioFeatureExtractor
from mlx_vlm.models.gemma4.processing_gemma4 import Gemma4ImageProcessor, Gemma4Processor, Gemma4VideoProcessor
from mlx_vlm.models.qwen2_5_vl.processing_qwen2_5_vl import Qwen2_5_VLProcessor
from mlx_vlm.models.qwen2_vl.processing_qwen2_vl import Qwen2VLProcessor
from mlx_vlm.models.qwen3_vl.processing_qwen3_vl import Qwen3VLImageProcessor, Qwen3VLVideoProcessor
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil

from engine import device

Loaded = tuple[Any, Any]
"""(model, processor)."""

_MEDIA = {
    "image_token": "<image>",
    "boi_token": "<img>",
    "eoi_token": "</img>",
    "audio_token": "<audio>",
    "boa_token": "<snd>",
    "eoa_token": "</snd>",
    "video_token": "<video>",
}
_QWEN = ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
_TEMPLATE = (
    "{% for message in messages %}<start>{{ message.role }}\n"
    "{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content %}"
    "{% if part.type == 'text' %}{{ part.text }}{% else %}MARK{{ part.type }}{% endif %}{% endfor %}{% endif %}"
    "<end>\n{% endfor %}{% if add_generation_prompt %}<start>assistant\n{% endif %}"
)
_SPREAD = 2.5


@cache
def tokenizer(*, named: bool = True) -> PreTrainedTokenizerFast:
    """Byte-level tokens without merges, and the special tokens of all families; ``named`` tells which are Gemma's."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {"<pad>": 0} | {char: number + 1 for number, char in enumerate(alphabet)}
    backend = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    made = PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="<end>", pad_token="<pad>", extra_special_tokens=_MEDIA if named else {}
    )
    made.add_special_tokens({"additional_special_tokens": ["<start>", *_MEDIA.values(), *_QWEN]})
    made.chat_template = _TEMPLATE
    return made


def token(text: str) -> int:
    """The id of a special token."""
    return int(tokenizer().convert_tokens_to_ids(text))


def chat(text: str, media: str = "") -> str:
    """One user turn, ready for an answer."""
    return f"<start>user\n{media}{text}<end>\n<start>assistant\n"


def _vocab() -> int:
    return -(-len(tokenizer()) // 32) * 32


def _build(make: Callable[[], nn.Module], seed: int) -> nn.Module:
    def build() -> nn.Module:
        mx.random.seed(seed)
        model = make()
        gemma = model.model_type.startswith("gemma4") if hasattr(model, "model_type") else False
        model.update(tree_map_with_path(partial(_spread, gemma=gemma), model.parameters()))
        mx.eval(model.parameters())
        model.eval()
        return model

    return device.home().run_here(build)


def _spread(path: str, weight: mx.array, *, gemma: bool) -> mx.array:
    if not mx.issubdtype(weight.dtype, mx.floating) or any(name in path for name in ("max", "min", "scalar")):
        return weight
    if weight.ndim < 2:
        # Norms of one say nothing about a wrong norm.
        return weight + 0.1 * mx.random.normal(weight.shape) if "norm" in path else weight
    if weight.ndim == 2 and path == "language_model.model.embed_tokens.weight" and gemma:
        return weight * 0.3  # the output is tied to it, and would only ever repeat the last token
    return weight * _SPREAD


def _text(**more: Any) -> dict[str, Any]:
    return {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "num_hidden_layers": 4,
        "head_dim": 16,
        "rms_norm_eps": 1e-6,
        "vocab_size": _vocab(),
        "max_position_embeddings": 4096,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
    } | more


_SLIDING = {"sliding_window": 24, "sliding_window_pattern": 2}


@cache
def gemma_3() -> Loaded:
    """Sliding window of 24 tokens in every second layer; a picture takes 4 tokens."""
    text = _text(model_type="gemma3_text", query_pre_attn_scalar=16, mm_tokens_per_image=4, **_SLIDING)
    vision = {
        "model_type": "siglip_vision_model",
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "patch_size": 16,
        "image_size": 64,
    }
    config = {
        "model_type": "gemma3",
        "text_config": text,
        "vision_config": vision,
        "hidden_size": 64,
        "vocab_size": _vocab(),
        "image_token_index": token("<image>"),
        "eos_token_id": [],
    }

    def make() -> nn.Module:
        made = gemma3.ModelConfig.from_dict(config)
        made.text_config, made.vision_config = (
            gemma3.TextConfig.from_dict(text),
            gemma3.VisionConfig.from_dict(vision),
        )
        model = gemma3.Model(made)
        weight = model.multi_modal_projector.mm_input_projection_weight
        model.multi_modal_projector.mm_input_projection_weight = mx.random.normal(weight.shape)
        return model

    processor = Gemma3Processor(
        Gemma3ImageProcessorPil(size={"height": 64, "width": 64}, do_pan_and_scan=False),
        tokenizer(),
        chat_template=_TEMPLATE.replace("MARK{{ part.type }}", "<img>"),
        image_seq_length=4,
    )
    return _build(make, 3), processor


def _quiet_extractor() -> Gemma4AudioFeatureExtractor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "At least one mel filter has all zero values")
        return Gemma4AudioFeatureExtractor()


_SOFT_TOKENS = 12
"""Of a picture or a frame: the model's own 280 take seconds here."""


@cache
def gemma_4() -> Loaded:
    """Pictures, clips and sound; layers that share caches, per-layer embeddings, a window of 24 tokens."""
    text = _text(
        model_type="gemma4_text",
        global_head_dim=32,
        num_kv_shared_layers=2,
        hidden_size_per_layer_input=8,
        vocab_size_per_layer_input=_vocab(),
        **_SLIDING,
    )
    vision = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "global_head_dim": 16,
    }
    audio = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "subsampling_conv_channels": (8, 4),
        "output_proj_dims": 32,
        "use_clipped_linears": False,
    }

    def make() -> nn.Module:
        made = gemma4.ModelConfig.from_dict(
            {
                "model_type": "gemma4",
                "hidden_size": 64,
                "vocab_size": _vocab(),
                "image_token_id": token("<image>"),
                "video_token_id": token("<video>"),
                "audio_token_id": token("<audio>"),
            }
        )
        made.text_config = gemma4.TextConfig.from_dict(text)
        made.vision_config = gemma4.VisionConfig.from_dict(vision)
        made.audio_config = gemma4.AudioConfig.from_dict(audio)
        return gemma4.Model(made)

    template = _TEMPLATE.replace("MARK{{ part.type }}", "<{{ part.type }}>")
    processor = Gemma4Processor(
        image_processor=Gemma4ImageProcessor(max_soft_tokens=_SOFT_TOKENS),
        tokenizer=tokenizer(),
        video_processor=Gemma4VideoProcessor(num_frames=8),
        chat_template=template,
        feature_extractor=_quiet_extractor(),
    )
    processor.video_processor.max_soft_tokens = _SOFT_TOKENS  # fewer than its constructor allows
    return _build(make, 4), processor


@cache
def earlier_qwen(version: str) -> Loaded:
    """Qwen2-VL (``2``) or Qwen2.5-VL (``2_5``): no deepstack, no time stamps."""
    module, kind = {"2": (qwen2_vl, Qwen2VLProcessor), "2_5": (qwen2_5_vl, Qwen2_5_VLProcessor)}[version]
    rope = {"type": "mrope", "mrope_section": [2, 3, 3]}
    text = _text(model_type=f"qwen{version}_vl", rope_scaling=rope, rope_traditional=False)
    vision: dict[str, Any] = {
        "model_type": f"qwen{version}_vl",
        "depth": 3,
        "num_heads": 2,
        "patch_size": 14,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "in_channels": 3,
    }
    if version == "2":
        vision |= {"embed_dim": 32, "hidden_size": 64, "mlp_ratio": 2.0}
    else:
        vision |= {"hidden_size": 32, "out_hidden_size": 64, "intermediate_size": 64}
        vision |= {"window_size": 56, "fullatt_block_indexes": [1], "tokens_per_second": 2}
    ids = {"image_token_id": "<|image_pad|>", "video_token_id": "<|video_pad|>"}
    ids |= {"vision_start_token_id": "<|vision_start|>", "vision_end_token_id": "<|vision_end|>"}

    def make() -> nn.Module:
        names = {name: token(text) for name, text in ids.items()}
        made = module.ModelConfig.from_dict(
            {"model_type": f"qwen{version}_vl", "vocab_size": _vocab(), "text_config": text, "vision_config": vision}
            | names
        )
        made.text_config = module.TextConfig.from_dict(text)
        made.vision_config = module.VisionConfig.from_dict(vision)
        return module.Model(made)

    processor = kind(
        image_processor=Qwen3VLImageProcessor(patch_size=14, min_pixels=28 * 28, max_pixels=512 * 512),
        tokenizer=tokenizer(named=False),
        video_processor=Qwen3VLVideoProcessor(patch_size=14, min_pixels=28 * 28, max_pixels=16 * 64 * 64),
        chat_template=_TEMPLATE,
    )
    return _build(make, 5), processor


_EXPERTS = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "moe_intermediate_size": 32,
    "norm_topk_prob": True,
}
TEXT_FAMILIES: dict[str, tuple[Any, dict[str, Any]]] = {
    "llama": (llama, {}),
    "qwen2": (qwen2, {}),
    "qwen3": (qwen3, {}),
    "qwen3_moe": (moe, _EXPERTS),
    "gemma3_text": (gemma3_text, {"query_pre_attn_scalar": 16, **_SLIDING}),
    "gemma4_text": (
        gemma4_text,
        {
            "global_head_dim": 32,
            "num_kv_shared_layers": 2,
            "hidden_size_per_layer_input": 8,
            "vocab_size_per_layer_input": _vocab(),
            **_SLIDING,
        },
    ),
}


@cache
def text_only(family: str) -> Loaded:
    """A model that reads words only; its processor is the bare tokenizer."""
    module, more = TEXT_FAMILIES[family]
    return _build(lambda: module.Model(module.ModelConfig.from_dict(_text(model_type=family, **more))), 6), tokenizer()
