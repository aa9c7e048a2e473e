"""Which rows decode together: left padding to the longest row must waste little KV memory and bandwidth."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

MOST_WASTE = 0.3
"""Largest part of a group's KV memory that may be padding, whatever it costs."""
MOST_FREE_WASTE = 0.6
"""Largest part where the padding is small beside the weights."""
FREE_SHARE = 0.25
"""Padding of up to this part of the weights' bytes is small: a step of another group would read all of those again."""

_STEP = 256
"""KV caches grow in steps of this many tokens, so shorter differences cost nothing."""


def waste(lengths: Sequence[int]) -> float:
    """Part of the KV memory that is padding when rows of these lengths are left-padded to the longest."""
    if not lengths:
        return 0.0
    steps = [-(-length // _STEP) for length in lengths]
    return 1.0 - sum(steps) / (max(steps) * len(steps))


def fits(lengths: Sequence[int], free: float = 0.0) -> bool:
    """Whether rows of these lengths may decode together.

    A decode step is bound by what it reads: all weights once, and each row's keys and values. Sharing a step saves
    one reading of the weights and costs one of the padding.

    Args:
        lengths: of the rows, in tokens.
        free: tokens of padding that are small beside the weights.
    """
    part = waste(lengths)
    padding = part * max(lengths, default=0) * len(lengths)
    return part <= MOST_WASTE or (part <= MOST_FREE_WASTE and padding <= free)


def place(length: int, groups: Sequence[Sequence[int]], free: float = 0.0) -> int | None:
    """The group (by index) that a row of this length wastes least in; None if every one would waste too much."""
    costs = {index: waste([*lengths, length]) for index, lengths in enumerate(groups)}
    best = min(costs, key=costs.__getitem__, default=None)
    return best if best is not None and fits([*groups[best], length], free) else None


def mergeable(groups: Sequence[Sequence[int]], most: int, free: float = 0.0) -> tuple[int, int] | None:
    """The first two groups that may become one of at most ``most`` rows: they have grown or shrunk alike."""
    for (i, first), (j, second) in combinations(enumerate(groups), 2):
        together = [*first, *second]
        if first and second and len(together) <= most and fits(together, free):
            return i, j
    return None
