"""Picture and clip embeddings by content, bounded in bytes and entries."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from engine.models.port import Features


@dataclass(slots=True)
class VisionCache:
    """What the vision tower made of pictures, under the fingerprint of their pixels; least recently used go first.

    Attributes:
        max_bytes: most bytes kept; something larger than this is not kept at all.
        max_entries: most pictures and clips kept.
        enabled: off keeps nothing.
    """

    max_bytes: int
    max_entries: int
    enabled: bool = True
    hits: int = 0
    misses: int = 0
    nbytes: int = 0
    _entries: OrderedDict[str, Features] = field(default_factory=OrderedDict)

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: str) -> Features | None:
        """The embeddings of a picture that was seen before, counted as a hit."""
        features = self._entries.get(key)
        if features is not None:
            self._entries.move_to_end(key)
            self.hits += 1
        return features

    def put(self, key: str, features: Features) -> None:
        """Keep what was just encoded, counted as a miss."""
        self.misses += 1
        if not self.enabled or features.nbytes > self.max_bytes:
            return
        self._remove(key)
        self._entries[key] = features
        self.nbytes += features.nbytes
        self._shrink()

    def configure(self, max_bytes: int, max_entries: int, enabled: bool) -> None:
        """Take new limits; what no longer fits goes at once."""
        self.max_bytes, self.max_entries, self.enabled = max_bytes, max_entries, enabled
        self._shrink()

    def evict(self, size: int) -> int:
        """Free at least ``size`` bytes if there are so many; returns how many."""
        before = self.nbytes
        while self._entries and before - self.nbytes < size:
            self._remove(next(iter(self._entries)))
        return before - self.nbytes

    def clear(self) -> None:
        """Drop every entry; the counters stay."""
        self._entries.clear()
        self.nbytes = 0

    def snapshot(self) -> dict[str, Any]:
        """The contract's ``vision_embedding_cache`` figures, in MB of 1e6 bytes."""
        asked = self.hits + self.misses
        return {
            "hits": self.hits,
            "misses": self.misses,
            "hit_rate": self.hits / asked if asked else 0.0,
            "entry_count": len(self._entries),
            "current_memory_mb": self.nbytes / 1e6,
            "max_memory_mb": self.max_bytes / 1e6 if self.enabled else 0.0,
        }

    def _shrink(self) -> None:
        while self._entries and (
            not self.enabled or self.nbytes > self.max_bytes or len(self._entries) > self.max_entries
        ):
            self._remove(next(iter(self._entries)))

    def _remove(self, key: str) -> None:
        features = self._entries.pop(key, None)
        if features is not None:
            self.nbytes -= features.nbytes
