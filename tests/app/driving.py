"""Drives the real program from inside: a fresh profile, the embedded model, and a coroutine that uses the window."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import qasync

from app import __main__ as program
from app import faults

ROOT = Path(__file__).parents[2]


def outside(module: str, *arguments: str) -> dict[str, Any]:
    """What a driver module prints as JSON, run in a process of its own."""
    ended = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env=os.environ | {"QT_QPA_PLATFORM": "offscreen"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


async def until(condition: Callable[[], object]) -> None:
    """Wait, checking now and then."""
    while not condition():  # noqa: ASYNC110 - any state may be waited for, and most of it has no event
        await asyncio.sleep(0.02)


def run(
    drive: Callable[[program.Program], Awaitable[dict[str, Any]]],
    prepare: Callable[[program.Application], None] = lambda application: None,
    fill: Callable[[Path], None] = lambda profile: None,
    look: Callable[[Path], dict[str, Any]] = lambda profile: {},
    **settings: Any,
) -> dict[str, Any]:
    """Start the program, let ``drive`` use it, and end it; returns what ``drive`` and ``look`` returned.

    Args:
        drive: gets the program once its window exists.
        prepare: gets the application before that.
        fill: gets the folder of the profile before everything.
        look: gets it after the end.
        settings: pages of the settings file; answers are greedy unless they say otherwise.
    """
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "settings.json").write_text(json.dumps({"generation": {"temperature": 0.0}, **settings}))
        fill(Path(folder))
        options = program.parse(["--profile", folder])
        places = program.Places.of(options.profile)
        log_file = faults.log_to(places.logs)
        application = program.Application(["braid"])
        prepare(application)
        result: dict[str, Any] = {}
        with qasync.QEventLoop(application) as loop:
            asyncio.set_event_loop(loop)
            braid = program.Program(application, options, places)
            faults.catch(loop, print, log_file)

            async def drive_and_quit() -> None:
                try:
                    result.update(await drive(braid))
                finally:
                    braid.quit()

            async def both() -> None:
                driving = asyncio.ensure_future(drive_and_quit())
                await braid.run()
                await driving

            loop.run_until_complete(both())
        return result | look(Path(folder))
