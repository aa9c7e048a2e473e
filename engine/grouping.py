"""Which rows decode together: left padding to the longest row must not waste too much KV memory and bandwidth."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

MOST_WASTE = 0.3
"""Largest part of a group's KV memory that may be padding."""

_STEP = 256
"""KV caches grow in steps of this many tokens, so shorter differences cost nothing."""


def waste(lengths: Sequence[int]) -> float:
    """Part of the KV memory that is padding when rows of these lengths are left-padded to the longest."""
    if not lengths:
        return 0.0
    steps = [-(-length // _STEP) for length in lengths]
    return 1.0 - sum(steps) / (max(steps) * len(steps))


def place(length: int, groups: Sequence[Sequence[int]]) -> int | None:
    """The group (by index) that a row of this length wastes least in; None if every one would waste too much."""
    costs = {index: waste([*lengths, length]) for index, lengths in enumerate(groups)}
    best = min(costs, key=costs.__getitem__, default=None)
    return best if best is not None and costs[best] <= MOST_WASTE else None


def mergeable(groups: Sequence[Sequence[int]], most: int) -> tuple[int, int] | None:
    """The first two groups that may become one of at most ``most`` rows: they have grown or shrunk alike."""
    for (i, first), (j, second) in combinations(enumerate(groups), 2):
        together = [*first, *second]
        if first and second and len(together) <= most and waste(together) <= MOST_WASTE:
            return i, j
    return None
