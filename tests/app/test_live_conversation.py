"""Conversations on the real program: what was cut goes on as if it had not been, pictures stay with their questions."""

import pytest

from tests.app.driving import outside


@pytest.fixture(scope="module")
def evening():
    """One evening with the real program."""
    return outside("tests.app.live_conversation")


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


def test_what_a_draft_is_said_to_take_is_what_it_takes(evening):
    found = evening["priced"]
    assert found["said"] == found["read"]
    assert found["said"][1] > found["said"][0] > 100


def test_chats_are_found_and_go_through_an_archive(evening):
    assert evening["searched"] == ["What color is the circle?", "What color is the circle? (2)"]
    found = evening["archived"]
    before = found["before"]
    assert found["after"] == 2 * before
    assert found["said"] == [f"{before} chats were exported to all.braid.", f"{before} chats were imported."]
