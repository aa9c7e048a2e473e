"""A row on its way into the batch; what touches arrays runs inside a unit (``engine.device``)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import Future
from time import perf_counter
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from engine.device import check_unit
from engine.models.port import Chunk, Encoding, Features, Port
from engine.mtp import Head, states
from engine.prefix_cache import Prefix, PrefixCache
from engine.prompt import MediaItem
from engine.row import Row

log = logging.getLogger(__name__)

MIN_STRETCH = 32
"""Prompt tokens so few that computing them again is cheaper than stopping to store a state after them."""


class Prefill:
    """A row on its way into the batch: pictures first, then its prompt chunk by chunk, all but the last token.

    The last token is fed by the row's first decode step, whose logits give the first new token. After a failed decode
    step the tokens already emitted are fed again as part of the prompt.
    """

    def __init__(self, port: Port, row: Row, prefixes: PrefixCache, prefix: Prefix | None = None) -> None:
        self.row = row
        self.prefix = prefix
        self._port, self._prefixes = port, prefixes
        self._ids = (*row.prompt.ids, *row.request.output_tokens)
        self.target = len(self._ids) - 1
        self.done = prefix.length if prefix else 0
        self.cache: list[Any] = [] if prefix else port.make_cache()
        self._points = self._worthwhile_points()
        self._restoring: Iterator[list[Any]] | None = None
        self.encoding: Encoding | None = None
        self.reading: tuple[str, Future[MediaItem]] | None = None
        """Key of a picture that was left unread, and what reads it now."""
        self._features: dict[str, Features] = {}

    @property
    def remaining(self) -> int:
        """Prompt tokens still to feed."""
        return self.target - self.done

    @property
    def stretch(self) -> int:
        """Prompt tokens that may be fed in one piece: up to the next point at which the state is stored."""
        if self.prefix is not None:
            return 0
        return min((point for point in self._points if point > self.done), default=self.target) - self.done

    @property
    def last_token(self) -> int:
        """What the first decode step feeds."""
        return self._ids[-1]

    @property
    def pictures(self) -> tuple[int, int]:
        """(pictures encoded, pictures in all)."""
        media = self.row.prompt.media
        return sum(item.key in self._features for item in media), len(media)

    def next_picture(self) -> MediaItem | None:
        """The next picture that must be encoded before the prompt can go on."""
        ahead = (item for item in self.row.prompt.media if item.slots[-1][0] + item.slots[-1][1] > self.done)
        return next((item for item in ahead if item.key not in self._features), None)

    def works_on(self, key: str) -> bool:
        """Whether it encodes a picture now, or has it read for that."""
        if self.encoding is not None:
            return self.encoding.item.key == key
        item = self.next_picture()
        return self.reading is not None and item is not None and self.reading[0] == item.key == key

    def supply(self, item: MediaItem, features: Features) -> None:
        """Take the embeddings of a picture that was encoded before."""
        self._features[item.key] = features

    def encode(self, budget_s: float) -> bool:
        """Unit: go on with the next picture; True when it is encoded."""
        check_unit()
        if self.encoding is None:
            item = self.next_picture()
            assert item is not None
            if item.unread and self.reading is not None:
                item, self.reading = self.reading[1].result(), None
            self.encoding = self._port.encode(item)
        if not self.encoding.advance(budget_s):
            return False
        assert self.encoding.features is not None
        self.supply(self.encoding.item, self.encoding.features)
        return True

    def restore(self, budget_s: float) -> None:
        """Unit: go on taking over the stored prefix; if that fails, the whole prompt is computed."""
        check_unit()
        assert self.prefix is not None
        until = perf_counter() + budget_s
        try:
            self._restoring = self._restoring or self._prefixes.restore(self.prefix)
            for cache in self._restoring:
                self.cache = cache
                if perf_counter() >= until:
                    return
            if self.prefix.tier == "ssd":
                self._prefixes.store(self.row.key[: self.done], self.cache, row=0)
        except (RuntimeError, ValueError):
            log.exception("A stored prefix of %d tokens could not be used", self.prefix.length)
            self.cache, self.done = self._port.make_cache(), 0
            self.row.request.cached_tokens, self.row.request.cache_hit_type = 0, None
        self.prefix = self._restoring = None

    def advance(self, tokens: int, size: int, head: Head | None = None) -> None:
        """Unit: feed the next ``tokens`` prompt tokens in forwards of ``size``; a prediction head reads along."""
        check_unit()
        end = self.done + tokens
        while self.done < end:
            stop = min(self.done + size, end)
            chunk = self._chunk(self.done, stop)
            if head is None:
                mx.eval(self._port.prefill(chunk, self.cache))
            else:
                self._advance_with(head, chunk, stop)
            self.done = stop
        if end in self._points:
            self._prefixes.store(self.row.key[:end], self.cache, row=0)
        elif self._points:
            self._prefixes.store_runs(self.row.key[:end], self.cache, row=0)

    def _worthwhile_points(self) -> tuple[int, ...]:
        """Where to store: on the way for models that resume only there, at the end for the others."""
        if self.row.alone or not self._prefixes.limits.enabled:
            return ()
        if not self._prefixes.stateful:
            return (self.target,)
        last = self.row.points[-1:]
        return (*(point for point in self.row.points[:-1] if point >= self.done + MIN_STRETCH), *last)

    def _advance_with(self, head: Head, chunk: Chunk, end: int) -> None:
        self.row.draft = draft = self.row.draft or head.draft()
        arrays, hidden = self._port.prefill_hidden(chunk, self.cache)
        head.feed(draft.cache, mx.array(self._ids[self.done + 1 : end + 1]), hidden, self.done)
        mx.eval(arrays, states(draft.cache))

    def _chunk(self, start: int, end: int) -> Chunk:
        visual = []
        for item in self.row.prompt.media:
            first = 0
            for slot, length in item.slots:
                a, b = max(slot, start), min(slot + length, end)
                if a < b:
                    visual.append((a - start, b - start, self._features[item.key], first + a - slot))
                first += length
        return Chunk(self._ids[start:end], self._positions(start, end), visual)

    def _positions(self, start: int, end: int) -> NDArray[np.int32] | None:
        known = self.row.prompt.positions
        if known is None or end <= known.shape[1]:
            return None if known is None else known[:, start:end]
        after = np.arange(known.shape[1], end, dtype=np.int32) + self.row.prompt.rope_delta
        return np.concatenate([known, np.broadcast_to(after, (3, after.size))], axis=1)[:, start:end]
