"""Logits → next tokens, each row by its own rules, without waiting for the device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import mlx.core as mx

from engine.request import SamplingParams

_MASK64 = (1 << 64) - 1


class Rule(Protocol):
    """What rules tokens out as an answer goes on; one row's own."""

    @property
    def waits(self) -> bool:
        """Whether ``apply`` reads the token before on the host."""

    def apply(self, logits: mx.array) -> mx.array:
        """Put -inf where logits ``(1, vocab)`` belong to tokens that may not come."""

    def took(self, token: mx.array) -> None:
        """Note the sampled token ``(1,)``, which may be lazy."""

    def fork(self) -> Rule:
        """A copy that goes on by itself."""

    def resumed(self, emitted: Sequence[int]) -> Rule:
        """A fresh one that stands after ``emitted``."""


@dataclass(slots=True)
class RowSampler:
    """What one row carries from step to step.

    Token history is kept as lazy arrays, so that penalties never make the host wait for the token before.
    """

    params: SamplingParams
    prompt_ids: Sequence[int]
    seed: int
    emitted: Sequence[int] = ()
    position: int = 0
    rules: tuple[Rule, ...] = ()
    _tokens: mx.array | None = field(default=None, repr=False)
    _counts: mx.array | None = field(default=None, repr=False)
    _in_prompt: mx.array | None = field(default=None, repr=False)

    @property
    def plain(self) -> bool:
        """Whether logits are used as they come."""
        return self.params.plain and not self.rules

    @property
    def waits(self) -> bool:
        """Whether the next token cannot be chosen before the last one is on the host."""
        return bool(self.params.logits_processors) or any(rule.waits for rule in self.rules)

    @property
    def remembers(self) -> bool:
        """Whether the next choice depends on the tokens before it."""
        return self._tokens is not None or self._counts is not None or bool(self.rules)

    def shape(self, logits: mx.array) -> mx.array:
        """Apply processors, then penalties, then rules, to this row's logits ``(1, vocab)``."""
        params = self.params
        if params.logits_processors:
            if self._tokens is None:
                self._tokens = mx.array([*self.prompt_ids, *self.emitted], mx.int32)
            for processor in params.logits_processors:
                logits = processor(self._tokens, logits)
        if params.penalised:
            logits = self._penalise(logits)
        for rule in self.rules:
            logits = rule.apply(logits)
        return logits

    def _penalise(self, logits: mx.array) -> mx.array:
        params, vocab = self.params, logits.shape[-1]
        if self._counts is None:
            self._counts = mx.zeros((vocab,), logits.dtype)
            if self.emitted:
                self._counts = self._counts.at[mx.array(list(self.emitted))].add(1)
        if params.repetition_penalty != 1.0:
            if self._in_prompt is None:
                self._in_prompt = mx.zeros((vocab,), mx.bool_)
                self._in_prompt[mx.array([t for t in set(self.prompt_ids) if t < vocab])] = True
            seen = self._in_prompt | (self._counts > 0)
            damped = mx.where(logits > 0, logits / params.repetition_penalty, logits * params.repetition_penalty)
            logits = mx.where(seen, damped, logits)
        return logits - params.frequency_penalty * self._counts - params.presence_penalty * (self._counts > 0)

    def took(self, token: mx.array) -> None:
        """Note the sampled token ``(1,)`` (lazy) for the next step."""
        self.position += 1
        if self._tokens is not None:
            self._tokens = mx.concatenate([self._tokens, token.astype(mx.int32)])
        if self._counts is not None:
            self._counts = self._counts.at[token].add(mx.ones(1, self._counts.dtype))
        for rule in self.rules:
            rule.took(token)

    def resumed(self, emitted: Sequence[int]) -> RowSampler:
        """A fresh sampler that stands where ``emitted`` ends."""
        rules = tuple(rule.resumed(emitted) for rule in self.rules)
        return RowSampler(self.params, self.prompt_ids, self.seed, tuple(emitted), len(emitted), rules)

    def fork(self, ahead: int = 0) -> RowSampler:
        """A copy to go on from here without moving this one, ``ahead`` positions on if the row is plain."""
        return replace(self, position=self.position + ahead, rules=tuple(rule.fork() for rule in self.rules))

    def key(self) -> mx.array:
        """The random key of this position: the same wherever and beside whomever the row runs."""
        return mx.random.key(_mix(self.seed, self.position))


