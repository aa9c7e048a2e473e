"""The engine's statistics as typed figures of one moment: memory, caches, drafts and answers that stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_MB, _GB = 1e6, 1e9
_OFF = {
    "disabled": "Off in the settings",
    "no_head": "This model cannot predict ahead",
    "batch": "Resting while several answers are written",
    "logits_processors": "Resting: this answer has rules of its own",
    "json_schema": "Resting: this answer has a form of its own",
    "measuring": "Measuring the speed without it",
    "slower": "Resting: it is faster without",
    "error": "Off after an error; the log says more",
}


@dataclass(frozen=True, slots=True)
class CacheFigures:
    """How full a cache is and what it brought.

    Attributes:
        limit_bytes: 0 where bytes do not limit it.
        hit_rate: share of lookups that found something; None before the first, or where it is not counted.
        tokens_saved: prompt tokens that were not read again; None where it is not counted.
        problem: why it cannot be used fully, in a sentence.
    """

    used_bytes: int
    limit_bytes: int
    entries: int
    hit_rate: float | None = None
    tokens_saved: int | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class MtpFigures:
    """What drafting brought, as counted, and why it is not at work right now.

    Attributes:
        acceptance: share of drafted tokens that were right; None before the first.
        tokens_per_step: tokens that one check brought, on average; None before the first.
        off: the reason in words; None while it drafts, or waits for an answer to draft for.
    """

    acceptance: float | None
    tokens_per_step: float | None
    off: str | None


@dataclass(frozen=True, slots=True)
class StreamFigures:
    """One answer that is being written.

    Attributes:
        tokens_per_second: over the last second, as the total is.
        history: the same for the last minute, oldest first.
    """

    chat_id: str
    name: str
    tokens_per_second: float
    history: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Sample:
    """Figures of one moment; bytes are bytes, stalls are how late the window's loop was.

    Attributes:
        limit_bytes: what model, chats and caches may take together.
        wait_reason: what the first question in the queue waits for.
    """

    tokens_per_second: float
    rows: int
    waiting: int
    active_bytes: int
    cache_bytes: int
    peak_bytes: int
    limit_bytes: int
    backend: str
    stall_p50_ms: float
    stall_p99_ms: float
    stall_max_ms: float
    wait_reason: str = ""
    streams: tuple[StreamFigures, ...] = ()
    prefix: CacheFigures | None = None
    vision: CacheFigures | None = None
    ssd: CacheFigures | None = None
    mtp: MtpFigures | None = None


def sample(stats: Mapping[str, Any], tokens_per_second: float, streams: tuple[StreamFigures, ...]) -> Sample:
    """Read `MLLMScheduler.get_stats()`; what it does not tell of is None."""
    stalls, requests = stats["loop_stall_ms"], stats.get("requests", ())
    return Sample(
        tokens_per_second=tokens_per_second,
        rows=stats["num_running"],
        waiting=stats["num_waiting"],
        active_bytes=round(stats["metal_active_memory_gb"] * _GB),
        cache_bytes=round(stats["metal_cache_memory_gb"] * _GB),
        peak_bytes=round(stats["metal_peak_memory_gb"] * _GB),
        limit_bytes=round(stats["memory_budget_gb"] * _GB),
        backend=stats["backend"],
        stall_p50_ms=stalls["p50"],
        stall_p99_ms=stalls["p99"],
        stall_max_ms=stalls["max"],
        wait_reason=_wait_reason(requests),
        streams=streams,
        prefix=_cache(stats.get("memory_aware_cache")),
        vision=_cache(stats.get("vision_embedding_cache")),
        ssd=_cache(stats.get("ssd_cache")),
        mtp=_mtp(stats.get("mtp"), requests),
    )


def _wait_reason(requests: Sequence[Mapping[str, Any]]) -> str:
    """What the first request in the queue waits for, if it is more than its turn."""
    waiting = next((entry for entry in requests if entry["status"] == "waiting"), None)
    return "" if waiting is None else str(waiting["detail"])


def _cache(told: Mapping[str, Any] | None) -> CacheFigures | None:
    if not told:
        return None
    asked = told.get("hits", 0) + told.get("misses", 0)
    return CacheFigures(
        used_bytes=round(told["current_memory_mb"] * _MB),
        limit_bytes=round(told["max_memory_mb"] * _MB),
        entries=told["entry_count"],
        hit_rate=told["hit_rate"] if "hit_rate" in told and asked else None,
        tokens_saved=told.get("tokens_saved"),
        problem=told.get("problem"),
    )


def _mtp(told: Mapping[str, Any] | None, requests: Sequence[Mapping[str, Any]]) -> MtpFigures | None:
    if not told:
        return None
    counted = told["attempted"] > 0
    return MtpFigures(
        acceptance=told["acceptance_rate"] if counted else None,
        tokens_per_step=told["tokens_per_round"] if counted else None,
        off=_off(told, requests),
    )


def _off(told: Mapping[str, Any], requests: Sequence[Mapping[str, Any]]) -> str | None:
    if not told["enabled"]:
        return _OFF["disabled"]
    if not told["effective_draft_tokens"]:
        return _OFF["no_head"]
    reasons = [entry["mtp"]["off"] for entry in requests if entry["phase"] == "generation"]
    if not reasons or None in reasons:
        return None
    return _OFF.get(reasons[0], f"Resting ({reasons[0]})")
