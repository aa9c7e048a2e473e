"""What is kept between requests, within one byte budget."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.cache_budget import cache_budget
from engine.config import MLLMSchedulerConfig
from engine.models.layers import Codec
from engine.prefix_cache import Limits, PrefixCache
from engine.prefix_key import Key
from engine.vision_cache import VisionCache


class Caches:
    """The vision and prefix caches and their shares of the budget.

    Args:
        make_cache: makes fresh scalar cache layers of the model.
        free_memory: tells how many bytes are free; asked once, when the first request comes.
    """

    def __init__(
        self, config: MLLMSchedulerConfig, make_cache: Callable[[], list[Any]], free_memory: Callable[[], int]
    ) -> None:
        self._config, self._free_memory = config, free_memory
        self._free_bytes: int | None = None
        self.vision = VisionCache(max_bytes=0, max_entries=0)
        self.prefix = PrefixCache(make_cache)

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
        bits = config.kv_cache_quantization_bits if config.kv_cache_quantization else 0
        codec = Codec(bits, config.kv_cache_quantization_group_size)
        self.prefix.configure(Limits(config.enable_prefix_cache, budget.prefix, config.prefix_cache_entries, codec))

    def evict(self, size: int, wanted: Key) -> int:
        """Free at least ``size`` bytes of idle entries if there are so many; returns how many.

        Args:
            size: bytes.
            wanted: key of the prompt that needs the room; what it can go on from goes last.
        """
        freed = self.prefix.evict(size, wanted)
        return freed + (self.vision.evict(size - freed) if freed < size else 0)

    def clear(self) -> None:
        """Drop all entries."""
        self.vision.clear()
        self.prefix.clear()
