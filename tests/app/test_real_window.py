"""The real program in a real window under X: pasted, typed and dropped into like a person does, read off the screen."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

ROOT = Path(__file__).parents[2]
_NEEDED = ("Xvfb", "openbox", "xdotool", "xclip", "import")
missing = [name for name in _NEEDED if shutil.which(name) is None]
pytestmark = [
    pytest.mark.skipif(bool(missing), reason=f"a real window needs {', '.join(missing)}"),
    pytest.mark.timeout(600),
]
_COUNTED = ", ".join(map(str, range(1, 31)))


@contextmanager
def screen() -> Iterator[str]:
    """An X display with a window manager."""
    with subprocess.Popen(
        ["Xvfb", "-displayfd", "1", "-screen", "0", "1280x860x24", "-nolisten", "tcp"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdout is not None
        display = f":{server.stdout.readline().strip()}"
        manager = subprocess.Popen(
            ["openbox"], env=os.environ | {"DISPLAY": display}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            yield display
        finally:
            for process in (manager, server):
                process.terminate()
                process.wait()


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """One session in front of the screen: what was read there, and the pictures that were taken."""
    folder = tmp_path_factory.mktemp("real-window")
    with screen() as display:
        ended = subprocess.run(
            [sys.executable, "-m", "tests.app.real_window", str(folder)],
            cwd=ROOT,
            env=os.environ | {"DISPLAY": display, "QT_QPA_PLATFORM": "xcb", "QT_ACCESSIBILITY": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1]), folder


def test_a_pasted_picture_is_answered_on_the_screen(session) -> None:
    found, folder = session
    assert found["pasted"] == ["red circle\nblue square", "There are 2 shapes."]
    with Image.open(folder / "answered.png") as shot:
        colours = {colour for _, colour in shot.convert("RGB").getcolors(1 << 24)}
    assert {(220, 30, 30), (30, 60, 220)} <= colours  # circle and square are on the screen
    print(f"pictures of the screen: {folder}")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("note.png", "note.png"),
        ("empty.png", "empty.png is empty"),
        ("huge.png", "huge.png"),
        ("torn.jpg", "torn.jpg is damaged: only about"),
        ("garbage.jpg", "garbage.jpg"),
        ("Empty folder", "There is nothing in Empty folder"),
    ],
)
def test_what_is_not_what_it_seems_gives_one_sentence_there(session, name: str, words: str) -> None:
    [sentence] = session[0]["broken"][name]
    assert words in sentence


def test_broken_files_disturb_neither_the_draft_nor_another_tab(session) -> None:
    assert session[0]["draft"] == "My draft"
    assert session[0]["undisturbed"] == ["Count to 30.", _COUNTED]


def test_a_picture_a_clip_and_words_are_answered_in_one_batch(session) -> None:
    found, _ = session
    expected = [
        "A red circle at the center on a white background.",
        "A red circle moves from left to right on a white background.",
        _COUNTED,
    ]
    assert found["answers"] == expected
    assert found["again"] == expected
    assert found["rows"] == 3


def test_what_was_told_before_sending_is_what_was_read(session) -> None:
    found, _ = session
    first, second, counted, *three = found["told"]
    assert [first, second] == found["read"]
    assert three == found["read_in_three"]
    assert counted == three[2]  # the same words in another tab
