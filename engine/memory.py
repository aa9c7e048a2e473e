"""What requests cost in device memory, what the machine allows, and who may start: plain arithmetic, no MLX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

GB = 1e9

_SHARE = 0.9
"""Part of the machine's limit that is ours; the rest keeps the system and other programs alive."""
_LEAST_RESERVE = 1 * GB
_FREE_RESERVE = 0.5 * GB
"""What must stay free of the memory that the system reports as available right now."""


@dataclass(frozen=True, slots=True)
class LayerCost:
    """How one layer's cache grows: ``fixed`` bytes, plus ``per_token`` in steps, up to ``window`` if it slides."""

    fixed: float = 0.0
    per_token: float = 0.0
    step: int = 1
    window: int | None = None

    def bytes(self, tokens: int, chunk: int) -> float:
        """Bytes for a row of ``tokens`` that was prefilled in chunks of at most ``chunk``."""
        if self.window is not None:
            tokens = min(tokens, self.window - 1 + chunk)
        # Wherever the cache last grew, it holds less than one step more than its tokens.
        return self.fixed + (tokens + self.step - 1) * self.per_token


@dataclass(frozen=True, slots=True)
class CacheCost:
    """How a row's caches grow, layer by layer, as read off real caches."""

    layers: tuple[LayerCost, ...] = ()

    @property
    def per_token(self) -> float:
        """Bytes that every further token adds."""
        return sum(layer.per_token for layer in self.layers if layer.window is None)

    def bytes(self, tokens: int, chunk: int = 1) -> int:
        """Bytes of all layers for one row of ``tokens``."""
        return round(sum(layer.bytes(tokens, chunk) for layer in self.layers))


@dataclass(frozen=True, slots=True)
class Machine:
    """Memory readings in bytes.

    Attributes:
        limit: Metal's recommended working set, or the physical memory elsewhere.
        available: what the system could hand out now without swapping.
    """

    limit: int
    available: int

    def budget(self, user_bytes: int | None = None) -> int:
        """Most bytes that model, caches and activations may take together; the user's value wins."""
        if user_bytes is not None:
            return user_bytes
        return int(max(min(self.limit * _SHARE, self.limit - _LEAST_RESERVE), 0))


@dataclass(slots=True)
class Activations:
    """Transient bytes of a unit per token or patch: the most that was measured, a guess from the widths before that."""

    per_item: float
    _measured: float = 0.0

    def learn(self, items: int, peak_bytes: int) -> None:
        """Take in one unit's peak above what was active before it."""
        if items:
            self._measured = max(self._measured, peak_bytes / items)

    def bytes(self, items: int) -> int:
        """Expected peak of a unit over ``items``."""
        return round(items * (self._measured or self.per_item))


@dataclass(frozen=True, slots=True)
class Demand:
    """What one request may come to need.

    Attributes:
        tokens: prompt and longest possible answer.
        patches: of its largest picture that is still to be encoded.
    """

    tokens: int
    patches: int = 0


@dataclass(slots=True)
class Pricing:
    """Prices requests for one model."""

    cache: CacheCost
    chunk: int
    prefill: Activations = field(default_factory=lambda: Activations(0.0))
    vision: Activations = field(default_factory=lambda: Activations(0.0))

    def lasting(self, demand: Demand) -> int:
        """Bytes the request holds when it ends: its caches at full length."""
        return self.cache.bytes(demand.tokens, self.chunk)

    def passing(self, demand: Demand) -> int:
        """Bytes its largest single unit needs on top, for a moment."""
        return max(self.prefill.bytes(min(demand.tokens, self.chunk)), self.vision.bytes(demand.patches))


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a request may start.

    Attributes:
        shortfall: bytes missing; 0 means it fits.
        reason: a sentence to show while it waits, or when it can never fit.
        spare: bytes that stay free when it has started and everybody has grown to full length.
    """

    shortfall: int
    reason: str = ""
    spare: int = 0


def judge(
    pricing: Pricing, demand: Demand, running: Sequence[Demand], *, active: int, held: int, budget: int, available: int
) -> Verdict:
    """Decide whether a request fits beside those that run.

    Args:
        pricing: of the model.
        demand: of the newcomer.
        running: demands of admitted requests, which may still grow to their full length.
        active: device bytes in use now, caches of running requests included.
        held: the part of ``active`` that running requests hold already.
        budget: from ``Machine.budget``.
        available: what the system can hand out now.
    """
    growth = max(sum(map(pricing.lasting, running)) - held, 0)
    # Units run one after another, so only the largest one's activations count.
    passing = max(map(pricing.passing, (demand, *running)))
    need = pricing.lasting(demand) + passing
    short = max(active + growth + need - budget, growth + need + int(_FREE_RESERVE) - available)
    if short <= 0:
        return Verdict(0, spare=-short)
    free = max(need - short, 0)
    return Verdict(short, f"Waiting for memory: it needs {_gb(need)}, {_gb(free)} is free.")


def _gb(size: float) -> str:
    return f"{size / GB:.3g} GB" if size >= GB else f"{size / 1e6:.3g} MB"


def never_fits(pricing: Pricing, demand: Demand, budget: int) -> str:
    """The sentence for a request that does not fit even alone."""
    need = pricing.lasting(demand) + pricing.passing(demand)
    return (
        f"This conversation needs {_gb(need)} of memory beside the model, but only {_gb(max(budget, 0))} are left. "
        "Shorten it, use smaller pictures, close other programs, or allow Braid more memory in the settings."
    )
