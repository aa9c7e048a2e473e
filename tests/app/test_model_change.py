"""The real program: two chats stream while the model is changed, never two are in memory, and it rests when idle."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DRIVER = """
import json, sys
from pathlib import Path
from engine import device
from tests.app.driving import run, until

twin = Path(sys.argv[1])

def ask(chat, text):
    chat.composer.set_text(text)
    chat.composer.send()

def told(chat):
    return [(turn.text, turn.state, turn.error) for turn in chat.turns if turn.role == "assistant"]

async def drive(braid):
    library, model, models = braid.library, braid.model, braid.models
    await until(lambda: model.status == "ready")
    taken, most = sorted(model.takes), [0]
    one = device.home().memory()["active"]
    model.changed.connect(lambda: most.append(device.home().memory()["active"]))

    first, second = library.current, library.new_chat()
    for chat in (first, second):
        ask(chat, "Count to 30.")
    await until(lambda: all(chat.turns[-1].role == "assistant" and chat.turns[-1].text for chat in (first, second)))
    models.choose(twin)
    ask(second, "What is 2 plus 2?")
    await until(lambda: not first.answering and not second.answering)
    after = (model.name, model.status, told(first), told(second))

    models.refresh()
    await until(lambda: models.entries and not models.scanning)
    listed = [(entry.name, entry.fit.verdict) for entry in models.entries]

    braid.preferences.choose("unload_after_minutes", 1)
    limit = model._idle._limit_s
    model.unload_after(0.2 / 60)
    await until(lambda: model.status == "unloaded" and model._work is None)
    rest = device.home().memory()
    model.unload_after(None)
    ask(first, "What is 2 plus 3?")
    await until(lambda: not first.answering)
    again = told(first)[-1]

    models.choose(twin.parent / "nowhere")
    await until(lambda: model.status == "failed")
    failed, offered = model.error, model.can_fall_back
    model.fall_back()
    await until(lambda: model.status == "ready")
    return {
        "taken": taken, "one": one, "most": max(most), "after": after, "listed": listed, "limit": limit, "again": again,
        "rest": [rest["active"], rest["cache"]], "failed": failed, "offered": offered, "last": model.name,
        "start with": braid.settings.model,
    }

print(json.dumps(run(drive, model_folders=[str(twin)])))
"""


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    """What one session of the program has seen."""
    folder = tmp_path_factory.mktemp("models")
    twin = shutil.copytree(ROOT / "resources" / "pocket", folder / "Twin")
    ended = subprocess.run(
        [sys.executable, "-c", DRIVER, str(twin)],
        cwd=ROOT,
        env=os.environ | {"QT_QPA_PLATFORM": "offscreen", "HF_HOME": str(folder / "none")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    return json.loads(ended.stdout)


def test_answers_end_marked_and_the_next_question_is_answered_by_the_new_model(result):
    name, status, first, second = result["after"]
    assert (name, status) == ("Twin", "ready")
    assert [(state, error) for _, state, error in first] == [("cut", "The model was changed")]
    assert [(state, error) for _, state, error in second] == [("cut", "The model was changed"), ("done", None)]
    assert all(text for text, _, _ in [*first, *second])


def test_never_are_two_models_in_memory(result):
    assert result["one"] > 10_000_000
    assert result["most"] < 1.5 * result["one"]


def test_what_it_takes_is_known_and_the_list_shows_both(result):
    assert result["taken"] == ["image", "video"]
    assert result["listed"] == [["Pocket", "fits"], ["Twin", "fits"]]


def test_idling_gives_the_memory_back_and_the_next_question_loads_it_again(result):
    assert result["limit"] == 60  # seconds, from the settings
    assert max(result["rest"]) < 100_000
    text, state, _ = result["again"]
    assert (bool(text), state) == (True, "done")


def test_a_folder_that_is_gone_fails_at_once_and_pocket_takes_over(result):
    assert "There is no model folder at" in result["failed"]
    assert (result["offered"], result["last"]) == (True, "Pocket")
