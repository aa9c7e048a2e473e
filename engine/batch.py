"""Rows on the device: prefill, join, decode, leave.

Everything here that touches arrays runs inside a unit (``engine.device``); between units only Python state is read.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from engine.detokenizer import Detokenizer
from engine.logprobs import Logprobs
from engine.memory import Demand
from engine.models.port import Chunk, Encoding, Features, Port
from engine.mtp import Draft, Head, Round, agreed, states, until_stop
from engine.prefix_cache import Prefix, PrefixCache
from engine.prefix_key import Key, extended
from engine.prompt import MediaItem, PreparedPrompt
from engine.request import MLLMRequest
from engine.sampling import RowSampler, sample, sample_run

log = logging.getLogger(__name__)

MIN_STRETCH = 32
"""Prompt tokens so few that computing them again is cheaper than stopping to store a state after them."""


@dataclass(slots=True, eq=False)
class Row:
    """One admitted request.

    Attributes:
        limit: most tokens it may generate: ``max_tokens``, or less where the context ends first.
        dispatched: tokens sampled so far, read or not.
        alone: decode it by itself, since a step that held it has failed once.
        gone: finished or aborted; the next unit drops it.
        draft: what multi-token prediction keeps for it while it is alone.
        logprobs: what was asked for about its tokens.
        key: of the prompt, for the prefix cache.
        points: prompt lengths at which its state is worth storing.
        digest: of the prompt as rendered, for the history.
        read: tokens that came back from the device; the request hears of them a moment later.
        ended: the last one was a stop token, so no further step is for this row.
    """

    request: MLLMRequest
    prompt: PreparedPrompt
    sampler: RowSampler
    detokenizer: Detokenizer
    stop_ids: frozenset[int]
    limit: int
    key: Key
    points: tuple[int, ...] = ()
    digest: bytes = b""
    dispatched: int = 0
    alone: bool = False
    gone: bool = False
    draft: Draft | None = None
    logprobs: Logprobs | None = None
    read: list[int] = field(default_factory=list)
    ended: bool = False

    @property
    def length(self) -> int:
        """Tokens in its caches by the time everything queued has run."""
        return len(self.prompt.ids) + self.dispatched

    @property
    def demand(self) -> Demand:
        """What it may come to need of memory."""
        patches = max((item.at_once for item in self.prompt.media), default=0)
        return Demand(len(self.prompt.ids) + self.limit, patches)

    @property
    def request_id(self) -> str:
        """The request's id."""
        return self.request.request_id

    def read_logprobs(self, count: int) -> None:
        """Unit: bring what was asked for about the next ``count`` tokens to the host."""
        if self.logprobs is not None:
            self.logprobs.read(count)

    @property
    def consumed_key(self) -> Key:
        """Of exactly the tokens its caches have taken in while it decodes: all but the last one sampled."""
        return extended(self.key, self.read)[: self.length - 1]

    def take(self, tokens: Sequence[int]) -> None:
        """Unit: note what came back; a stop token ends the row at once, before anything more is fed after it."""
        self.read += tokens
        self.ended = self.ended or not self.stop_ids.isdisjoint(tokens)

    def start_over(self) -> None:
        """Go back to what was emitted, to be prefilled again and then decode alone."""
        self.alone = True
        self.draft = None
        if self.logprobs is not None:
            self.logprobs.start_over()
        self.read = list(self.request.output_tokens)
        self.dispatched = len(self.read)
        self.sampler = self.sampler.resumed(self.request.output_tokens)


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
        self.encoding: Encoding | None = None
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

    def supply(self, item: MediaItem, features: Features) -> None:
        """Take the embeddings of a picture that was encoded before."""
        self._features[item.key] = features

    def encode(self, budget_s: float) -> bool:
        """Unit: go on with the next picture; True when it is encoded."""
        if self.encoding is None:
            item = self.next_picture()
            assert item is not None
            self.encoding = self._port.encode(item)
        if not self.encoding.advance(budget_s):
            return False
        assert self.encoding.features is not None
        self.supply(self.encoding.item, self.encoding.features)
        return True

    def restore(self) -> None:
        """Unit: take over the stored prefix; if that fails, the whole prompt is computed."""
        prefix, self.prefix = self.prefix, None
        assert prefix is not None
        try:
            self.cache = self._prefixes.restore(prefix)
            if prefix.tier == "ssd":
                self._prefixes.store(self.row.key[: self.done], self.cache, row=0)
        except (RuntimeError, ValueError):
            log.exception("A stored prefix of %d tokens could not be used", prefix.length)
            self.cache, self.done = self._port.make_cache(), 0
            self.row.request.cached_tokens, self.row.request.cache_hit_type = 0, None

    def advance(self, tokens: int, size: int, head: Head | None = None) -> None:
        """Unit: feed the next ``tokens`` prompt tokens in forwards of ``size``; a prediction head reads along."""
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
