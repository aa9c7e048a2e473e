"""What the scheduler may use and how it behaves: one validated, typed configuration."""

from __future__ import annotations

import dataclasses
import math
import os
from dataclasses import dataclass, field
from typing import Any, Literal

MtpPolicy = Literal["auto", "always"]


def _field(
    default: Any, help_text: str, *, low: float | None = None, high: float | None = None, unit: str = "", **meta: Any
) -> Any:
    """Declare a field together with what a settings page needs to draw it."""
    return field(default=default, metadata={"help": help_text, "low": low, "high": high, "unit": unit, **meta})


@dataclass(frozen=True, slots=True)
class MLLMSchedulerConfig:
    """Limits, budgets and switches of one scheduler.

    Raises:
        ValueError: a field holds an impossible value; the message names field, value and allowed range.
    """

    max_num_seqs: int = _field(16, "Most requests running (prefill and decode) at once.", low=1, high=1024)
    prefill_batch_size: int = _field(16, "Most requests in prefill at once.", low=1, high=1024)
    completion_batch_size: int = _field(16, "Most rows decoding together.", low=1, high=1024)
    prefill_step_size: int = _field(1024, "Most prompt tokens in one prefill chunk.", low=1, high=65536, unit="tokens")
    enable_vision_cache: bool = _field(True, "Keep the embeddings of pictures and clips.")
    vision_cache_size: int = _field(100, "Most entries in the vision cache.", low=1, high=100_000, unit="entries")
    default_max_tokens: int = _field(
        256, "Reply limit where a request sets none.", low=1, high=1_000_000, unit="tokens"
    )
    default_video_fps: float = _field(2.0, "Frames sampled per second of video.", low=0.01, high=120.0, unit="frames/s")
    max_video_frames: int = _field(128, "Most frames taken from one video.", low=1, high=4096, unit="frames")
    cache_memory_mb: int | None = _field(
        None, "One budget for the vision and prefix caches together; empty: derived from the machine.", low=0, unit="MB"
    )
    enable_mtp: bool = _field(False, "Draft several tokens at once with the model's own prediction head.")
    mtp_num_draft_tokens: int = _field(1, "Tokens drafted per round.", low=1, high=4, unit="tokens")
    mtp_policy: MtpPolicy = _field(
        "auto", "Draft only where it measurably pays, or always.", choices=("auto", "always")
    )
    enable_prefix_cache: bool = _field(True, "Reuse what earlier turns have already computed.")
    use_memory_aware_cache: bool = _field(True, "Bound the prefix cache by bytes; off: by entries only.")
    prefix_cache_memory_mb: int | None = _field(
        None, "Budget of the prefix cache; empty: derived from free memory.", low=0, unit="MB"
    )
    prefix_cache_entries: int = _field(64, "Most conversations kept in the prefix cache.", low=1, high=100_000)
    vision_cache_mb: int | None = _field(None, "Budget of the vision cache; empty: derived.", low=0, unit="MB")
    kv_cache_quantization: bool = _field(False, "Store prefixes in fewer bits; running chats stay exact.")
    kv_cache_quantization_bits: int = _field(8, "Bits of a stored value.", choices=(4, 8), unit="bits")
    kv_cache_quantization_group_size: int = _field(64, "Values that share one scale.", choices=(32, 64, 128))
    chunked_prefill_tokens: int = _field(
        0,
        "Prompt tokens per step while others decode; 0: chosen by the latency budget.",
        low=0,
        high=65536,
        unit="tokens",
    )
    max_kv_size: int = _field(0, "Context limit of one request; 0: the model's own.", low=0, unit="tokens")
    memory_limit_gb: float | None = _field(
        None,
        "Most memory for model, chats and caches; empty: derived from the machine.",
        low=0.001,
        high=1e6,
        unit="GB",
    )
    ssd_cache_dir: str | os.PathLike[str] | None = _field(None, "Folder of the cold cache tier; empty: off.")
    ssd_cache_max_gb: float = _field(
        10.0, "Size limit of that folder, for all models together.", low=0.0, high=1e6, unit="GB"
    )
    allow_remote_media: bool = _field(
        False, "Fetch media named by http or https addresses, from servers of the public internet only."
    )
    unit_budget_ms: float = _field(
        80.0, "Longest piece of work while answers stream.", low=1.0, high=10_000.0, unit="ms"
    )
    lend_stream: bool = _field(True, "Work on a helper thread, so that the window stays free.")

    def __post_init__(self) -> None:
        for spec in dataclasses.fields(self):
            _check(spec, getattr(self, spec.name))


def _check(spec: dataclasses.Field[Any], value: Any) -> None:
    meta, kind = spec.metadata, str(spec.type)
    if value is None and "None" in kind:
        return
    if "choices" in meta and value not in meta["choices"]:
        raise ValueError(f"{spec.name}={value!r} is not one of {', '.join(map(str, meta['choices']))}.")
    if "PathLike" in kind:
        if not isinstance(value, (str, os.PathLike)):
            raise ValueError(f"{spec.name}={value!r} is not a folder.")
        return
    if kind == "bool":
        if not isinstance(value, bool):
            raise ValueError(f"{spec.name}={value!r} must be True or False.")
        return
    if "choices" in meta:
        return
    _check_number(spec, value)


def _check_number(spec: dataclasses.Field[Any], value: Any) -> None:
    low, high = spec.metadata["low"], spec.metadata["high"]
    allowed = f"{low:g} or more" if high is None else f"{low:g} to {high:g}"
    whole = "float" not in str(spec.type)
    if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
        raise ValueError(f"{spec.name}={value!r} must be a {'whole ' if whole else ''}number, {allowed}.")
    if not (low <= value < math.inf and (high is None or value <= high)):
        raise ValueError(f"{spec.name}={value!r} is out of range: {allowed}.")
