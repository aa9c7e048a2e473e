"""When to draft: what stands against it, whether it pays, and what came of it. Plain decisions, no MLX."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from engine.config import MLLMSchedulerConfig
from engine.request import MLLMRequest, MtpOff

_SAMPLE = 24
"""Tokens that make a measurement."""
_EARLY = 4
"""Units after which a hopeless trial may end early."""
_HOPELESS = 0.7
_FIRST_REST = 512
"""Tokens in the better way before the other one is measured again; doubled each time it loses again."""
_LONGEST_REST = 16_384
_MOST_ERRORS = 3
"""Failed rounds after which drafting stays off."""
_DOUBTFUL = 0.8
"""A favourite this much slower than the other way was last measured is questioned before its rest is over."""
_WARM_UP = 2
"""Units not measured after a change of work: caches fill, kernels compile, the pipeline starts."""


@dataclass(slots=True)
class Rate:
    """Tokens per second as a running average that forgets old units."""

    units: int = 0
    _tokens: float = 0.0
    _seconds: float = 0.0

    def learn(self, tokens: int, seconds: float) -> None:
        """Take in one unit."""
        keep = 1 - 1 / (2 * _SAMPLE)
        self.units += 1
        self._tokens = self._tokens * keep + tokens
        self._seconds = self._seconds * keep + seconds

    @property
    def value(self) -> float:
        """Tokens per second; 0 before the first unit."""
        return self._tokens / self._seconds if self._seconds else 0.0


@dataclass(slots=True)
class Payoff:
    """Measures a lone row with and without drafting, and settles on the faster way.

    The favourite is questioned rarely: after a rest, the other way is measured for a few tokens.
    """

    drafting: bool = False
    plain: Rate = field(default_factory=Rate)
    drafted: Rate = field(default_factory=Rate)
    favourite: bool | None = None
    _left: int = _SAMPLE
    _rest: int = _FIRST_REST

    @property
    def ratio(self) -> float | None:
        """Speed with drafting over speed without; None before both are measured."""
        return self.drafted.value / self.plain.value if self.drafted.units and self.plain.units else None

    def learn(self, drafted: bool, tokens: int, seconds: float) -> None:
        """Take in one unit of a lone row."""
        rate = self.drafted if drafted else self.plain
        rate.learn(tokens, seconds)
        if drafted != self.drafting:
            return
        self._left -= tokens
        if self._left <= 0 or self._decided_early(rate.units):
            self._next()

    @property
    def _trial(self) -> bool:
        return self.drafting != self.favourite

    def _decided_early(self, units: int) -> bool:
        ratio = self.ratio
        if ratio is None:
            return False
        standing = ratio if self.drafting else 1 / ratio
        if self._trial:
            return units >= _EARLY and standing < _HOPELESS
        # The machine has become busier, or the chat longer: what was measured before says little.
        return self._left <= self._rest - _FIRST_REST // 4 and standing < _DOUBTFUL

    def _next(self) -> None:
        ratio = self.ratio
        if ratio is None or not self._trial:
            # The other way has never been measured, or its turn has come again.
            self.drafting = not self.drafting
            fresh = Rate()
            self.drafted, self.plain = (fresh, self.plain) if self.drafting else (self.drafted, fresh)
            self._left = _SAMPLE
            return
        better = ratio > 1.0
        self._rest = min(self._rest * 2, _LONGEST_REST) if better == self.favourite else _FIRST_REST
        self.favourite = self.drafting = better
        self._left = self._rest


class Speculation:
    """Decides before each decode step whether and how much to draft, and counts what came of it.

    Args:
        available: whether the model has a prediction head.
    """

    def __init__(self, config: MLLMSchedulerConfig, *, available: bool) -> None:
        self.payoff = Payoff()
        self._config, self._available = config, available
        self._rounds = self._tokens = self._attempted = self._accepted = self._errors = 0
        self._bypasses: Counter[str] = Counter()
        self._last: tuple[str, bool] | None = None
        self._streak = 0

    def configure(self, config: MLLMSchedulerConfig) -> None:
        """Take new settings; what was measured stays unless the number of drafts changed."""
        if config.mtp_num_draft_tokens != self._config.mtp_num_draft_tokens:
            self.payoff = Payoff()
        self._config = config

    @property
    def on(self) -> bool:
        """Whether rows may draft at all."""
        return self._config.enable_mtp and self._available

    def obstacle(self, request: MLLMRequest) -> MtpOff | None:
        """What about a request, or the settings, rules drafting out."""
        if not self._config.enable_mtp:
            return "disabled"
        if not self._available:
            return "no_head"
        if self._errors >= _MOST_ERRORS:
            return "error"
        params = request.sampling_params
        if params.json_schema is not None:
            return "json_schema"
        return "logits_processors" if params.logits_processors else None

    def reads_along(self, request: MLLMRequest) -> bool:
        """Whether the head should read a request's prompt, for better guesses later."""
        return self.obstacle(request) is None and (self._always or self.payoff.favourite is not False)

    @property
    def _always(self) -> bool:
        return self._config.mtp_policy == "always"

    def plan(self, requests: list[MLLMRequest], *, alone: bool, suspect: bool, left: int) -> int:
        """How many tokens the next decode step drafts; 0 is a plain step. The reason is noted with each request.

        Args:
            requests: those that decode in this step.
            alone: whether there is one, and nobody is about to join it.
            suspect: whether a step has failed with it.
            left: tokens it may still take.
        """
        for request in requests:
            request.mtp_off = self.obstacle(request) or self._situation(alone, suspect)
        self._bypasses.update({request.mtp_off for request in requests if request.mtp_off not in (None, "disabled")})
        drafts = min(self._config.mtp_num_draft_tokens, left - 1)
        return max(drafts, 0) if alone and requests[0].mtp_off is None else 0

    def _situation(self, alone: bool, suspect: bool) -> MtpOff | None:
        """What stands against drafting at this moment."""
        if not alone:
            return "batch"
        if suspect:
            return "error"
        if self._always or self.payoff.drafting:
            return None
        return "measuring" if self.payoff.favourite is None else "slower"

    def other_unit(self) -> None:
        """Note that something other than a lone row's step ran: the next steps measure nothing."""
        self._last = None

    def learn(self, request_id: str, *, drafted: bool, tokens: int, seconds: float) -> None:
        """Take in one decode unit of a lone row."""
        self._streak = self._streak + 1 if self._last == (request_id, drafted) else 0
        self._last = request_id, drafted
        if self.on and self._streak > _WARM_UP and tokens:
            self.payoff.learn(drafted, tokens, seconds)

    def count(self, request: MLLMRequest, drafted: int, accepted: int, tokens: int) -> None:
        """Count one round, which brought ``tokens`` in all."""
        request.mtp_drafts += drafted
        request.mtp_accepted += accepted
        if drafted:
            self._rounds += 1
            self._tokens += tokens
        self._attempted += drafted
        self._accepted += accepted

    def failed(self, drafts: int) -> None:
        """Count a decode unit that raised, if it was a round."""
        self._errors += drafts > 0

    def snapshot(self) -> dict[str, Any]:
        """The contract's ``mtp`` figures, and tokens per second of a lone row with and without drafting."""
        return {
            "enabled": self._config.enable_mtp,
            "requested_draft_tokens": self._config.mtp_num_draft_tokens if self._config.enable_mtp else 0,
            "effective_draft_tokens": self._config.mtp_num_draft_tokens if self.on else 0,
            "rounds": self._rounds,
            "tokens_per_round": self._tokens / self._rounds if self._rounds else 0.0,
            "attempted": self._attempted,
            "accepted": self._accepted,
            "rejected": self._attempted - self._accepted,
            "errors": self._errors,
            "acceptance_rate": self._accepted / self._attempted if self._attempted else 0.0,
            "bypass_counts": dict(self._bypasses),
            "plain_tps": self.payoff.plain.value,
            "mtp_tps": self.payoff.drafted.value,
            "speedup": self.payoff.ratio,
        }
