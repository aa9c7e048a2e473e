"""The program as a process: how it starts, what it loads first, how it ends."""

import importlib.util
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from app.__main__ import POCKET, Options, Places, parse

SAMPLES = Path(__file__).parents[2] / "resources" / "samples"
LATER = [
    "numpy",
    "PIL",
    "av",
    "mlx",
    "mlx_vlm",
    "transformers",
    "pypdfium2",
    "huggingface_hub",
    "pygments",
    "markdown_it",
    "ziamath",
    "psutil",
    "engine.device",
    "engine.scheduler",
    "engine.memory",
    "engine.media.image",
    "engine.models.download",
    "engine.models.loader",
    "PySide6.QtNetwork",
    "app.selftest",
    "app.state.archive",
    "app.state.download",
    "app.state.export",
    "app.views.about",
    "app.views.answer",
    "app.views.chat_settings",
    "app.views.closer",
    "app.views.markdown",
    "app.views.model_picker",
    "app.views.question",
    "app.views.settings",
    "app.views.viewer",
]
"""What the first picture of the window does not need."""
PAINT = """
import asyncio, os, sys
from pathlib import Path
import qasync
from app import __main__ as program

profile, *later = sys.argv[1:]
application = program.Application(["braid"])
loop = qasync.QEventLoop(application)
asyncio.set_event_loop(loop)
braid = program.Program(application, program.Options(None, None, ()), program.Places.of(Path(profile)))
loop.run_until_complete(braid._show())
print(sorted(set(later) & set(sys.modules)), flush=True)
os._exit(0)  # the first picture is all that was wanted
"""


def start(profile, *arguments, **variables):
    command = [sys.executable, "-m", "app", "--profile", str(profile), *map(str, arguments)]
    environment = {"QT_QPA_PLATFORM": "offscreen", "BRAID_TIMING": "1", "PYTHONUNBUFFERED": "1"} | variables
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | environment)


def read_until(process, word):
    """Lines of the process up to the one with `word`."""
    lines = []
    for line in process.stderr:
        lines.append(line)
        if word in line:
            return lines
    raise AssertionError(f"ended with {process.wait()} before {word!r}: {''.join(lines)}")


@pytest.fixture
def processes():
    running = []
    yield running
    for process in running:
        process.kill()
        process.communicate()


def test_the_command_line(tmp_path):
    options = parse(["--profile", str(tmp_path), "--model", str(tmp_path / "m"), "a.png", "b.png"])
    assert options == Options(tmp_path, tmp_path / "m", (Path("a.png").absolute(), Path("b.png").absolute()))
    assert parse([]) == Options(None, None, ())


def test_the_embedded_model_is_found_from_anywhere():
    assert (POCKET / "config.json").is_file()


def test_a_profile_holds_everything_and_the_system_s_folders_are_apart():
    assert Places.of(Path("/p")) == Places(Path("/p"), Path("/p/settings.json"), Path("/p/logs"))
    assert "braid" in str(Places.of(None).settings).lower()


def test_the_version_is_told_without_a_window():
    shown = subprocess.run([sys.executable, "-m", "app", "--version"], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"Braid \d+\.\d+\.\d+\n", shown.stdout)


def test_what_the_first_picture_does_not_need_is_loaded_after_it(tmp_path):
    command = [sys.executable, "-c", PAINT, str(tmp_path), *LATER]
    environment = os.environ | {"QT_QPA_PLATFORM": "offscreen"}
    painted = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (painted.stdout, painted.stderr) == ("[]\n", "")


def test_what_is_loaded_later_bears_these_names():
    assert [name for name in LATER if importlib.util.find_spec(name) is None] == []


def ends_with(process, status, words):
    _, told = process.communicate(timeout=20)
    return (process.returncode, told) == (status, words)


def ends_cleanly(process, number):
    process.send_signal(number)
    return ends_with(process, 0, "")


def test_ctrl_c_ends_it_cleanly(processes, tmp_path):
    process = start(tmp_path, "--model", tmp_path / "none")
    processes.append(process)
    assert re.search(r"BRAID_TIMING painted=\d+\.\d{3} cpu=\d+\.\d{3}\n", read_until(process, "painted")[-1])
    assert ends_cleanly(process, signal.SIGINT)
    assert json.loads((tmp_path / "settings.json").read_text())["schema_version"] == 1
    with closing(sqlite3.connect(tmp_path / "library.sqlite")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def wait_until(condition):
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.005)


