"""The requests that hold device memory: which unit they need next, and what became of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from time import perf_counter
from typing import Any, TypeVar

import mlx.core as mx

from engine.batch import DecodeGroup
from engine.caches import Caches
from engine.config import MLLMSchedulerConfig
from engine.cost_model import CostModel
from engine.grouping import mergeable, place
from engine.messages import NOUNS
from engine.models.port import Port
from engine.mtp import Head, Round
from engine.planner import Decision, Planner, PrefillState
from engine.prefill import Prefill
from engine.prompt import MediaItem
from engine.request import Phase
from engine.row import Row
from engine.speculation import Speculation
from engine.stats import BatchStats
from engine.unit import Burst, Failure, Pairs, Token, Unit

Outcome = TypeVar("Outcome")


_HAND_OVER_S = 0.016
"""Tokens of fast steps are handed over together: each time the loop wakes, it takes the interpreter from the pump."""


class Running:
    """Prefills in turn, rows waiting to join, and the groups that decode.

    Args:
        read: reads what was left unread of a request's media, on another thread.
    """

    def __init__(
        self,
        port: Port,
        config: MLLMSchedulerConfig,
        stats: BatchStats,
        caches: Caches,
        read: Callable[[str, MediaItem], Future[MediaItem]],
    ) -> None:
        self._port, self._stats, self._caches, self._read = port, stats, caches, read
        self._prefills: dict[str, Prefill] = {}
        self._joining: deque[Prefill] = deque()
        self._groups: deque[DecodeGroup] = deque()
        self._steps_since_clear = 0
        self._clear_due = False
        self._interrupted = False
        self.hand_over: Callable[[Pairs], None] | None = None
        """Takes the tokens of a step on the pump's thread while the unit goes on; None: one step a unit."""
        self.free_padding = 0.0
        """Tokens of padding in a group that cost little: few beside the weights, in memory that nobody may need."""
        self._config = config
        self._head = Head.of(port.model)
        self.speculation = Speculation(config, available=self._head is not None)
        self.planner = _planner(config, CostModel())

    def configure(self, config: MLLMSchedulerConfig) -> None:
        """Take new limits; what was learnt about costs stays."""
        self._config = config
        self.speculation.configure(config)
        self.planner = _planner(config, self.planner.costs)

    @property
    def count(self) -> int:
        """Requests that hold device memory."""
        return len(self._prefills) + len(self._joining) + self.decoding

    @property
    def decoding(self) -> int:
        """Rows that decode."""
        return sum(len(group.members) for group in self._groups)

    @property
    def seats(self) -> int:
        """How many more requests may start their prefill."""
        if any(group.leaving for group in self._groups):
            return 0  # the newcomer may go on from what is about to be stored
        prefilling = len(self._prefills) + len(self._joining)
        return min(self._config.max_num_seqs - self.count, self._config.prefill_batch_size - prefilling)

    def admit(self, row: Row) -> None:
        """Give a row its caches, or the prefix that is known, and its place among the prefills."""
        prefix = self._caches.lookup(row.request_id, row.key[:-1])
        if prefix is not None:
            row.request.cached_tokens, row.request.cache_hit_type = prefix.length, prefix.tier
        self._queue(Prefill(self._port, row, self._caches.prefix, prefix))

    @property
    def rows(self) -> list[Row]:
        """All admitted rows."""
        prefills = (*self._prefills.values(), *self._joining)
        return [prefill.row for prefill in prefills] + [row for group in self._groups for row in group.members]

    def row(self, request_id: str) -> Row | None:
        """An admitted row by id."""
        return next((row for row in self.rows if row.request_id == request_id), None)

    def phase(self, request_id: str) -> tuple[Phase, float, str]:
        """(phase, progress 0..1 within it, detail such as ``image 2 of 3``) of an admitted request."""
        prefill = self._prefills.get(request_id)
        if prefill is None:
            return Phase.GENERATION, 0.0, ""
        item = prefill.next_picture()
        if item is None:
            return Phase.PREFILL, prefill.done / max(prefill.target, 1), ""
        encoded, pictures = prefill.pictures
        noun = "image" if item.kind == "image" else NOUNS[item.kind]
        share = prefill.encoding.blocks_done / max(prefill.encoding.blocks, 1) if prefill.encoding else 0.0
        return Phase.VISION, min((encoded + share) / pictures, 1.0), f"{noun} {encoded + 1} of {pictures}"

    def remove(self, request_id: str) -> None:
        """Drop a request and its memory; only between units."""
        self._clear_due = self._clear_due or bool(self._prefills or self._joining or self._groups)
        self._caches.release(request_id)
        self._prefills.pop(request_id, None)
        self._joining = deque(prefill for prefill in self._joining if prefill.row.request_id != request_id)
        for group in self._groups:
            for row in group.members:
                row.gone = row.gone or row.request_id == request_id
        self.tidy()

    def tidy(self) -> None:
        """Free groups in which nobody is left."""
        self._groups = deque(group for group in self._groups if group.members or group.leaving)

    def clear(self) -> None:
        """Drop everything."""
        self._prefills.clear()
        self._joining.clear()
        for group in self._groups:
            group.clear()
        self._groups.clear()

    def interrupt(self) -> None:
        """End a decode unit that is out after its current step, since something waits to be looked at; any thread."""
        self._interrupted = True

    def next_unit(self) -> Unit | None:
        """The next piece of work, or None when there is none."""
        self._interrupted = False
        if left := next((group for group in self._groups if not group.members), None):
            return Unit(Decision("store"), left, lambda: self._counted(left, left.step()))
        may_join = bool(self._joining) and self.decoding < self._config.completion_batch_size
        decoding = self.decoding + may_join
        prefills = [prefill for prefill in self._prefills.values() if self._supplied(prefill)]
        decision = self.planner.next(decoding, [_state(prefill) for prefill in prefills])
        if decision is None:
            return Unit(Decision("store"), None, self._clear) if self._clear_due else None
        if decision.kind == "decode":
            return self._decode_unit(decision)
        prefill = self._prefills[decision.request_id]
        if decision.kind == "vision":
            return Unit(decision, prefill, lambda: prefill.encode(decision.budget_s))
        if prefill.prefix is not None:
            return Unit(decision, prefill, lambda: prefill.restore(decision.budget_s))
        head = self._head if self.count == 1 and self.speculation.reads_along(prefill.row.request) else None
        return Unit(decision, prefill, lambda: prefill.advance(decision.tokens, decision.size, head))

    def _supplied(self, prefill: Prefill) -> bool:
        """Give a prefill the pictures that are known; False while another one encodes the picture it needs next."""
        while prefill.encoding is None and (item := prefill.next_picture()) is not None:
            features = self._caches.vision.get(item.key)
            if features is None:
                if self._caches.vision.enabled and not prefill.works_on(item.key) and self._worked_on(item.key):
                    return False
                return self._at_hand(prefill, item)
            prefill.supply(item, features)
        return True

    def _at_hand(self, prefill: Prefill, item: MediaItem) -> bool:
        """Whether a picture's patches are there; if they were left unread, a thread is set to read them."""
        if not item.unread:
            return True
        if prefill.reading is None or prefill.reading[0] != item.key:
            prefill.reading = item.key, self._read(prefill.row.request_id, item)
        return prefill.reading[1].done()

    def _worked_on(self, key: str) -> bool:
        return any(prefill.works_on(key) for prefill in self._prefills.values())

    def _decode_unit(self, decision: Decision) -> Unit:
        group = self._next_group()
        step, drafts = self._decode_step(group)
        if step != group.step:
            return Unit(decision, group, lambda: self._counted(group, step()), drafts)
        return Unit(decision, group, lambda: self._burst(group, decision.budget_s))

    def _burst(self, group: DecodeGroup, budget_s: float) -> Burst:
        """Unit: plain steps until the budget is used up, somebody interrupts, or nobody is left.

        Steps follow each other without a way through the loop: on a GPU that way is a tenth of a step.
        """
        now = handed = perf_counter()
        until = now + budget_s
        pairs = self._counted(group, group.step())
        tokens = len(pairs)
        while self.hand_over and group.rows and not self._interrupted and (now := perf_counter()) < until:
            if now - handed >= _HAND_OVER_S or _has_first(pairs):
                self.hand_over(pairs)
                pairs, handed = [], now
            newest = self._counted(group, group.step())
            pairs += newest
            tokens += len(newest)
        return Burst(pairs, tokens)

    def _counted(self, group: DecodeGroup, outcome: Outcome) -> Outcome:
        """Clear MLX's buffer cache every so many steps, and once a request has ended."""
        self._steps_since_clear += 1
        if self._clear_due or self._steps_since_clear >= max(8, 32 // max(1, len(group.rows) // 8)):
            self._clear()
        return outcome

    def _clear(self) -> None:
        """Unit: give buffers that are of no use now back to the system."""
        self._steps_since_clear, self._clear_due = 0, False
        mx.clear_cache()

    def _decode_step(self, group: DecodeGroup) -> tuple[Callable[[], Pairs | Round], int]:
        """A plain step of a group, or a round for a lone row once its draft is ready; and the tokens it guesses."""
        row, requests = group.lone, [member.request for member in group.members]
        alone, suspect, left = (False, False, 0) if row is None else (True, row.alone, row.limit - row.dispatched)
        count = self.speculation.plan(requests, alone=alone, suspect=suspect, left=left)
        head = self._head
        if row is None or head is None or row.request.mtp_off not in (None, "measuring"):
            return group.step, 0
        if count and row.draft is not None and row.draft.ready:
            return lambda: group.speculate(head, count), count
        return lambda: group.step(head), 0

    def _next_group(self) -> DecodeGroup:
        """The group whose turn it is, after rows that wait have found theirs."""
        while self._joining and self.decoding < self._config.completion_batch_size:
            prefill = self._joining.popleft()
            prefill.row.let_patches_go()
            self._group_for(prefill.row).enqueue(prefill)
        shared = [group for group in self._groups if not group.alone]
        if pair := mergeable(list(map(_lengths, shared)), self._config.completion_batch_size, self.free_padding):
            keeper, other = shared[pair[0]], shared[pair[1]]
            keeper.merge(other)
            self._groups.remove(other)
        chosen = self._groups[0]
        self._groups.rotate(-1)
        return chosen

    def _group_for(self, row: Row) -> DecodeGroup:
        """A group of rows about as long; a row under suspicion, or unlike all others, gets a new one."""
        shared = [group for group in self._groups if not group.alone]
        index = None if row.alone else place(row.length, list(map(_lengths, shared)), self.free_padding)
        if index is not None:
            return shared[index]
        self._groups.append(DecodeGroup(self._port, self._caches.prefix, alone=row.alone))
        return self._groups[-1]

    def settle(self, unit: Unit, outcome: Any, seconds: float) -> list[Token | Failure]:
        """Book what a unit did.

        Args:
            unit: from ``next_unit``.
            outcome: what its ``run`` returned, or the exception it raised.
            seconds: how long it took.
        """
        if unit.subject is None:
            return []
        if isinstance(unit.subject, DecodeGroup):
            if unit.decision.kind == "store":
                self._groups.remove(unit.subject)
                return []
            self._stats.generation_seconds += seconds
            if isinstance(outcome, Exception):
                self.speculation.failed(unit.drafts)
                return self._rebuild(unit.subject, outcome)
            if isinstance(outcome, Round):
                return self._settle_round(unit.subject.rows[0], outcome, seconds)
            burst = outcome if isinstance(outcome, Burst) else Burst(outcome, len(outcome))
            row = unit.subject.lone
            if row is None:
                self.speculation.other_unit()
            else:
                self.speculation.learn(row.request_id, drafted=False, tokens=burst.tokens, seconds=seconds)
            return [Token(row, token) for row, token in burst.pairs]
        self.speculation.other_unit()
        return self._settle_prefill(unit, unit.subject, outcome, seconds)

    def _settle_round(self, row: Row, outcome: Round, seconds: float) -> list[Token | Failure]:
        tokens = len(outcome.tokens)
        self.speculation.learn(row.request_id, drafted=True, tokens=tokens, seconds=seconds)
        self.speculation.count(row.request, outcome.drafted, outcome.accepted, tokens)
        return [Token(row, token) for token in outcome.tokens]

    def _settle_prefill(self, unit: Unit, prefill: Prefill, outcome: Any, seconds: float) -> list[Token | Failure]:
        if unit.decision.kind == "vision":
            self._stats.vision_seconds += seconds
            self._stats.num_images += outcome is True
        else:
            self._stats.prompt_seconds += seconds
        if prefill.row.gone:
            return []
        if isinstance(outcome, Exception):
            del self._prefills[prefill.row.request_id]
            return [Failure(prefill.row, outcome)]
        if outcome is True and prefill.encoding is not None:
            encoding, prefill.encoding = prefill.encoding, None
            assert encoding.features is not None
            self._caches.vision.put(encoding.item.key, encoding.features)
        if unit.decision.kind == "prefill":
            self._stats.prompt_tokens += unit.decision.tokens
            if unit.decision.tokens:
                self.planner.costs.learn(*_forward(unit.decision, seconds))
        if not prefill.remaining and prefill.prefix is None:
            del self._prefills[prefill.row.request_id]
            self._joining.append(prefill)
        return []

    def _rebuild(self, group: DecodeGroup, error: Exception) -> list[Token | Failure]:
        """After a failed step no cache of the group can be trusted: each row starts over by itself, once."""
        members = group.members
        group.clear()
        self.tidy()
        failures: list[Token | Failure] = []
        for row in members:
            if row.alone:
                failures.append(Failure(row, error))
            else:
                row.start_over()
                self._queue(Prefill(self._port, row, self._caches.prefix))
        return failures

    def _queue(self, prefill: Prefill) -> None:
        if prefill.remaining or prefill.prefix is not None:
            self._prefills[prefill.row.request_id] = prefill
        else:
            self._joining.append(prefill)


def _forward(decision: Decision, seconds: float) -> tuple[int, float]:
    """(tokens, seconds) of one forward of a prefill unit."""
    return (1, seconds / decision.tokens) if decision.size == 1 else (decision.tokens, seconds)


def _has_first(pairs: Pairs) -> bool:
    """Whether somebody waits for the first token of an answer."""
    return any(not row.request.output_tokens for row, _ in pairs)


def _lengths(group: DecodeGroup) -> list[int]:
    return [row.length for row in group.members]


def _planner(config: MLLMSchedulerConfig, costs: CostModel) -> Planner:
    return Planner(config.unit_budget_ms, config.prefill_step_size, config.chunked_prefill_tokens, costs)


def _state(prefill: Prefill) -> PrefillState:
    return PrefillState(
        prefill.row.request_id, prefill.stretch, vision=prefill.prefix is None and prefill.next_picture() is not None
    )
