"""Loading and unloading: at once wrong, cancellable between units, and the memory comes back."""

from __future__ import annotations

import asyncio
import gc
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import engine
from engine import device
from engine.errors import ModelLoadError
from engine.models.loader import Loading
from tests.engine.conftest import POCKET, ROOT, Run

_SMALL = 100_000
"""Bytes that a library may keep once; a model is far larger."""


def test_a_wrong_folder_is_refused_before_the_models_library_is_imported(tmp_path: Path) -> None:
    code = f"""
import asyncio, sys, engine
try:
    asyncio.run(engine.load_model({str(tmp_path)!r}))
except engine.ModelLoadError as error:
    print(error, "mlx_vlm" in sys.modules)
"""
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ended.stdout.strip().endswith("it holds no config.json. False")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda folder: (folder / "model.safetensors").unlink(), "model.safetensors is missing"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"\x08"), "model.safetensors is missing"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "tokenizer.json is missing"),
        (lambda folder: (folder / "config.json").write_text("{"), "cannot be read"),
        (lambda folder: (folder / "config.json").write_text('{"model_type": "odd"}'), "family “odd”"),
    ],
)
def test_what_is_wrong_with_a_folder_is_told(tmp_path: Path, damage: object, said: str) -> None:
    folder = shutil.copytree(POCKET, tmp_path / "copy")
    damage(folder)  # type: ignore[operator]
    with pytest.raises(ModelLoadError, match=said):
        Loading(folder)


def test_an_unloaded_model_leaves_nothing_behind(run: Run[None]) -> None:
    async def cycle() -> None:
        home = device.home()
        gc.collect()
        before = home.memory()["active"]
        for _ in range(2):
            model, processor = await engine.load_model(POCKET)
            scheduler = engine.MLLMScheduler(model, processor)
            await scheduler.start()
            await scheduler.generate(messages=[{"role": "user", "content": "Hello"}], max_tokens=4)
            assert home.memory()["active"] > before + 1_000_000
            await scheduler.stop()
            await engine.unload_model(model)  # while we still hold it, as an answer that is ending may
            memory = home.memory()
            assert memory["active"] - before < _SMALL
            assert memory["cache"] < _SMALL

    run(cycle())


def test_a_cancelled_load_gives_its_memory_back(run: Run[None]) -> None:
    async def cancel() -> None:
        home = device.home()
        gc.collect()
        before = home.memory()["active"]
        seen: list[str] = []

        def tell(_: float, stage: str) -> None:
            seen.append(stage)
            if stage == "Loading weights":
                task.cancel()

        task = asyncio.ensure_future(engine.load_model(POCKET, on_progress=tell))
        with pytest.raises(asyncio.CancelledError):
            await task
        assert seen[-1] == "Loading weights"
        assert home.memory()["active"] - before < _SMALL
        assert home.memory()["cache"] < _SMALL

    run(cancel())


def test_progress_rises_to_the_end(run: Run[None]) -> None:
    told: list[float] = []

    async def load() -> None:
        model, _ = await engine.load_model(POCKET, on_progress=lambda fraction, _: told.append(fraction))
        await engine.unload_model(model)

    run(load())
    assert told == sorted(told)
    assert (told[0], told[-1]) == (0.0, 1.0)
