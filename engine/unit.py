"""One piece of device work, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from engine.batch import DecodeGroup
from engine.planner import Decision
from engine.prefill import Prefill
from engine.row import Row


@dataclass(frozen=True, slots=True)
class Unit:
    """One piece of device work.

    Attributes:
        subject: the prefill or group it belongs to; None for work that belongs to no request.
        drafts: tokens that a round guesses.
    """

    decision: Decision
    subject: Prefill | DecodeGroup | None
    run: Callable[[], Any]
    drafts: int = 0


Pairs = list[tuple[Row, int]]
"""(row, token) of one decode step."""


@dataclass(frozen=True, slots=True)
class Burst:
    """What a decode unit of plain steps brought.

    Attributes:
        pairs: of the last steps; earlier ones were handed over as they came.
        tokens: of all its steps.
    """

    pairs: Pairs
    tokens: int


@dataclass(frozen=True, slots=True)
class Token:
    """A row got one token."""

    row: Row
    token: int


@dataclass(frozen=True, slots=True)
class Failure:
    """A row cannot go on."""

    row: Row
    error: Exception
