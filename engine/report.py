"""The scheduler's figures as the plain dictionaries that panels and scripts read."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

from engine.memory import Machine
from engine.request import MLLMRequest, Phase, RequestStatus

if TYPE_CHECKING:
    from engine.scheduler import MLLMScheduler


def stats(scheduler: MLLMScheduler) -> dict[str, Any]:
    """The contract's ``get_stats``; memory in GB of 1e9 bytes, stalls in milliseconds."""
    memory = scheduler.memory()
    return {
        "num_waiting": scheduler.get_num_waiting(),
        "num_running": scheduler.get_num_running(),
        "num_decoding": scheduler.batch.decoding,
        "num_finished": len(scheduler.finished_req_ids),
        "num_requests_processed": scheduler.num_requests_processed,
        "total_prompt_tokens": scheduler.total_prompt_tokens,
        "total_completion_tokens": scheduler.total_completion_tokens,
        "requests": running_requests(scheduler),
        "batch_generator": scheduler.batch_stats.snapshot(memory["peak"]),
        "vision_embedding_cache": scheduler.caches.vision.snapshot(),
        "memory_aware_cache": scheduler.caches.prefix.snapshot(),
        "reply_history": scheduler.intake.history.snapshot(),
        "ssd_cache": scheduler.caches.ssd.snapshot() if scheduler.caches.ssd else {},
        "mtp": scheduler.batch.speculation.snapshot(),
        "metal_active_memory_gb": memory["active"] / 1e9,
        "metal_peak_memory_gb": memory["peak"] / 1e9,
        "metal_cache_memory_gb": memory["cache"] / 1e9,
        "memory_limit_gb": memory["limit"] / 1e9,
        "memory_budget_gb": _budget(scheduler, memory),
        "backend": scheduler.backend,
        "lending": scheduler.lending,
        "loop_stall_ms": scheduler.occupation.snapshot(),
        "unit_budget_missed": scheduler.batch.planner.budget_missed,
    }


def _budget(scheduler: MLLMScheduler, memory: dict[str, int]) -> float:
    """What model, chats and caches may take together, by which requests are admitted; GB."""
    chosen = scheduler.config.memory_limit_gb
    return Machine(memory["limit"], memory["available"]).budget() / 1e9 if chosen is None else chosen


def running_requests(scheduler: MLLMScheduler) -> list[dict[str, Any]]:
    """One entry per waiting and running request, in order of arrival."""
    now = monotonic()
    live = [request for request in scheduler.requests.values() if not request.status.finished]
    return [_entry(scheduler, request, now) for request in live]


def _entry(scheduler: MLLMScheduler, request: MLLMRequest, now: float) -> dict[str, Any]:
    running = request.status is RequestStatus.RUNNING
    phase, progress, detail = scheduler.phase(request.request_id)
    first, limit = request.first_token_time, request.sampling_params.max_tokens
    return {
        "request_id": request.request_id,
        "status": "running" if running else "waiting",
        "phase": phase.value,
        "detail": detail or request.wait_reason,
        "elapsed_s": now - request.arrival_time,
        "prompt_tokens": request.num_prompt_tokens,
        "completion_tokens": request.num_output_tokens,
        "max_tokens": limit,
        "progress": request.num_output_tokens / limit if phase is Phase.GENERATION else progress,
        "tokens_per_second": tokens_per_second(request, now),
        "ttft_s": None if first is None else first - request.arrival_time,
        "cache_hit_type": request.cache_hit_type,
        "cached_tokens": request.cached_tokens,
        "mtp": {"drafts": request.mtp_drafts, "accepted": request.mtp_accepted, "off": request.mtp_off},
    }


def tokens_per_second(request: MLLMRequest, now: float) -> float | None:
    """Decode speed of one request: tokens after the first over the time since the first; None before the second."""
    if request.first_token_time is None or request.num_output_tokens < 2:
        return None
    seconds = (request.finish_time or now) - request.first_token_time
    return (request.num_output_tokens - 1) / seconds if seconds > 0 else None
