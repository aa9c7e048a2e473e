"""The process dies in the middle of everything; the next one has all that was committed."""

import signal
import subprocess
import sys
from pathlib import Path

from app.settings import Generation
from app.state.library import Library
from tests.fakes import Script

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

async def settled(library):
    journal = library._journal
    await asyncio.sleep(0.1)
    while journal._latest or journal._ordered or journal._lock.locked():
        await asyncio.sleep(0.01)

async def started():
    scheduler = FakeScheduler()
    model = Model(Path("pocket"), MLLMSchedulerConfig(), FakeLoader(scheduler))
    await model.load()
    library = Library(Path(sys.argv[1]), model, Generation)
    await library.restore()
    return scheduler, library

async def three_tabs():
    scheduler, library = await started()
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
    await settled(library)
    for request in scheduler.live:
        request.say(" and something newer")
    await asyncio.sleep(0)
    os.abort()

async def said(chat, scheduler, does, *pieces):
    before = len(scheduler.sent)
    does()
    while len(scheduler.sent) == before:
        await asyncio.sleep(0.01)
    for piece in pieces:
        scheduler.live[0].say(piece)
    return scheduler.live[0]

async def ended(chat, request, reason="stop"):
    request.end(reason)
    while chat.answering:
        await asyncio.sleep(0.01)

async def branches():
    scheduler, library = await started()
    chat = library.current
    chat.composer.set_text("one")
    await ended(chat, await said(chat, scheduler, chat.composer.send, "first"), "length")
    await ended(chat, await said(chat, scheduler, lambda: chat.resume(chat.turns[1].id), " and more"))
    await ended(chat, await said(chat, scheduler, lambda: chat.retry(chat.turns[1].id), "second"))
    request = await said(chat, scheduler, lambda: chat.edit(chat.turns[0].id, "changed"), "half ", "an answer")
    await settled(library)
    request.say(" and something newer")
    await asyncio.sleep(0)
    os.kill(os.getpid(), 9)

app = QCoreApplication([])
loop = qasync.QEventLoop(app)
asyncio.set_event_loop(loop)
loop.run_until_complete(globals()[sys.argv[2]]())
"""


def die(profile, scene, how):
    died = subprocess.run(
        [sys.executable, "-c", DYING, str(profile), scene],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        check=False,
    )
    assert died.returncode == -how, died.stderr


def test_chats_half_answers_tabs_and_drafts_survive_an_abort(run, model, profile):
    die(profile, "three_tabs", signal.SIGABRT)

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


def test_every_branch_survives_a_kill_and_the_cut_answer_can_be_gone_on_with(run, until, model, scheduler, profile):
    die(profile, "branches", signal.SIGKILL)

    async def start_again():
        library = Library(profile, model, Generation)
        await library.restore()
        chat = library.current
        seen = [[(turn.text, turn.state) for turn in chat.turns]]
        assert chat.offers(chat.turns[1].id).resume
        scheduler.scripts.append(Script([" to the end"]))
        chat.resume(chat.turns[1].id)
        await until(lambda: not chat.answering)
        seen.append([(turn.text, turn.state) for turn in chat.turns])
        chat.show_variant(chat.turns[0].id, -1)
        seen.append([turn.text for turn in chat.turns])
        chat.show_variant(chat.turns[1].id, -1)
        seen.append([turn.text for turn in chat.turns])
        await library.end_answers()
        await library.close()
        return seen

    assert run(start_again()) == [
        [("changed", "done"), ("half an answer", "cut")],
        [("changed", "done"), ("half an answer to the end", "done")],
        ["one", "second"],
        ["one", "first and more"],
    ]
