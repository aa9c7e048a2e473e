"""The configuration: names and defaults that scripts rely on, and values that it refuses."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

from engine import MLLMScheduler, MLLMSchedulerConfig

DEFAULTS: dict[str, Any] = {
    "max_num_seqs": 16,
    "prefill_batch_size": 16,
    "completion_batch_size": 16,
    "prefill_step_size": 1024,
    "enable_vision_cache": True,
    "vision_cache_size": 100,
    "default_max_tokens": 256,
    "default_video_fps": 2.0,
    "max_video_frames": 128,
    "cache_memory_mb": None,
    "enable_mtp": False,
    "mtp_num_draft_tokens": 1,
    "mtp_policy": "auto",
    "enable_prefix_cache": True,
    "use_memory_aware_cache": True,
    "prefix_cache_memory_mb": None,
    "prefix_cache_entries": 64,
    "vision_cache_mb": None,
    "kv_cache_quantization": False,
    "kv_cache_quantization_bits": 8,
    "kv_cache_quantization_group_size": 64,
    "chunked_prefill_tokens": 0,
    "max_kv_size": 0,
    "memory_limit_gb": None,
    "ssd_cache_dir": None,
    "ssd_cache_max_gb": 10.0,
    "allow_remote_media": False,
    "unit_budget_ms": 80.0,
    "lend_stream": True,
}
_IMPOSSIBLE: dict[str, tuple[Any, str]] = {
    "mtp_policy": ("sometimes", "auto, always"),
    "kv_cache_quantization_bits": (3, "4, 8"),
    "kv_cache_quantization_group_size": (48, "32, 64, 128"),
    "ssd_cache_dir": (5, "folder"),
}


def test_names_and_defaults() -> None:
    assert dataclasses.asdict(MLLMSchedulerConfig()) == DEFAULTS


@pytest.mark.parametrize("name", DEFAULTS)
def test_an_impossible_value_is_refused_with_name_value_and_range(name: str) -> None:
    if isinstance(DEFAULTS[name], bool):
        bad, allowed = "yes", "True or False"
    else:
        bad, allowed = _IMPOSSIBLE.get(name, (-1, "or more| to "))
    with pytest.raises(ValueError, match=rf"^{name}={re.escape(repr(bad))} .*({allowed})"):
        MLLMSchedulerConfig(**{name: bad})


@pytest.mark.parametrize("bad", ["16", 1.5, True, None, float("nan"), 10**9])
def test_what_is_no_number_in_range_is_refused(bad: Any) -> None:
    with pytest.raises(ValueError, match=r"^max_num_seqs="):
        MLLMSchedulerConfig(max_num_seqs=bad)


def test_every_field_but_the_folder_changes_while_requests_run() -> None:
    assert MLLMScheduler.live_fields == set(DEFAULTS) - {"ssd_cache_dir"}
