"""KV prefixes in memory: what earlier turns have computed, found again by content, bounded by bytes or entries."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import mlx.core as mx

from engine.host_array import to_device
from engine.models import layers
from engine.models.layers import Codec, State
from engine.prefix_key import Key
from engine.prefix_tree import RUN, Entry, Node, PrefixTree
from engine.spill import Spill

log = logging.getLogger(__name__)

_LEAST = 16
"""Positions so few that they are computed faster than restored, unless there are no others."""
_NO_STATE = State({}, {})


@dataclass(frozen=True, slots=True)
class Run:
    """A run's keys and values as stored: on the device, or on the host when they come from disk."""

    arrays: Mapping[str, Any]
    codec: Codec


@dataclass(frozen=True, slots=True)
class Prefix:
    """What a row goes on from: ``length`` positions in consecutive runs, and the state at their end."""

    length: int
    runs: Sequence[Run]
    state: State | None
    tier: Literal["memory", "ssd"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What may be kept.

    Attributes:
        max_bytes: None bounds by entries only.
        max_entries: most conversations: branches of the tree.
        codec: how runs are packed.
    """

    enabled: bool = False
    max_bytes: int | None = 0
    max_entries: int = 1
    codec: Codec = layers.PLAIN


class PrefixCache:
    """Prefixes of prompts and replies, shared by all requests.

    ``lookup``, ``release``, ``configure`` and ``clear`` belong between units, ``restore`` and what stores into units.

    Args:
        make_cache: makes fresh scalar cache layers of the model.
    """

    def __init__(self, make_cache: Callable[[], list[Any]]) -> None:
        self._make_cache = make_cache
        self.limits = Limits()
        self.tree = PrefixTree(stateful=layers.has_state(make_cache()))
        self.hits = self.misses = self.evictions = self.tokens_saved = 0
        self.spill: Spill | None = None
        self._active: dict[str, Node] = {}

    @property
    def stateful(self) -> bool:
        """Whether a row can go on only from where the model's state was stored."""
        return self.tree.stateful

    def known(self, key: Key) -> int:
        """Positions of the longest usable prefix."""
        match = self.tree.find(key)
        return match.length if match else 0

    def lookup(self, request_id: str, key: Key, promoted: Prefix | None = None) -> Prefix | None:
        """The longest usable prefix; its runs stay until ``release``.

        Args:
            request_id: of the request that goes on from it.
            key: of its prompt.
            promoted: what was read from disk for it, if that was more than memory knew.
        """
        if not self.limits.enabled:
            return None
        match = self.tree.find(key)
        if promoted is not None and (match is None or match.length < promoted.length):
            self.misses += 1
            return promoted
        if match is None or match.length < min(_LEAST, len(key)):
            self.misses += 1
            return None
        self.tree.touch(match.node, state=True)
        self._active[request_id] = match.node
        runs = [node.attention.data for node in match.node.path if node.attention is not None]
        return Prefix(match.length, runs, match.node.state.data if match.node.state else None, "memory")

    def release(self, request_id: str) -> None:
        """The request has ended: what it went on from may go."""
        self._active.pop(request_id, None)

    def restore(self, prefix: Prefix) -> Iterator[list[Any]]:
        """Unit: fresh scalar caches that share no buffer with what is stored; yields them after each layer filled.

        They hold the prefix once the iterator is exhausted, which may take several units.
        """
        cache = self._make_cache()
        if prefix.state is not None:
            layers.put_state(cache, State(to_device(prefix.state.arrays), prefix.state.meta))
        for number, layer in enumerate(cache):
            if layers.is_attention(layer):
                runs = [run.codec.unpack(to_device(layers.of_layer(run.arrays, number))) for run in prefix.runs]
                layers.put_attention(layer, runs, prefix.length)
            mx.eval(layer.state)
            yield cache
        if prefix.tier == "memory":
            self.hits += 1
            self.tokens_saved += prefix.length

    def store(self, key: Key, cache: Sequence[Any], row: int) -> None:
        """Unit: keep what a row has consumed; only what is not stored yet is copied.

        A failure costs the entry, never the request.

        Args:
            key: of exactly the positions its state has consumed.
            cache: the layers that hold the row, scalar or batch.
            row: its place in them.
        """
        if not self.limits.enabled or not len(key):
            return
        with self._never_fatal(key):
            self._store(key, cache, row)

    def store_runs(self, key: Key, cache: Sequence[Any], row: int) -> None:
        """Unit: keep the whole runs among what a row has consumed so far, so that ``store`` finds little left to copy.

        Args:
            key: as for ``store``.
            cache: as for ``store``.
            row: as for ``store``.
        """
        if not self.limits.enabled:
            return
        with self._never_fatal(key):
            node = self.tree.deepest(key)
            stop = node.end + (len(key) - node.end) // RUN * RUN
            if stop > node.end and (last := self._add_runs(node, key, cache, row, stop)):
                self._bound_entries(last)

    @contextmanager
    def _never_fatal(self, key: Key) -> Iterator[None]:
        try:
            yield
        except (RuntimeError, ValueError):
            log.exception("A prefix of %d tokens could not be kept", len(key))

    def _store(self, key: Key, cache: Sequence[Any], row: int) -> None:
        tree = self.tree
        node = tree.deepest(key)
        if self.stateful and (node.end < len(key) or node.state is None):
            state = layers.take_state(cache, row)
        elif not self.stateful and not tree.covers(node, key):
            state = _NO_STATE
        else:
            tree.touch(node)
            return
        last = self._add_runs(node, key, cache, row, len(key), state)
        if last is None:
            return
        if state.arrays:
            tree.add_state(last, Entry(state, layers.nbytes(state.arrays)))
        tree.touch(last, state=True)
        self._bound_entries(last)

    def _add_runs(
        self, node: Node, key: Key, cache: Sequence[Any], row: int, stop: int, state: State = _NO_STATE
    ) -> Node | None:
        """Copy what follows a node up to ``stop``, and evaluate a state with it; None if there is no room for both."""
        codec = self.limits.codec
        cuts = [*range(node.end, stop, RUN), stop]
        runs = [
            (key[a:b].copy(), Run(codec.pack(layers.take_attention(cache, row, len(key), a, b)), codec))
            for a, b in pairwise(cuts)
        ]
        needed = layers.nbytes(state.arrays) + sum(layers.nbytes(run.arrays) for _, run in runs)
        if not self._make_room(needed, {*self._active_path(), *node.path}):
            return None
        mx.eval(state.arrays, [run.arrays for _, run in runs])
        for part, run in runs:
            node = self._attach(node, part, run)
        return node

    def _attach(self, parent: Node, part: Key, run: Run) -> Node:
        node = Node(part, parent.end, parent)
        node.attention = Entry(run, layers.nbytes(run.arrays))
        self.tree.attach(node)
        return node

    def configure(self, limits: Limits) -> None:
        """Take new limits; what no longer fits, or is packed in another way, goes at once."""
        if not limits.enabled or limits.codec != self.limits.codec:
            self.clear()
        self.limits = limits
        if not self._make_room(0, self._active_path()):
            self._make_room(0, set())
        self._bound_entries(self.tree.root)

    def evict(self, size: int, wanted: Key) -> int:
        """Free ``size`` bytes of what is idle, as far as there is so much; returns how many.

        Args:
            size: bytes.
            wanted: key of a prompt to come; what it can go on from goes last.
        """
        if (match := self.tree.find(wanted)) is not None:
            self.tree.touch(match.node, state=True)
        before = self.tree.nbytes
        self._shrink(before - size, self._active_path())
        return before - self.tree.nbytes

    def clear(self) -> None:
        """Drop everything; running requests hold their own copies."""
        self._active.clear()
        self.tree.clear()

    def snapshot(self) -> dict[str, Any]:
        """The contract's ``memory_aware_cache`` figures, in MB of 1e6 bytes."""
        asked = self.hits + self.misses
        limit = self.limits.max_bytes if self.limits.enabled else 0
        return {
            "hits": self.hits,
            "misses": self.misses,
            "hit_rate": self.hits / asked if asked else 0.0,
            "evictions": self.evictions,
            "tokens_saved": self.tokens_saved,
            "current_memory_mb": self.tree.nbytes / 1e6,
            "max_memory_mb": (limit or 0) / 1e6,
            "memory_utilization": self.tree.nbytes / limit if limit else 0.0,
            "entry_count": self.tree.leaves,
        }

    def _active_path(self) -> set[Node]:
        # A copy, since a request may end while a unit is out.
        return {node for last in list(self._active.values()) for node in last.path}

    def _make_room(self, needed: int, keep: set[Node]) -> bool:
        """Let the least recently used go until ``needed`` bytes fit; False if they cannot."""
        limit = self.limits.max_bytes
        if limit is None:
            return True
        if needed <= limit:
            self._shrink(limit - needed, keep, self.spill if needed else None)
        return self.tree.nbytes + needed <= limit

    def _shrink(self, size: int, keep: set[Node], spill: Spill | None = None) -> None:
        """Let entries go until ``size`` bytes are left; with ``spill``, inside a unit, they are offered to the disk."""
        for node, entry in self.tree.oldest(keep):
            if self.tree.nbytes <= size:
                return
            if spill is not None:
                spill.save(node)
            self.tree.drop(node, entry, keep)
            self.evictions += 1

    def _bound_entries(self, newest: Node) -> None:
        """Let whole branches go, running ones last, until there are no more than allowed."""
        newest_path = set(newest.path)
        for keep in (newest_path | self._active_path(), newest_path):
            for node, _ in self.tree.oldest(keep):
                if self.tree.leaves <= self.limits.max_entries:
                    return
                if not node.children:
                    self.tree.drop_branch(node, keep)
                    self.evictions += 1
