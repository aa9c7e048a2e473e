"""Conversations on the real program: what was cut goes on as if it had not been, pictures stay with their questions."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def evening():
    """One evening with the real program."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.app.live_conversation"],
        cwd=ROOT,
        env=os.environ | {"QT_QPA_PLATFORM": "offscreen"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_an_answer_cut_by_the_length_limit_goes_on_to_the_very_same_end(evening):
    found = evening["cut"]
    assert found["line"].startswith("Reached the length limit · 8 tokens")
    assert found["whole"].startswith(found["half"].rstrip())
    assert len(found["half"]) < len(found["whole"])
    assert found["continued"] == found["whole"]
    assert found["tokens"] > 8
    assert found["variants"] == 2


def test_a_question_in_other_words_is_asked_of_the_same_picture(evening):
    found = evening["picture"]
    assert "circle" in found["first"]
    assert found["edited"] == "The circle is red."
    assert found["fork"] == ["What color is the circle?", "The circle is red."]


def test_chats_are_found_and_go_through_an_archive(evening):
    assert evening["searched"] == ["What color is the circle?", "What color is the circle? (2)"]
    found = evening["archived"]
    before = found["before"]
    assert found["after"] == 2 * before
    assert found["said"] == [f"{before} chats were exported to all.braid.", f"{before} chats were imported."]
