"""What tests of the cold tier share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine import MLLMScheduler, tensor_file
from engine.host_array import of_numpy


def identify(model: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a model that was built in memory a folder whose files tell it from others."""
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    with (folder / "model.safetensors").open("wb") as file:
        tensor_file.write(file, {"weight": of_numpy(np.zeros(3, np.float32))}, {})
    monkeypatch.setattr(model, "model_path", str(folder), raising=False)


def write(scheduler: MLLMScheduler) -> None:
    """Let everything go to the disk that can."""
    assert scheduler.caches.ssd is not None
    scheduler.caches.wait()
    while scheduler.step().has_work or scheduler.caches.unsaved:
        scheduler.caches.flush()
