"""What is kept between requests, within one byte budget, and below it the cold tier on disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from engine.cache_budget import cache_budget
from engine.config import MLLMSchedulerConfig
from engine.models.identity import identity
from engine.models.layers import Codec
from engine.models.port import Port
from engine.prefix_cache import Limits, Prefix, PrefixCache
from engine.prefix_key import Key
from engine.promotion import Promotion
from engine.spill import Spill
from engine.ssd_cache import SsdCache
from engine.vision_cache import VisionCache

_GB = 1_000_000_000


class Caches:
    """The vision and prefix caches with their shares of the budget, and the cold tier if there is one.

    Args:
        free_memory: tells how many bytes are free; asked once, with the model loaded.
        on_change: called from any thread when the disk has done something.
    """

    def __init__(
        self,
        config: MLLMSchedulerConfig,
        port: Port,
        free_memory: Callable[[], int],
        on_change: Callable[[], None],
    ) -> None:
        self._config, self._port = config, port
        self._free_memory, self._on_change = free_memory, on_change
        self._free_bytes: int | None = None
        self._promotion = Promotion()
        self._spill: Spill | None = None
        self.vision = VisionCache(max_bytes=0, max_entries=0)
        self.prefix = PrefixCache(port.make_cache)
        self.ssd: SsdCache | None = None
        self._retired: list[SsdCache] = []

    def open(self) -> None:
        """Set the budgets, once: at the start or the first request the model is loaded, which tells what is left."""
        if self._free_bytes is None:
            self._free_bytes = self._free_memory()
            self.configure(self._config)
        elif self.ssd is None:
            self._open_ssd()

    def configure(self, config: MLLMSchedulerConfig) -> None:
        """Take new budgets and switches; what no longer fits goes at once."""
        repack = _codec(config) != _codec(self._config)
        self._config = config
        if self._free_bytes is None:
            return
        budget = cache_budget(config, self._free_bytes)
        self.vision.configure(budget.vision, config.vision_cache_size, config.enable_vision_cache)
        self.prefix.configure(
            Limits(config.enable_prefix_cache, budget.prefix, config.prefix_cache_entries, _codec(config))
        )
        if self.ssd is not None and (repack or not config.enable_prefix_cache):
            self._retire()
        if self.ssd is None:
            self._open_ssd()
        else:
            self.ssd.configure(int(config.ssd_cache_max_gb * _GB))

    def lookup(self, request_id: str, key: Key) -> Prefix | None:
        """What an admitted request goes on from."""
        promoted = self._promotion.take(request_id)
        prefix = self.prefix.lookup(request_id, key, promoted)
        if self.ssd is not None and prefix is not None and prefix.tier == "ssd":
            self.ssd.hits += 1
            self.ssd.tokens_saved += prefix.length
        return prefix

    def fetching(self, request_id: str, key: Key) -> bool:
        """Whether a request must wait while what memory has forgotten is read from disk."""
        if self.ssd is None:
            return False
        return self._promotion.pending(self.ssd, request_id, key, self.prefix.known(key))

    def wait(self) -> None:
        """Block until the disk has answered all who wait for it."""
        if self.ssd is not None:
            self.ssd.wait()
            self._promotion.wait()

    def release(self, request_id: str) -> None:
        """A request has ended."""
        self.prefix.release(request_id)
        self._promotion.drop(request_id)

    def spill(self) -> Callable[[], None] | None:
        """A unit that offers idle entries to the disk, or None when there is nothing to do."""
        return self._spill.unit if self._spill is not None and self._spill.due else None

    @property
    def unsaved(self) -> bool:
        """Whether something in memory has not been offered to the disk."""
        return self._spill is not None and self._spill.left

    def flush(self) -> None:
        """Block until the disk has taken what is queued; any thread."""
        if self.ssd is not None:
            self.ssd.flush()

    def evict(self, size: int, wanted: Key) -> int:
        """Free at least ``size`` bytes of idle entries if there are so many; returns how many.

        Args:
            size: bytes.
            wanted: key of the prompt that needs the room; what it can go on from goes last.
        """
        freed = self.prefix.evict(size, wanted)
        return freed + (self.vision.evict(size - freed) if freed < size else 0)

    def clear(self) -> None:
        """Drop all entries in memory."""
        self.vision.clear()
        self.prefix.clear()

    def close(self) -> None:
        """Write what is queued for the disk, and end the cold tier's threads; ``open`` starts them again."""
        self._retire()
        while self._retired:
            self._retired.pop().join()

    def _retire(self) -> None:
        """Let the cold tier end by itself, once all is written."""
        self._promotion.clear()
        if self.ssd is not None:
            self.ssd.end()
            self._retired.append(self.ssd)
        self.ssd = self._spill = self.prefix.spill = None

    def _open_ssd(self) -> None:
        folder = self._config.ssd_cache_dir
        if folder is None or not self._config.enable_prefix_cache:
            return
        name = identity(self._port.model, self._port.make_cache(), _codec(self._config))
        limit = int(self._config.ssd_cache_max_gb * _GB)
        root = Path(folder).expanduser()
        self.ssd = SsdCache(root, name, limit, stateful=self.prefix.stateful, on_change=self._on_change)
        self._spill = self.prefix.spill = Spill(self.prefix.tree, self.ssd)


def _codec(config: MLLMSchedulerConfig) -> Codec:
    bits = config.kv_cache_quantization_bits if config.kv_cache_quantization else 0
    return Codec(bits, config.kv_cache_quantization_group_size)
