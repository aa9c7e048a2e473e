"""What is kept between requests, within one byte budget."""

from __future__ import annotations

from collections.abc import Callable

from engine.cache_budget import cache_budget
from engine.config import MLLMSchedulerConfig
from engine.vision_cache import VisionCache


class Caches:
    """The vision cache and its share of the budget.

    Args:
        free_memory: tells how many bytes are free; asked once, when the first request comes.
    """

    def __init__(self, config: MLLMSchedulerConfig, free_memory: Callable[[], int]) -> None:
        self._config, self._free_memory = config, free_memory
        self._free_bytes: int | None = None
        self.vision = VisionCache(max_bytes=0, max_entries=0)

    def open(self) -> None:
        """Set the budgets, once: the first request finds the model loaded and knows what that left free."""
        if self._free_bytes is None:
            self._free_bytes = self._free_memory()
            self.configure(self._config)

    def configure(self, config: MLLMSchedulerConfig) -> None:
        """Take new budgets and switches; what no longer fits goes at once."""
        self._config = config
        if self._free_bytes is None:
            return
        budget = cache_budget(config, self._free_bytes)
        self.vision.configure(budget.vision, config.vision_cache_size, config.enable_vision_cache)

    def evict(self, size: int) -> int:
        """Free at least ``size`` bytes of idle entries if there are so many; returns how many."""
        return self.vision.evict(size)

    def clear(self) -> None:
        """Drop all entries."""
        self.vision.clear()
