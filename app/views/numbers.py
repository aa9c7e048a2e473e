"""Numbers for people: at most three significant digits, with their unit."""

from __future__ import annotations


def figure(value: float) -> str:
    """At most three significant digits."""
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}" if value % 1 else f"{value:.0f}"


def gigabytes(count: int) -> str:
    """Bytes in GB of 1e9, or MB below one."""
    return f"{figure(count / 1e9)} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def milliseconds(value: float) -> str:
    """A duration in ms, in s from one second on."""
    return f"{figure(value / 1000)} s" if value >= 1000 else f"{value:.1f} ms" if value < 99.95 else f"{value:.0f} ms"
