"""The process dies in the middle of everything; the next one has all that was committed."""

import signal
import subprocess
import sys
from pathlib import Path

from app.settings import Generation
from app.state.library import Library

DYING = """
import asyncio, os, sys
from pathlib import Path
import qasync
from PySide6.QtCore import QCoreApplication
from app.settings import Generation
from app.state.library import Library
from app.state.model import Model
from engine.config import MLLMSchedulerConfig
from tests.fakes import FakeLoader, FakeScheduler

async def live():
    scheduler = FakeScheduler()
    model = Model(Path("pocket"), MLLMSchedulerConfig(), FakeLoader(scheduler))
    await model.load()
    library = Library(Path(sys.argv[1]), model, Generation)
    await library.restore()
    for index in range(3):
        chat = library.current if index == 0 else library.new_chat()
        chat.composer.set_text(f"question {index}")
        chat.composer.send()
    while len(scheduler.live) < 3:
        await asyncio.sleep(0.01)
    library.tabs[1].composer.set_text("an unsent draft")
    library.select(library.tabs[1].id)
    for index, request in enumerate(scheduler.live):
        request.say(f"half an answer {index}")
    await asyncio.sleep(0.1)
    journal = library._journal
    while journal._latest or journal._ordered or journal._lock.locked():
        await asyncio.sleep(0.01)
    for request in scheduler.live:
        request.say(" and something newer")
    await asyncio.sleep(0)
    os.abort()

app = QCoreApplication([])
loop = qasync.QEventLoop(app)
asyncio.set_event_loop(loop)
loop.run_until_complete(live())
"""


def test_chats_half_answers_tabs_and_drafts_survive_an_abort(run, model, profile):
    died = subprocess.run(
        [sys.executable, "-c", DYING, str(profile)], cwd=Path(__file__).parents[3], capture_output=True, check=False
    )
    assert died.returncode == -signal.SIGABRT, died.stderr

    async def start_again():
        library = Library(profile, model, Generation)
        await library.restore()
        turns = [[(turn.text, turn.state) for turn in tab.turns] for tab in library.tabs]
        draft, current = library.tabs[1].composer.text, library.tabs.index(library.current)
        await library.end_answers()
        await library.close()
        return turns, draft, current

    turns, draft, current = run(start_again())
    assert turns == [[(f"question {i}", "done"), (f"half an answer {i}", "cut")] for i in range(3)]
    assert (draft, current) == ("an unsent draft", 1)
