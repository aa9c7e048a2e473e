"""``import engine`` is light, and the smallest script runs and ends cleanly, however it ends; so does the README's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image, ImageDraw

ROOT = Path(__file__).parents[2]
README = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)[0]
EXAMPLE = """\
import asyncio, engine

async def main():
    model, processor = await engine.load_model("resources/pocket")        # a folder or a hub id; on_progress= callback
    scheduler = engine.MLLMScheduler(model, processor, engine.MLLMSchedulerConfig(max_num_seqs=8))
    await scheduler.start()
    prompt = engine.format_chat(processor, [
        {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What colour is the circle?"}]}])
    request_id = await scheduler.add_request_async(prompt, images=["circle.png"], max_tokens=32, temperature=0.0)
    async for output in scheduler.stream_outputs(request_id):
        print(output.new_text, end="", flush=True)
    await scheduler.stop()
    await engine.close()

asyncio.run(main())
"""
CLOSE = "    await engine.close()\n"


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A folder that holds what the example names."""
    (tmp_path / "resources").symlink_to(ROOT / "resources")
    picture = Image.new("RGB", (224, 224), (252, 252, 252))
    ImageDraw.Draw(picture).ellipse([62, 62, 162, 162], fill=(220, 30, 30))
    picture.save(tmp_path / "circle.png")
    return tmp_path


def python(script: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "error::ResourceWarning", "-c", script]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=100, check=False
    )


def assert_clean(done: subprocess.CompletedProcess[str], answer: str = "The circle is red.") -> None:
    assert (done.returncode, done.stdout) == (0, answer), done.stderr
    assert "Error" not in done.stderr
    assert "terminate" not in done.stderr


def failing(script: str) -> str:
    """The example with a fault after its first piece of answer, while a unit is out."""
    return script.replace("flush=True)", 'flush=True)\n        raise LookupError("mine")')


def test_importing_the_engine_loads_neither_mlx_nor_qt():
    script = (
        "import engine, sys; print([n for n in sys.modules if n.split('.')[0] in {'mlx','mlx_vlm','PySide6','qasync'}])"
    )
    assert python(script).stdout.strip() == "[]"


def test_the_example_closes_the_engine():
    assert EXAMPLE.count(CLOSE) == 1
    assert failing(EXAMPLE) != EXAMPLE


def test_the_readme_s_example_runs_as_printed(desk):
    assert_clean(python(README, desk), "There are 4 shapes.")


@pytest.mark.parametrize("times", [3, pytest.param(20, marks=[pytest.mark.slow, pytest.mark.timeout(900)])])
def test_the_example_runs_as_printed(times, desk):
    for _ in range(times):
        assert_clean(python(EXAMPLE, desk))


@pytest.mark.parametrize("times", [1, pytest.param(5, marks=[pytest.mark.slow, pytest.mark.timeout(300)])])
def test_a_forgotten_close_is_made_at_exit(times, desk):
    for _ in range(times):
        assert_clean(python(EXAMPLE.replace(CLOSE, ""), desk))


@pytest.mark.parametrize("times", [1, pytest.param(3, marks=[pytest.mark.slow, pytest.mark.timeout(300)])])
def test_an_exception_is_told_as_such_and_nothing_else_happens(times, desk):
    for _ in range(times):
        done = python(failing(EXAMPLE), desk)
        assert done.returncode == 1
        assert done.stderr.strip().endswith("LookupError: mine")
        assert done.stderr.count("Traceback") == 1
        assert "terminate" not in done.stderr
