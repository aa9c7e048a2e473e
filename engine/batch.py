"""Rows that decode together: join, decode, leave.

Everything here that touches arrays runs inside a unit (``engine.device``); between units only Python state is read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
import numpy as np

from engine.device import check_unit
from engine.models.port import Port
from engine.mtp import Head, Round, agreed, states, until_stop
from engine.prefill import Prefill
from engine.prefix_cache import PrefixCache
from engine.row import Row
from engine.sampling import sample, sample_run


@dataclass(slots=True)
class DecodeGroup:
    """Rows that decode together, pipelined: step n+1 is queued from lazy tokens before step n is read.

    A lone row keeps its scalar caches; they are merged when a second one joins and extracted when one is left.
    """

    port: Port
    prefixes: PrefixCache
    alone: bool = False
    rows: list[Row] = field(default_factory=list)
    joining: list[Prefill] = field(default_factory=list)
    merging: list[DecodeGroup] = field(default_factory=list)
    _roster: list[Row] = field(default_factory=list)
    """Kept by the home thread alone, so that it may be read while a unit is out."""
    _cache: list[Any] = field(default_factory=list)
    _tokens: mx.array | None = None
    _deltas: mx.array | None = None
    _unread: list[tuple[list[Row], mx.array]] = field(default_factory=list)

    @property
    def members(self) -> list[Row]:
        """Rows that have not ended: in the batch, about to join it, or with a last token still unread."""
        return [row for row in self._roster if not row.gone]

    def enqueue(self, prefill: Prefill) -> None:
        """Let a row join with the next step."""
        self.joining.append(prefill)
        self._roster = [*self.members, prefill.row]

    def merge(self, other: DecodeGroup) -> None:
        """Let another group's rows, and those about to join it, join with the next step."""
        self.joining += other.joining
        self.merging += [*other.merging, other]
        other.joining, other.merging = [], []
        self._roster = [*self.members, *other.members]

    @property
    def lone(self) -> Row | None:
        """The row that decodes by itself with nobody about to join it; None otherwise."""
        members = self.members
        by_itself = len(members) == len(self.rows) + len(self.joining) == 1 and not self.merging
        return members[0] if by_itself else None

    @property
    def leaving(self) -> bool:
        """Whether a row has ended whose state is still to be stored."""
        return self.prefixes.limits.enabled and not self.alone and any(row.gone for row in self.rows)

    def step(self, head: Head | None = None) -> list[tuple[Row, int]]:
        """Unit: drop rows that are gone, take in those that join, queue the next step, then read the one before.

        Args:
            head: makes a lone row's draft ready for ``speculate``.

        Returns:
            (row, token) of the steps read; empty for the first one.
        """
        check_unit()
        self._drop_ended()
        while self.joining:
            prefill = self.joining[0]
            if not prefill.row.gone:
                delta = mx.array([[prefill.row.prompt.rope_delta]])
                self._extend([prefill.row], prefill.cache, mx.array([prefill.last_token]), delta)
            del self.joining[0]
        while self.merging:
            self._absorb(self.merging[0])
            del self.merging[0]
        unread, self._unread = self._unread, []
        self._dispatch(head)
        pairs: list[tuple[Row, int]] = []
        for rows, tokens in unread:
            pairs += zip(rows, np.array(tokens).tolist(), strict=True)
            for row in rows:
                row.read_logprobs(1)
        pairs = [(row, token) for row, token in pairs if not (row.gone or row.ended)]
        for row, token in pairs:
            row.take([token])
        return pairs

    def _dispatch(self, head: Head | None) -> None:
        if self._tokens is None or self._deltas is None:
            return
        hidden = None
        if head is not None and len(self.rows) == 1:
            logits, hidden = self.port.decode_hidden(self._tokens, self._cache, self._deltas)
        else:
            logits = self.port.decode(self._tokens, self._cache, self._deltas)
        self._tokens = self._choose(logits)
        self._unread.append((list(self.rows), self._tokens))
        for row in self.rows:
            row.draft = None if head is None or hidden is None else row.draft or head.draft()
            if row.draft is not None and hidden is not None:
                row.draft.follow(self._tokens, hidden, row.length - 1)
            row.dispatched += 1

    def _choose(self, logits: mx.array) -> mx.array:
        """Sample a token ``(rows,)`` for every row and queue its evaluation."""
        if any(row.sampler.waits for row in self.rows):
            # Queued first, so that the device works while the host reads the tokens before.
            mx.async_eval(logits)
        tokens = sample(logits, [row.sampler for row in self.rows])
        notes: list[mx.array] = []
        for i, row in enumerate(self.rows):
            if row.logprobs is not None:
                notes += row.logprobs.note(logits[i : i + 1], tokens[i : i + 1])
        mx.async_eval(tokens, notes)
        return tokens

    def speculate(self, head: Head, count: int) -> Round:
        """Unit: the lone row, whose draft is ready, guesses ``count`` tokens, and one forward checks them.

        Nothing stays in flight, so that another row can join right after.
        """
        check_unit()
        row, draft = self.rows[0], self.rows[0].draft
        assert draft is not None
        assert self._tokens is not None
        assert self._deltas is not None
        newest: list[int] = np.array(self._tokens).tolist()
        emitted, self._unread = newest if self._unread else [], []
        row.take(emitted)
        if newest[0] in row.stop_ids:
            row.read_logprobs(len(emitted))
            return Round(emitted, 0, 0)
        guesses = head.guess(draft, row.sampler, count)
        with self.port.verify(mx.concatenate([self._tokens, guesses]), self._cache, self._deltas) as check:
            targets, samplers = sample_run(check.logits, row.sampler)
            mx.eval(guesses, targets, check.hidden, states(draft.cache))
            right = agreed(np.array(guesses).tolist(), np.array(targets).tolist())
            new = until_stop(np.array(targets[: right + 1]).tolist(), row.stop_ids)
            check.keep(len(new))
        if row.logprobs is not None:
            row.logprobs.note(check.logits[: len(new)], targets[: len(new)])
        row.read_logprobs(len(emitted) + len(new))
        draft.follow(mx.array(new), check.hidden[:, : len(new)], row.length - 1)
        row.sampler = samplers[len(new) - 1]
        row.dispatched += len(new)
        row.take(new)
        self._tokens = mx.array(new[-1:])
        return Round(emitted + new, count, min(right, len(new)))

    def _extend(self, rows: list[Row], cache: list[Any], tokens: mx.array, deltas: mx.array) -> None:
        """Append rows with their caches, next input tokens ``(rows,)`` and M-RoPE deltas ``(rows, 1)``."""
        if self._tokens is None or self._deltas is None:
            self._cache, self._tokens, self._deltas = cache, tokens, deltas
        else:
            self._cache = _batched(self._cache, len(self.rows))
            for layer, other in zip(self._cache, _batched(cache, len(rows)), strict=True):
                layer.extend(other)
            self._tokens = mx.concatenate([self._tokens, tokens])
            self._deltas = mx.concatenate([self._deltas, deltas])
        self.rows = [*self.rows, *rows]

    def _absorb(self, other: DecodeGroup) -> None:
        """Take over another group's rows, and its step that is queued but not read."""
        other._drop_ended()
        self._unread += other._unread
        if other._tokens is not None and other._deltas is not None:
            self._extend(other.rows, other._cache, other._tokens, other._deltas)
        other.clear()

    def clear(self) -> None:
        """Drop all rows and their memory."""
        self.rows, self.joining, self.merging, self._cache, self._unread = [], [], [], [], []
        self._roster = []
        self._tokens = self._deltas = None

    def _drop_ended(self) -> None:
        """Drop rows that are gone or have queued their last token."""
        keep = [row for row in self.rows if not (row.gone or row.ended) and row.dispatched < row.limit]
        if len(keep) == len(self.rows):
            return
        if not self.alone:
            for place, row in enumerate(self.rows):
                if row not in keep:
                    self.prefixes.store(row.consumed_key, self._cache, place)
        places = [self.rows.index(row) for row in keep]
        if not keep:
            self.rows, self._cache, self._tokens, self._deltas = [], [], None, None
            return
        assert self._tokens is not None
        assert self._deltas is not None
        index = mx.array(places, mx.int32)
        if len(keep) == 1:
            self._cache = [layer.extract(places[0]) for layer in self._cache]
        else:
            for layer in self._cache:
                layer.filter(index)
        self._tokens, self._deltas = self._tokens[index], self._deltas[index]
        self.rows = keep


def _batched(cache: list[Any], rows: int) -> list[Any]:
    """Scalar caches of a lone row as batch caches; batch caches as they are."""
    return [type(layer).merge([layer]) for layer in cache] if rows == 1 else cache
