"""How long from the start of the process to the painted window, and the processor's share of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from tests.benchmarks.table import Row

_ROOT = Path(__file__).parents[2]
_STARTS = 5


def measure() -> list[Row]:
    """One row per start with an empty profile; the disk and Python's compiled files are warm."""
    with tempfile.TemporaryDirectory() as folder:
        compiled = Path(folder, "compiled")  # one's own, wherever and whether the environment lets Python keep them
        _start(Path(folder, "first"), compiled)
        return [_start(Path(folder, str(number)), compiled) for number in range(_STARTS)]


def _start(profile: Path, compiled: Path) -> Row:
    environment = os.environ | {"BRAID_TIMING": "1", "PYTHONPYCACHEPREFIX": str(compiled)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-m", "app", "--profile", str(profile), "--model", str(profile / "none")]
    began = perf_counter()
    with subprocess.Popen(command, cwd=_ROOT, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        told = process.stderr.readline()
        painted_s = perf_counter() - began
        process.terminate()
        found = re.search(r"painted=\S+ cpu=(\S+)", told)
        if found is None:
            raise RuntimeError(f"Braid did not start: {told}{process.stderr.read()}")
    return {"painted_s": painted_s, "cpu_s": float(found[1])}
