"""Files that come from outside: before anybody can take them, together, and one after the other."""

import json
import os
import subprocess
import sys
from pathlib import Path

from PySide6.QtCore import QUrl
from PySide6.QtGui import QFileOpenEvent

from app.inbox import Inbox

ROOT = Path(__file__).parents[2]
PROGRAM = """
import asyncio, json, sys
from pathlib import Path
import qasync
from PySide6.QtCore import QCoreApplication, QEvent, QUrl
from PySide6.QtGui import QFileOpenEvent
from app import __main__ as program

profile = Path(sys.argv[1])
profile.mkdir()
app = program.Application(["braid"])

def open_file(name):
    QCoreApplication.sendEvent(app, QFileOpenEvent(QUrl.fromLocalFile(str(Path(name).resolve()))))

open_file("resources/samples/sign.png")
open_file("resources/samples/chart.png")
with qasync.QEventLoop(app) as loop:
    asyncio.set_event_loop(loop)
    made = program.Program(app, program.Options(profile, profile / "none", ()), program.Places.of(profile))
    draft = made.library.current.composer
    told = []

    def look():
        names = [chip.name for chip in draft.chips]
        if len(names) == 2 and not told:
            told.extend(names)
            open_file("resources/samples/shapes.png")
        if len(names) == 3:
            told.append(names[2])
            QCoreApplication.postEvent(app, QEvent(QEvent.Type.Quit))
            draft.changed.disconnect(look)

    draft.changed.connect(look)
    loop.run_until_complete(made.run())
print(json.dumps(told))
"""


def opened(path):
    return QFileOpenEvent(QUrl.fromLocalFile(str(path)))


def test_files_that_come_together_are_handed_on_together_in_order(qtbot):
    inbox, taken = Inbox(), []
    inbox.open_with(taken.append)
    for name in ("/b.png", "/a ü.png", "/c.mov"):
        assert inbox.put(opened(name))
    assert taken == []
    qtbot.waitUntil(lambda: bool(taken))
    assert taken == [[Path("/b.png"), Path("/a ü.png"), Path("/c.mov")]]


def test_files_that_come_before_anybody_can_take_them_wait(qtbot, qapp):
    inbox, taken = Inbox(), []
    inbox.put(opened("/early.png"))
    qapp.processEvents()
    inbox.put(opened("/second.png"))
    qapp.processEvents()
    inbox.open_with(taken.append)
    assert taken == [[Path("/early.png"), Path("/second.png")]]
    inbox.put(opened("/late.png"))
    qtbot.waitUntil(lambda: len(taken) == 2)
    assert taken[1] == [Path("/late.png")]


def test_an_address_that_is_no_file_is_left_to_others(qapp):
    assert not Inbox().put(QFileOpenEvent(QUrl("mailto:someone")))


def test_files_opened_before_and_after_the_window_are_attached_and_the_system_s_wish_to_quit_is_met(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "profile")],
        cwd=ROOT,
        env=os.environ | {"QT_QPA_PLATFORM": "offscreen"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == ["sign.png", "chart.png", "shapes.png"]
