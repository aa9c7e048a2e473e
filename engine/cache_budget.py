"""How many bytes the caches may hold: the user's figures, or a share of what the machine has free."""

from __future__ import annotations

from dataclasses import dataclass

from engine.config import MLLMSchedulerConfig

MB = 1_000_000
_SHARE_OF_FREE = 0.25
"""Of free memory: running chats, other programs and the system need the rest."""
_SHARE_FOR_VISION = 0.125
"""A picture's embeddings are small beside the KV of its tokens."""


@dataclass(frozen=True, slots=True)
class CacheBudget:
    """Bytes per cache, whose sum never exceeds ``cache_memory_mb``; ``prefix`` None: bounded by entries only."""

    vision: int
    prefix: int | None


def cache_budget(config: MLLMSchedulerConfig, free_bytes: int) -> CacheBudget:
    """Divide the budget.

    Args:
        config: a part's own figure caps that part; ``cache_memory_mb`` caps the sum and wins.
        free_bytes: memory that is free with the model loaded.
    """
    derived = int(free_bytes * _SHARE_OF_FREE)
    total = _bytes(config.cache_memory_mb, derived)
    vision = _bytes(config.vision_cache_mb, int(total * _SHARE_FOR_VISION)) if config.enable_vision_cache else 0
    if not config.enable_prefix_cache:
        return CacheBudget(min(vision, total) if config.cache_memory_mb is not None else vision, 0)
    if not config.use_memory_aware_cache and config.cache_memory_mb is None:
        return CacheBudget(vision, None)
    prefix = _bytes(config.prefix_cache_memory_mb, max(total - vision, 0))
    if config.cache_memory_mb is not None and vision + prefix > total:
        vision = total * vision // (vision + prefix)
        prefix = total - vision
    return CacheBudget(vision, prefix)


def _bytes(megabytes: int | None, default: int) -> int:
    return default if megabytes is None else megabytes * MB
