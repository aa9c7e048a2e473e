"""`braid --selftest`: proves in one run that this copy of Braid works on this machine."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from app.selftest import answers, libraries, media, profile, window
from app.selftest.report import Report

if TYPE_CHECKING:
    from app.__main__ import Program

Drive = Callable[["Program"], Awaitable[None]]
Start = Callable[[Path, Drive], None]
"""Runs the whole program with a folder as its profile while `Drive` uses it, then ends it."""


def main(start: Start, *, as_json: bool) -> int:
    """Run every check in a profile that is thrown away and return the exit status: 0 when all hold."""
    if sys.platform == "linux" and not {"DISPLAY", "WAYLAND_DISPLAY"} & set(os.environ):
        os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    report = Report(sys.stdout, as_json=as_json)
    with tempfile.TemporaryDirectory(prefix="braid-selftest-") as folder:
        place = Path(folder)
        chosen = {"generation": {"temperature": 0.0}, "engine": {"ssd_cache_dir": str(place / "cold")}}
        (place / "settings.json").write_text(json.dumps(chosen), encoding="utf-8")
        report.check("Program", partial(_start, start, place, report))
        report.check("Settings and library", partial(profile.check, place))
    return report.end()


def _start(start: Start, place: Path, report: Report) -> str:
    start(place, partial(_drive, report))
    return "started, answered and ended in order"


async def _drive(report: Report, program: Program) -> None:
    """All checks that need the running program, the cheap ones while the model still loads."""
    await report.run("Versions", libraries.versions)
    for name, work in media.CHECKS.items():
        await report.run(name, work)
    await report.run("Window", partial(window.check_shown, program.window))
    await report.run("Dropped picture", partial(window.check_answer, program.window))
    scheduler = await program.model.answering()
    await report.run("Sound refused", partial(answers.check_sound_refused, scheduler))
    await report.run("Lent stream", partial(answers.check_lent_stream, scheduler))
    await report.run("Cold cache", partial(answers.check_cold_cache, scheduler))
    if sys.platform == "darwin":
        await report.run("Metal", answers.check_metal)
    await report.run("Libraries", libraries.loaded)
