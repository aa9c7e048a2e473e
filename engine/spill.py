"""From memory to the cold tier: what has not been offered to the disk yet, a little at a time."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

from engine.device import check_unit
from engine.host_array import to_host
from engine.prefix_tree import Entry, Node, PrefixTree
from engine.ssd_cache import Piece, SsdCache
from engine.ssd_folder import FileName

log = logging.getLogger(__name__)

_UNIT_BYTES = 32_000_000
"""Copied to the host in one unit while nothing else is to be done: a newcomer waits no longer than for this."""


class Spill:
    """Offers each entry to the disk once, runs before what continues them.

    Args:
        tree: in memory.
        ssd: the cold tier.
    """

    def __init__(self, tree: PrefixTree, ssd: SsdCache) -> None:
        self._tree, self._ssd = tree, ssd

    @property
    def due(self) -> bool:
        """Whether there is something to copy and room to queue it."""
        return self._ssd.ready and self._ssd.room > 0 and self.left

    @property
    def left(self) -> bool:
        """Whether something has not been offered."""
        return next(self._unoffered(), None) is not None

    def unit(self) -> None:
        """Unit: copy some entries to the host and queue them."""
        check_unit()
        copied = 0
        for node, _ in self._unoffered():
            copied += self.save(node)
            if copied >= _UNIT_BYTES or self._ssd.room <= 0:
                return

    def save(self, node: Node) -> int:
        """Unit: queue a node's entries, and first the runs that it continues; returns the bytes copied."""
        copied = 0
        for one in node.path:
            for kind, entry in (("kv", one.attention), ("state", one.state if one is node else None)):
                if entry is None or entry.offered:
                    continue
                size = self._offer(one, kind, entry)
                if size is None:
                    return copied
                copied += size
        return copied

    def _offer(self, node: Node, kind: str, entry: Entry) -> int | None:
        """Queue one entry; None when there is no room now."""
        assert node.parent is not None
        if self._ssd.has(FileName(node.parent.id, node.id, kind)):
            entry.offered = True
            return 0
        if entry.nbytes > self._ssd.room and self._ssd.busy:
            return None
        try:
            arrays = to_host(entry.data.arrays)
        except (RuntimeError, ValueError, MemoryError):
            log.exception("A prefix could not be copied for the disk")
            entry.offered = True  # or the same unit would fail for ever
            return 0
        entry.offered = self._ssd.submit(
            Piece(kind, node.parent.id, node.run, node.start, arrays, _meta(kind, entry.data))
        )
        return entry.nbytes if entry.offered else None

    def _unoffered(self) -> Iterator[tuple[Node, Entry]]:
        return ((node, entry) for node, entry in self._tree.entries() if not entry.offered)


def _meta(kind: str, data: Any) -> dict[str, str]:
    """What belongs to the arrays, as strings."""
    if kind == "state":
        return {"meta": json.dumps(data.meta)}
    return {"bits": str(data.codec.bits), "group_size": str(data.codec.group_size)}
