"""A request and everything that is told about it: parameters, status and outputs."""

from __future__ import annotations

import json
import math
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any, Literal

from engine.think_tags import ThinkTags

FinishReason = Literal["stop", "length", "abort", "error"]
TokenLogprobs = tuple[tuple[int, float], ...]
"""(token id, log-probability) of the token taken, then of the likeliest ones in its place, likeliest first."""
MtpOff = Literal["disabled", "no_head", "batch", "logits_processors", "json_schema", "measuring", "slower", "error"]
"""Why a request decodes without drafts: the setting is off; the model has no head; others decode with it; a processor
or a schema needs each token before the next; plain speed is being measured; plain is faster; a step with it failed."""
LogitsProcessor = Callable[[Any, Any], Any]
"""``(tokens, logits) -> logits``: tokens ``(n,)`` int32 of the row so far, logits ``(1, vocab)``; both MLX arrays."""


class RequestStatus(Enum):
    """Where a request stands; every finished one maps to exactly one finish reason."""

    WAITING = "waiting"
    RUNNING = "running"
    FINISHED_STOPPED = "stop"
    FINISHED_LENGTH_CAPPED = "length"
    FINISHED_ABORTED = "abort"
    FINISHED_ERROR = "error"

    @property
    def finished(self) -> bool:
        """Whether the request has ended."""
        return self not in (RequestStatus.WAITING, RequestStatus.RUNNING)


class Phase(StrEnum):
    """What a live request is doing right now."""

    QUEUED = "queued"
    PREPARING = "preparing"
    VISION = "vision"
    PREFILL = "prefill"
    GENERATION = "generation"


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How tokens are chosen for one request.

    Attributes:
        json_schema: the answer, after any thinking, is JSON that follows this schema; ``{}`` is any JSON.
        thinking_budget: most tokens of thinking; then the block is closed. None: no limit.
        logprobs: report each token's log-probability and those of this many likeliest ones; None: none.

    Raises:
        ValueError: a value is out of its range; the message names it.
    """

    max_tokens: int = 256
    temperature: float = 0.7
    top_p: float = 0.9
    top_k: int = 0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    logits_processors: tuple[LogitsProcessor, ...] = ()
    json_schema: Mapping[str, Any] | None = field(default=None, hash=False)
    thinking_budget: int | None = None
    logprobs: int | None = None

    def __post_init__(self) -> None:
        given: str | Sequence[str] = self.stop
        stop = (given,) if isinstance(given, str) else tuple(given)
        object.__setattr__(self, "stop", stop)
        object.__setattr__(self, "stop_token_ids", tuple(self.stop_token_ids))
        object.__setattr__(self, "logits_processors", tuple(self.logits_processors))
        for name, low, high in _RANGES:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
                raise ValueError(f"{name}={value!r} is out of range: {low:g} to {high:g}.")
        for name in ("max_tokens", "top_k"):
            if not isinstance(getattr(self, name), int):
                raise ValueError(f"{name}={getattr(self, name)!r} must be a whole number.")
        if any(not isinstance(text, str) or not text for text in stop):
            raise ValueError("stop must hold non-empty strings.")
        if self.repetition_penalty <= 0:
            raise ValueError("repetition_penalty must be above 0.")
        for name, most in (("thinking_budget", 10_000_000), ("logprobs", 20)):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most):
                raise ValueError(f"{name}={value!r} must be None or a whole number, 0 to {most}.")
        _check_schema(self.json_schema)

    @property
    def greedy(self) -> bool:
        """Whether the likeliest token is taken each time."""
        return self.temperature == 0.0 or self.top_k == 1

    @property
    def plain(self) -> bool:
        """Whether logits are used as they come: no penalty and no processor."""
        return not self.penalised and not self.logits_processors

    @property
    def penalised(self) -> bool:
        """Whether tokens that were seen count less."""
        return self.presence_penalty != 0.0 or self.frequency_penalty != 0.0 or self.repetition_penalty != 1.0


def _check_schema(schema: Any) -> None:
    if schema is None:
        return
    if not isinstance(schema, Mapping):
        raise ValueError("json_schema must be a mapping.")
    try:
        json.dumps(schema)
    except (TypeError, ValueError) as error:
        raise ValueError(f"json_schema is not JSON: {error}.") from error


_RANGES: tuple[tuple[str, float, float], ...] = (
    ("max_tokens", 1, 10_000_000),
    ("temperature", 0.0, 100.0),
    ("top_p", 0.0, 1.0),
    ("top_k", 0, math.inf),
    ("min_p", 0.0, 1.0),
    ("presence_penalty", -2.0, 2.0),
    ("frequency_penalty", -2.0, 2.0),
    ("repetition_penalty", 0.0, 100.0),
)


@dataclass(slots=True, eq=False)
class MLLMRequest:
    """One question and the answer so far; the scheduler alone writes to it after it was added."""

    request_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    prompt: str = ""
    images: Sequence[Any] = ()
    videos: Sequence[Any] = ()
    audio: Sequence[Any] = ()
    sampling_params: SamplingParams = field(default_factory=SamplingParams)
    arrival_time: float = field(default_factory=time.monotonic)
    batch_uid: int | None = None
    status: RequestStatus = RequestStatus.WAITING
    output_text: str = ""
    output_tokens: list[int] = field(default_factory=list)
    output_logprobs: list[TokenLogprobs] = field(default_factory=list)
    finish_reason: FinishReason | None = None
    error: str | None = None
    num_prompt_tokens: int = 0
    num_output_tokens: int = 0
    cached_tokens: int = 0
    cache_hit_type: Literal["memory", "ssd"] | None = None
    mtp_drafts: int = 0
    mtp_accepted: int = 0
    mtp_off: MtpOff | None = None
    first_token_time: float | None = None
    finish_time: float | None = None
    messages: Sequence[Any] | None = None
    wait_reason: str = ""
    begins_thinking: bool = False
    """The prompt ends inside a thinking block, so that the answer's text begins with thoughts and closes them."""
    think_tags: ThinkTags = field(default_factory=ThinkTags)
    """What the model writes around its thoughts; they stand in the answer's text also where they are special tokens."""
    template_options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RequestOutput:
    """What one step added to one request; the last one is ``finished`` and carries the reason.

    Attributes:
        logprobs: one entry per token of ``output_token_ids`` where the request asked for them, else empty.
    """

    request_id: str
    new_token_ids: tuple[int, ...] = ()
    new_text: str = ""
    output_token_ids: tuple[int, ...] = ()
    output_text: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    mtp_drafts: int = 0
    mtp_accepted: int = 0
    finished: bool = False
    finish_reason: FinishReason | None = None
    error: str | None = None
    logprobs: tuple[TokenLogprobs, ...] = ()


@dataclass(slots=True)
class MLLMSchedulerOutput:
    """What one scheduler step did."""

    scheduled_request_ids: list[str] = field(default_factory=list)
    num_scheduled_tokens: int = 0
    finished_request_ids: set[str] = field(default_factory=set)
    outputs: list[RequestOutput] = field(default_factory=list)
    has_work: bool = False