def sample(logits: mx.array, rows: Sequence[RowSampler]) -> mx.array:
    """Choose one token per row.

    Args:
        logits: ``(rows, vocab)``.
        rows: one sampler per row of ``logits``; each notes the token it got.

    Returns:
        Token ids ``(rows,)``, lazily.
    """
    if not all(row.plain for row in rows):
        logits = mx.concatenate([row.shape(logits[i : i + 1]) for i, row in enumerate(rows)])
    likeliest = mx.argmax(logits, axis=-1)
    random = [i for i, row in enumerate(rows) if not row.params.greedy]
    if not random:
        tokens = likeliest
    elif len(random) == len(rows):
        tokens = _draw(logits, rows)
    else:
        index = mx.array(random)
        tokens = likeliest
        tokens[index] = _draw(logits[index], [rows[i] for i in random])
    for i, row in enumerate(rows):
        if row.remembers:
            row.took(tokens[i : i + 1])
        else:
            row.position += 1  # a slice per row and step, only to be thrown away, would cost more than sampling
    return tokens


def sample_run(logits: mx.array, sampler: RowSampler) -> tuple[mx.array, list[RowSampler]]:
    """Choose a token at consecutive positions of one row, each as if all before it were kept.

    Args:
        logits: ``(positions, vocab)``.
        sampler: the row's, left as it is.

    Returns:
        Token ids ``(positions,)``, lazily, and the row's sampler after each of them.
    """
    count = logits.shape[0]
    if sampler.plain:
        states = [sampler.fork(ahead) for ahead in range(count)]
        return sample(logits, states), states
    tokens, states = [], []
    for i in range(count):
        states.append((states[-1] if states else sampler).fork())
        tokens.append(sample(logits[i : i + 1], states[-1:]))
    return mx.concatenate(tokens), states


def _draw(logits: mx.array, rows: Sequence[RowSampler]) -> mx.array:
    """Sample by the Gumbel-max trick from the tempered, truncated distribution of each row."""
    params = [row.params for row in rows]
    logits = logits.astype(mx.float32) / mx.array([[p.temperature] for p in params])
    if any(p.top_p < 1.0 or p.top_k or p.min_p for p in params):
        logits = _truncate(logits, params)
    noise = mx.stack([mx.random.gumbel(logits.shape[-1:], key=row.key()) for row in rows])
    return mx.argmax(logits + noise, axis=-1)


def _truncate(logits: mx.array, params: Sequence[SamplingParams]) -> mx.array:
    """Mask what top-k, nucleus (top-p) and min-p sampling leave out; the likeliest token always stays."""
    vocab = logits.shape[-1]
    order = mx.argsort(-logits, axis=-1)
    ordered = mx.take_along_axis(logits, order, axis=-1)
    probs = mx.softmax(ordered, axis=-1, precise=True)
    before = mx.cumsum(probs, axis=-1) - probs
    rank = mx.arange(vocab)[None]
    keep = before < mx.array([[p.top_p] for p in params])
    keep &= rank < mx.array([[p.top_k or vocab] for p in params])
    keep &= probs >= mx.array([[p.min_p] for p in params]) * probs[:, :1]
    keep |= rank == 0
    masked = mx.where(keep, ordered, -mx.inf)
    return mx.put_along_axis(mx.zeros_like(logits), order, masked, axis=-1)


def _mix(seed: int, position: int) -> int:
    """Spread (seed, position) over 64 bits (the finaliser of SplitMix64, Steele et al. 2014)."""
    z = (seed * 0x9E3779B97F4A7C15 + (position + 1) * 0xBF58476D1CE4E5B9) & _MASK64
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK64
    return z ^ (z >> 31)
