"""Write config.json, the processor files and the chat template: write_config.py MODEL (needs its tokenizer.json)."""

import json
import sys
from pathlib import Path

from tokenizers import Tokenizer

TEMPLATE = r"""{%- macro render(content) -%}
{%- if content is string -%}{{- content -}}
{%- elif content is iterable and content is not mapping -%}
{%- for item in content -%}
{%- if item is string -%}{{- item -}}
{%- elif item.type == 'image' or item.type == 'image_url' or item.type == 'input_image' or 'image' in item or 'image_url' in item -%}{{- '<|vision_start|><|image_pad|><|vision_end|>' -}}
{%- elif item.type == 'video' or item.type == 'video_url' or item.type == 'input_video' or 'video' in item -%}{{- '<|vision_start|><|video_pad|><|vision_end|>' -}}
{%- elif 'text' in item -%}{{- item.text -}}
{%- endif -%}
{%- endfor -%}
{%- endif -%}
{%- endmacro -%}
{%- for message in messages -%}
{%- set content = render(message.content) -%}
{%- if message.role == 'assistant' -%}
{{- '<|im_start|>assistant\n' -}}
{%- if message.reasoning_content is string and message.reasoning_content -%}
{{- '<think>\n' + message.reasoning_content.strip('\n') + '\n</think>\n\n' + content.strip('\n') -}}
{%- elif '</think>' in content -%}
{{- '<think>\n' + content.split('</think>')[0].split('<think>')[-1].strip('\n') + '\n</think>\n\n' + content.split('</think>')[-1].strip('\n') -}}
{%- else -%}
{{- '<think>\n\n</think>\n\n' + content.strip('\n') -}}
{%- endif -%}
{{- '<|im_end|>\n' -}}
{%- elif message.role == 'tool' -%}
{{- '<|im_start|>user\n<tool_response>\n' + content + '\n</tool_response><|im_end|>\n' -}}
{%- else -%}
{{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>\n' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|im_start|>assistant\n' -}}
{%- if enable_thinking is defined and enable_thinking is true -%}{{- '<think>\n' -}}{%- else -%}{{- '<think>\n\n</think>\n\n' -}}{%- endif -%}
{%- endif -%}"""


def config(tok):
    t = tok.token_to_id
    return {
        "architectures": ["Qwen3_5ForConditionalGeneration"],
        "model_type": "qwen3_5",
        "dtype": "bfloat16",
        "torch_dtype": "bfloat16",
        "tie_word_embeddings": True,
        "image_token_id": t("<|image_pad|>"),
        "video_token_id": t("<|video_pad|>"),
        "vision_start_token_id": t("<|vision_start|>"),
        "vision_end_token_id": t("<|vision_end|>"),
        "eos_token_id": [t("<|im_end|>"), t("<|endoftext|>")],
        "pad_token_id": t("<|endoftext|>"),
        "vocab_size": 2048,
        "text_config": {
            "model_type": "qwen3_5_text",
            "vocab_size": 2048,
            "hidden_size": 256,
            "intermediate_size": 512,
            "num_hidden_layers": 8,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 64,
            "hidden_act": "silu",
            "rms_norm_eps": 1e-6,
            "max_position_embeddings": 8192,
            "tie_word_embeddings": True,
            "attention_bias": False,
            "attention_dropout": 0.0,
            "full_attention_interval": 4,
            "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 2,
            "linear_conv_kernel_dim": 4,
            "linear_key_head_dim": 64,
            "linear_value_head_dim": 64,
            "linear_num_key_heads": 4,
            "linear_num_value_heads": 4,
            "mtp_num_hidden_layers": 1,
            "mtp_use_dedicated_embeddings": False,
            "eos_token_id": t("<|im_end|>"),
            "pad_token_id": t("<|endoftext|>"),
            "initializer_range": 0.02,
            "use_cache": True,
            "dtype": "bfloat16",
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "partial_rotary_factor": 0.5,
                "mrope_section": [6, 5, 5],
                "mrope_interleaved": True,
            },
        },
        "vision_config": {
            "model_type": "qwen3_5",
            "depth": 4,
            "hidden_size": 192,
            "intermediate_size": 512,
            "num_heads": 3,
            "in_channels": 3,
            "patch_size": 16,
            "spatial_patch_size": 16,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "out_hidden_size": 256,
            "num_position_embeddings": 196,
            "deepstack_visual_indexes": [],
            "hidden_act": "gelu_pytorch_tanh",
            "initializer_range": 0.02,
        },
    }


def write(out):
    """Write all files but the weights and the tokenizer into the folder `out`."""
    out = Path(out)
    c = config(Tokenizer.from_file(str(out / "tokenizer.json")))

    def save(name, values):
        (out / name).write_text(json.dumps(values, indent=2))

    save("config.json", c)
    save(
        "generation_config.json",
        {
            "eos_token_id": c["eos_token_id"],
            "pad_token_id": c["pad_token_id"],
            "do_sample": False,
            "max_new_tokens": 256,
        },
    )
    base = {
        "do_convert_rgb": True,
        "do_normalize": True,
        "do_rescale": True,
        "do_resize": True,
        "image_mean": [0.5] * 3,
        "image_std": [0.5] * 3,
        "rescale_factor": 1 / 255,
        "patch_size": 16,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "resample": 3,
    }
    save(
        "preprocessor_config.json",
        {
            **base,
            "size": {"shortest_edge": 9216, "longest_edge": 200704},
            "min_pixels": 9216,
            "max_pixels": 200704,
            "image_processor_type": "Qwen2VLImageProcessorFast",
            "processor_class": "Qwen3VLProcessor",
        },
    )
    save(
        "video_preprocessor_config.json",
        {
            **base,
            "size": {"shortest_edge": 18432, "longest_edge": 409600},
            "min_pixels": 18432,
            "max_pixels": 409600,
            "fps": 2.0,
            "min_frames": 4,
            "max_frames": 32,
            "video_processor_type": "Qwen3VLVideoProcessor",
            "processor_class": "Qwen3VLProcessor",
        },
    )
    (out / "chat_template.jinja").write_text(TEMPLATE)


if __name__ == "__main__":
    write(sys.argv[1])
