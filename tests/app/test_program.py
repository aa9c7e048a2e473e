"""The whole program with its window and the embedded model: pictures in, right answers out, and a clean end."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DRIVER = """
import asyncio, json, sys
from pathlib import Path
import qasync
from app import __main__ as program, faults

circle, square, profile = map(Path, sys.argv[1:])
options = program.parse([str(circle), "--profile", str(profile)])
places = program.Places.of(options.profile)
log_file = faults.log_to(places.logs)
app = program.Application(["braid"])

def ask(chat, text):
    chat.composer.set_text(text)
    chat.composer.send()

async def until(condition):
    while not condition():
        await asyncio.sleep(0.01)

async def drive(window):
    library = window.library
    first = library.current
    await until(lambda: first.composer.can_send)
    ask(first, "What color is the circle?")
    ask(first, "How many shapes are there?")
    second = library.new_chat()
    second.composer.add_files([square])
    await until(lambda: second.composer.can_send)
    ask(second, "Which shape is blue?")
    await until(lambda: not first.answering and not second.answering)
    answers = [[turn.text for turn in chat.turns if turn.role == "assistant"] for chat in (first, second)]
    facts = [turn.facts.prompt_tokens for turn in second.turns if turn.facts]
    library.new_chat()
    ask(library.current, "Tell me a long story.")
    await until(lambda: library.current.turns[-1].text and library.current.turns[-1].role == "assistant")
    print(json.dumps({"answers": answers, "prompt_tokens": facts, "told": told}))
    app.closeAllWindows()

told = []
with qasync.QEventLoop(app) as loop:
    asyncio.set_event_loop(loop)
    window = program.Program(app, options, places)
    window.library.current.composer.notice.connect(told.append)
    faults.catch(loop, told.append, log_file)

    async def run():
        driving = asyncio.ensure_future(drive(window))
        driving.add_done_callback(lambda task: task.exception() and window.quit())
        await window.run()
        await driving

    loop.run_until_complete(run())
"""


@pytest.fixture(scope="module")
def evening(tmp_path_factory):
    """One session of the real program: what it answered, how it ended, what it left behind."""
    folder = tmp_path_factory.mktemp("evening")
    sys.path.insert(0, str(ROOT / "packaging" / "pocket"))
    try:
        import canon
    finally:
        sys.path.pop(0)
    pictures = []
    for name, size, background, shapes, _ in canon.SPECS[:2]:
        canon.draw(size, background, shapes).save(folder / f"{name}.png")
        pictures.append(folder / f"{name}.png")
    profile = folder / "profile"
    profile.mkdir()
    (profile / "settings.json").write_text(json.dumps({"generation": {"temperature": 0.0}}))
    ended = subprocess.run(
        [sys.executable, "-c", DRIVER, *map(str, pictures), str(profile)],
        cwd=ROOT,
        env=os.environ | {"QT_QPA_PLATFORM": "offscreen"},
        capture_output=True,
        text=True,
        check=False,
    )
    return ended, profile


def test_it_ends_cleanly_while_an_answer_streams(evening):
    ended, profile = evening
    log = (profile / "logs" / "braid.log").read_text()
    assert (ended.returncode, ended.stderr) == (0, ""), log
    assert "ERROR" not in log
    assert "CRITICAL" not in log


def test_two_chats_with_pictures_get_the_right_answers(evening):
    result = json.loads(evening[0].stdout)
    assert result["answers"] == [
        ["The circle is red.", "There is 1 shape."],
        ["The blue shape is a square."],
    ]
    assert result["told"] == []
    assert all(count > 49 for count in result["prompt_tokens"])  # 7 x 7 of them are the picture


def test_the_unfinished_answer_is_kept_as_cut(evening):
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(evening[1] / "library.sqlite")) as connection:
        turns = connection.execute("SELECT state, length(text) > 0 FROM turns WHERE role = 'assistant' ORDER BY seq")
        assert turns.fetchall() == [("done", 1)] * 3 + [("cut", 1)]
