"""Tables of medians on the terminal, and the same figures as JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import mlx.core as mx

RESULTS = Path(__file__).parents[2] / ".bench"
Row = dict[str, Any]


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, minimum and maximum."""
    return {"median": median(values), "min": min(values), "max": max(values)}


def show(title: str, rows: Sequence[Row]) -> None:
    """Print rows with the keys of the first as columns."""
    print(f"\n{title}")
    if not rows:
        return
    cells = [[_cell(row.get(name)) for name in rows[0]] for row in rows]
    widths = [max(len(name), *(len(line[i]) for line in cells)) for i, name in enumerate(rows[0])]
    for line in [list(rows[0]), ["-" * width for width in widths], *cells]:
        print("  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)))


def keep(name: str, rows: Sequence[Row], **about: Any) -> None:
    """Write the figures to ``.bench/NAME.json`` with what they were measured on."""
    RESULTS.mkdir(exist_ok=True)
    machine = {
        "system": platform.platform(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "mlx": mx.__version__,
        "device": mx.device_info(),
    }
    body = {"machine": machine, **about, "rows": list(rows)}
    (RESULTS / f"{name}.json").write_text(json.dumps(body, indent=1))


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return f"{value['median']:.3g} ({value['min']:.3g} to {value['max']:.3g})"
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