def attached(profile):
    """Names of the files in the drafts of a profile."""
    library = profile / "library.sqlite"
    if not library.exists():
        return []
    with closing(sqlite3.connect(library)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'drafts'").fetchone():
            return []
        drafts = connection.execute("SELECT attachments FROM drafts").fetchall()
    return [each["name"] for (text,) in drafts for each in json.loads(text)]


def test_later_starts_hand_their_files_to_the_first_one(processes, tmp_path):
    first = start(tmp_path, "--model", tmp_path / "none")
    processes.append(first)
    wait_until((tmp_path / "braid.lock").exists)
    at_once = start(tmp_path, SAMPLES / "sign.png")  # while the first one has no window yet
    processes.append(at_once)
    assert ends_with(at_once, 0, "")
    later = start(tmp_path, SAMPLES / "chart.png", "--model", tmp_path / "other")
    processes.append(later)
    assert ends_with(later, 0, "Braid is already running with these chats. Choose the model in its window.\n")
    read_until(first, "painted")
    assert ends_cleanly(first, signal.SIGTERM)
    assert sorted(attached(tmp_path)) == ["chart.png", "sign.png"]


def hanging(folder, package):
    """A package whose import takes a minute, and the file that says that it has begun."""
    begun = folder / "begun"
    (folder / package).mkdir(parents=True)
    (folder / package / "__init__.py").write_text(
        f"import pathlib, time\npathlib.Path({str(begun)!r}).touch()\ntime.sleep(60)\n"
    )
    return begun


def ends_soon(process, profile):
    """It ends long before the minute is over, with everything saved."""
    begun = time.monotonic()
    assert ends_cleanly(process, signal.SIGTERM)
    assert time.monotonic() - begun < 10  # half a second and what saving takes
    assert json.loads((profile / "settings.json").read_text())["geometry"]
    assert not (profile / "braid.lock").exists()
    assert "ERROR" not in (profile / "logs" / "braid.log").read_text()


def test_quitting_saves_everything_and_does_not_wait_for_an_import(processes, tmp_path):
    slow, profile = tmp_path / "slow", tmp_path / "profile"
    importing = hanging(slow, "mlx_vlm")
    process = start(profile, SAMPLES / "sign.png", PYTHONPATH=str(slow))
    processes.append(process)
    read_until(process, "painted")
    wait_until(importing.exists)
    wait_until(lambda: attached(profile))
    ends_soon(process, profile)
    assert attached(profile) == ["sign.png"]


def test_quitting_does_not_wait_for_a_file_that_is_still_being_read(processes, tmp_path):
    slow, profile = tmp_path / "slow", tmp_path / "profile"
    reading = hanging(slow, "pillow_heif")  # what opens pictures
    process = start(profile, SAMPLES / "sign.png", "--model", tmp_path / "none", PYTHONPATH=str(slow))
    processes.append(process)
    read_until(process, "painted")
    wait_until(reading.exists)
    ends_soon(process, profile)
    assert attached(profile) == []


def test_one_that_does_not_answer_is_told_and_a_dead_one_holds_nobody_up(processes, tmp_path):
    first = start(tmp_path, "--model", tmp_path / "none")
    processes.append(first)
    read_until(first, "painted")
    first.send_signal(signal.SIGSTOP)
    second = start(tmp_path)
    processes.append(second)
    assert "does not answer" in second.communicate(timeout=20)[1]
    assert second.returncode == 1
    first.kill()
    first.wait()
    third = start(tmp_path, "--model", tmp_path / "none")
    processes.append(third)
    read_until(third, "painted")
    assert ends_cleanly(third, signal.SIGTERM)


def test_a_profile_that_cannot_be_written_is_told_in_a_sentence(processes, tmp_path):
    (tmp_path / "file").write_text("in the way")
    process = start(tmp_path / "file")
    processes.append(process)
    _, told = process.communicate(timeout=20)
    assert told.startswith("Braid cannot write to")
    assert "Traceback" not in told
    assert process.returncode == 1


READ_ONLY = """
set -e
mount -t tmpfs -o size=16m tmpfs "$1"
cp -r "$2/." "$1"
mount -o remount,ro "$1"
exec "$3" -m app --profile "$1"
"""
"""Starts the app (with the Python that is $3) with a copy of a profile ($2) on a disk that cannot be written ($1)."""


def test_a_profile_on_a_read_only_disk_is_told_in_a_sentence(processes, tmp_path):
    alone = ["unshare", "--map-root-user", "--mount"]  # mounts are seen by this process and its children only
    if shutil.which("unshare") is None or subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        pytest.skip("the system lets nobody mount a disk of one's own")
    profile, disk = tmp_path / "profile", tmp_path / "disk"
    disk.mkdir()
    process = start(profile, "--model", tmp_path / "none")
    processes.append(process)
    read_until(process, "painted")
    assert ends_cleanly(process, signal.SIGTERM)
    command = [*alone, "sh", "-c", READ_ONLY, "sh", str(disk), str(profile), sys.executable]
    environment = os.environ | {"QT_QPA_PLATFORM": "offscreen"}
    told = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert told.stderr == f"Braid cannot write to {disk}. Check the folder, or choose one with --profile.\n"
    assert told.returncode == 1
