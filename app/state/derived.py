"""What the engine has chosen by itself where the person left the choice to it."""

from __future__ import annotations

from app.state.scheduler import Scheduler


def derived(name: str, scheduler: Scheduler) -> float | None:
    """The value in force for an empty field of the engine's configuration, in the field's unit; None: not known yet."""
    if name == "max_kv_size":
        config = scheduler.model_config
        return getattr(getattr(config, "text_config", config), "max_position_embeddings", None)
    stats = scheduler.get_stats()
    vision = stats.get("vision_embedding_cache", {}).get("max_memory_mb") or 0
    prefix = stats.get("memory_aware_cache", {}).get("max_memory_mb") or 0
    known: dict[str, float] = {
        "vision_cache_mb": vision,
        "prefix_cache_memory_mb": prefix,
        "cache_memory_mb": vision + prefix,
        "memory_limit_gb": stats["memory_budget_gb"],
    }
    return known.get(name) or None
