"""Braid beside its peers: every engine replays the same workload in a process of its own, in turn.

The peers are ``mlx-vlm``'s BatchGenerator, which comes with Braid's own dependency, and ``vllm-mlx`` 0.6.0, installed
into ``.bench/vllm-mlx`` on the first call without its server's dependencies.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SITE = ROOT / ".bench" / "vllm-mlx"
ENGINES = ("braid", "mlx-vlm", "vllm-mlx")
_INSTALL = ["--no-deps", "vllm-mlx==0.6.0", "mlx-lm>=0.31.3,<0.32"]


def available() -> list[str]:
    """Engines that can run here; installs what is missing if it can be had."""
    if importlib.util.find_spec("vllm_mlx") is None and not SITE.exists():
        command = [sys.executable, "-m", "pip", "install", "-q", "--target", str(SITE), *_INSTALL]
        if subprocess.run(command, check=False).returncode:
            print("vllm-mlx could not be installed and is left out.")
            return list(ENGINES[:2])
    return list(ENGINES)


def replay(engine: str, spec: dict[str, Any], timeout_s: float = 900) -> dict[str, Any]:
    """One engine's result, or ``{"engine": …, "failed": why}``."""
    folder = ROOT / ".bench"
    folder.mkdir(exist_ok=True)
    path = folder / f"spec-{engine}.json"
    path.write_text(json.dumps(spec))
    paths = [str(ROOT), *([str(SITE)] if engine == "vllm-mlx" else []), os.environ.get("PYTHONPATH", "")]
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "tests.benchmarks.drive", engine, str(path)],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"engine": engine, "failed": f"no end within {timeout_s:.0f} s"}
    if ended.returncode:
        return {"engine": engine, "failed": (ended.stderr.strip().splitlines() or ["no output"])[-1]}
    result: dict[str, Any] = json.loads(ended.stdout.strip().splitlines()[-1])
    return result
