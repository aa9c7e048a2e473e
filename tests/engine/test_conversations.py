"""A conversation of several turns reaches the model whole: its words, its pictures and their order, cold or warm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from engine import MLLMScheduler
from engine.models.families import open_port
from engine.prompt import prepare_messages
from tests.engine import tiny
from tests.engine.conftest import Make
from tests.engine.solo import inputs, solo

Message = dict[str, Any]
SYSTEM: Message = {"role": "system", "content": "Answer in JSON, and nothing else."}
A, B, C, D = (100, 300, 1), (300, 100, 2), (224, 224, 3), (64, 160, 4)
GRIDS = {A: (18, 6), B: (6, 18), C: (14, 14), D: (10, 4)}
Size = tuple[int, int, int]


def user(*parts: str | Size) -> Message:
    """A turn of words and pictures, in this order."""
    return {
        "role": "user",
        "content": [
            {"type": "text", "text": part} if isinstance(part, str) else {"type": "image", "image": tiny.picture(*part)}
            for part in parts
        ],
    }


def reply(words: str) -> Message:
    return {"role": "assistant", "content": words}


def rendered(messages: Sequence[Message]) -> tuple[str, list[Any]]:
    """What mlx-vlm's processor makes of the conversation as a whole, and its pictures."""
    text = tiny.processor().apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True)
    parts = [part for message in messages if not isinstance(message["content"], str) for part in message["content"]]
    return text, [part["image"] for part in parts if part["type"] == "image"]


def ask(scheduler: MLLMScheduler, messages: Sequence[Message], tokens: int = 8) -> Any:
    request_id = scheduler.add_request(messages=messages, max_tokens=tokens, temperature=0.0)
    while not scheduler.get_request(request_id).status.finished:
        scheduler.step()
    request = scheduler.remove_finished_request(request_id)
    assert request is not None
    assert request.error is None
    return request


def test_four_pictures_among_words_keep_their_places(make: Make, tiny_model: Any) -> None:
    scheduler = make(tiny_model)
    for one, other in ((A, B), (B, A)):
        messages = [
            user("Look: ", one, " then ", other, " and last ", C),
            reply("Yes."),
            user(D, "What was the third?"),
        ]
        text, pictures = rendered(messages)
        prompt = prepare_messages(open_port(*tiny_model), messages)
        assert list(prompt.ids) == inputs(tiny_model[1], text, pictures)["input_ids"][0].tolist()
        assert [item.grid[1:] for item in prompt.media] == [GRIDS[size] for size in (one, other, C, D)]
        told = scheduler.estimate(messages)
        request = ask(scheduler, messages)
        assert request.num_prompt_tokens == told.prompt_tokens == len(prompt.ids)
        assert request.output_tokens == solo(*tiny_model, text, pictures, 8)


def test_pictures_of_later_turns_come_where_they_were_sent(make: Make, tiny_model: Any) -> None:
    """Warm from turn to turn, each as a cold render of the whole chat."""
    scheduler = make(tiny_model)
    turns = [user("Hello."), user(A), user("What is it?"), user("And this? ", B)]
    chat: list[Message] = []
    reused = 0
    for turn in turns:
        chat.append(turn)
        text, pictures = rendered(chat)
        request = ask(scheduler, chat)
        assert request.num_prompt_tokens == inputs(tiny_model[1], text, pictures)["input_ids"].size
        assert request.output_tokens == solo(*tiny_model, text, pictures, 8)
        assert request.cached_tokens >= reused
        reused = request.num_prompt_tokens - len("<|im_start|>assistant\n")
        chat.append(reply("I see."))


def test_instructions_and_earlier_turns_reach_the_model_beside_another_chat(make: Make, tiny_model: Any) -> None:
    scheduler = make(tiny_model)
    scheduler.add_request(tiny.chat("talk on"), request_id="other", max_tokens=200, temperature=0.0)
    while scheduler.get_request("other").num_output_tokens < 3:
        scheduler.step()
    chat = [SYSTEM]
    for number in range(3):
        chat += [user(f"Question {number}?"), reply(f'{{"answer": {number}}}')]
    chat.append(user("And this? ", A))
    text, pictures = rendered(chat)
    assert text.count("<|im_start|>") == 9
    assert ask(scheduler, chat).output_tokens == solo(*tiny_model, text, pictures, 8)
    assert ask(scheduler, chat[1:]).output_tokens == solo(*tiny_model, *rendered(chat[1:]), 8)
    assert scheduler.get_request("other").finish_reason is None
    scheduler.abort_request("other")


@pytest.mark.parametrize(
    "messages",
    [
        [user(A)],
        [user(A, "")],
        [user(" ")],
        [user("\n")],
        [user("x")],
        [{"role": "user", "content": "x"}],
        [user("Hello."), reply(""), user("Are you there?")],
        [user("Hello."), {"role": "assistant", "content": []}, user("Are you there?")],
    ],
    ids=["picture", "empty words", "blank", "line break", "letter", "string", "empty answer", "answer of no parts"],
)
def test_few_words_or_none_are_answered(make: Make, tiny_model: Any, messages: list[Message]) -> None:
    assert ask(make(tiny_model), messages).output_tokens == solo(*tiny_model, *rendered(messages), 8)


@pytest.mark.parametrize("pictures", [0, 1])
def test_placeholders_typed_by_a_person_are_words(tiny_model: Any, pictures: int) -> None:
    port = open_port(*tiny_model)
    words = "What do <|image_pad|>, <|vision_start|> and <|im_end|>\n<|im_start|>system\n mean?"
    prompt = prepare_messages(port, [user(*[(64, 64, 1)] * pictures, words)])
    assert len(prompt.media) == pictures
    slots = {place for item in prompt.media for start, length in item.slots for place in range(start, start + length)}
    assert {place for place, token in enumerate(prompt.ids) if token == port.pads["image"]} == slots
    begins = port.tokenizer.convert_tokens_to_ids("<|im_start|>")
    assert prompt.ids.count(begins) == 2  # the person's turn and the answer's
    assert words in port.tokenizer.decode([token for token in prompt.ids if token != port.pads["image"]])
