"""Numbers for people: at most three significant digits, with their unit."""

from __future__ import annotations


def figure(value: float) -> str:
    """At most three significant digits."""
    if value >= 999.5:
        return f"{_three(value / 1e6)}M" if value >= 999_500 else f"{_three(value / 1e3)}k"
    return _three(value)


def count(number: int) -> str:
    """A number of things."""
    return str(number) if number < 1000 else figure(number)


def gigabytes(size: int) -> str:
    """Bytes in GB of 1e9, or MB below one."""
    return f"{figure(size / 1e9)} GB" if size >= 999_500_000 else f"{size / 1e6:.0f} MB"


def of_gigabytes(part: int, whole: int) -> str:
    """A part of a whole, in the unit of the whole where that says something: 1.2 of 4.0 GB, 12 MB of 4 GB."""
    if whole >= 999_500_000:
        if 0 < part < 50_000_000:
            return f"{max(part / 1e6, 1):.0f} MB of {whole / 1e9:.0f} GB"
        return f"{_short(part / 1e9)} of {_short(whole / 1e9)} GB"
    shown = f"{part / 1e6:.1f}" if 0 < part < 500_000 else f"{part / 1e6:.0f}"
    return f"{shown} of {whole / 1e6:.0f} MB"


def milliseconds(value: float) -> str:
    """A duration in ms, in s from one second on."""
    if value >= 999.5:
        return f"{figure(value / 1000)} s"
    return f"{value:.1f} ms" if value < 99.95 else f"{value:.0f} ms"


def percent(share: float) -> str:
    """A share of one; never 100 % or 0 % where something is missing or there."""
    shown = round(100 * share)
    if shown == 100 and share < 1:
        return "99 %"
    return "1 %" if shown == 0 and share > 0 else f"{shown} %"


def _short(value: float) -> str:
    """Two digits are enough beside a gauge."""
    return f"{value:.0f}" if value >= 9.95 or value == 0 else f"{value:.1f}"


def _three(value: float) -> str:
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}" if value % 1 else f"{value:.0f}"
