from pathlib import Path

import pytest

from app.state.attachment import Attachment
from app.state.turn import AnswerFacts, Turn, messages
from app.storage.media import MediaStore
from engine.request import MLLMRequest, RequestOutput

OVEN = Attachment("a", "image", "oven.heic", Path("/media/d1.heic"), 40, 30, None, b"", digest="d1")


def answer(text, state="done"):
    return Turn(role="assistant", text=text, state=state)


def test_a_branch_becomes_messages_with_the_pictures_of_every_turn():
    turns = [Turn(text="What is wrong?", attachments=(OVEN,)), answer("The seal."), Turn(text="Which side?")]
    assert messages(turns, "Be brief.") == [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "image", "image": "/media/d1.heic", "name": "oven.heic"},
                {"type": "text", "text": "What is wrong?"},
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "The seal."}]},
        {"role": "user", "content": [{"type": "text", "text": "Which side?"}]},
    ]


def test_a_picture_alone_is_a_message():
    assert messages([Turn(attachments=(OVEN,))]) == [
        {"role": "user", "content": [{"type": "image", "image": "/media/d1.heic", "name": "oven.heic"}]}
    ]


@pytest.mark.parametrize(
    ("turn", "told"),
    [
        (Turn(text="hi", state="queued"), False),
        (answer("", "failed"), False),
        (answer("half", "failed"), False),
        (answer("  ", "stopped"), False),
        (answer("half", "stopped"), True),
        (answer("half", "cut"), True),
        (answer("half", "live"), False),
    ],
)
def test_only_what_was_really_said_is_repeated_to_the_model(turn, told):
    assert bool(messages([turn])) is told


def test_a_turn_comes_back_from_its_record(tmp_path):
    media = MediaStore(tmp_path)
    facts = AnswerFacts(212, 41.0, 0.4, 300, 288, "stop")
    turn = Turn(
        role="assistant", text="The seal.", state="failed", error="No.", facts=facts, parent_id="q", reasoning="hm"
    )
    restored = Turn.restore(turn.record("c"), media)
    assert restored.record("c") == turn.record("c")
    assert restored.facts == facts


def test_facts_are_what_the_engine_measured():
    request = MLLMRequest(arrival_time=10.0, first_token_time=10.5, finish_time=12.5)
    output = RequestOutput("r", completion_tokens=21, prompt_tokens=100, cached_tokens=90, finish_reason="stop")
    assert AnswerFacts.measured(output, request) == AnswerFacts(21, 10.0, 0.5, 100, 90, "stop")


@pytest.mark.parametrize(
    "request_",
    [
        None,
        MLLMRequest(),
        MLLMRequest(arrival_time=1.0, first_token_time=2.0),
        MLLMRequest(first_token_time=2.0, finish_time=2.0),
    ],
)
def test_what_was_not_measured_is_not_made_up(request_):
    output = RequestOutput("r", completion_tokens=1, finish_reason="stop")
    assert AnswerFacts.measured(output, request_).tokens_per_second is None
