from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from engine.errors import RequestRejected
from engine.messages import format_chat

QUESTION = {"role": "user", "content": "Count."}
TEMPLATE = {False: "[Count.]<think>\n\n</think>\n\n", True: "[Count.]<think>\n"}


class Renderer:
    """A template that opens, or closes, the thoughts of an answer as those of Qwen3.5 do."""

    get_added_vocab = dict

    def apply_chat_template(self, messages: list[dict[str, Any]], *, enable_thinking: bool = False, **_: Any) -> str:
        assert messages == [QUESTION]
        return TEMPLATE[enable_thinking]


PROCESSOR = SimpleNamespace(tokenizer=Renderer(), chat_template="a template")


def begun(words: str, thoughts: str = "", **options: Any) -> str:
    answer = {"role": "assistant", "content": [{"type": "text", "text": words}], "reasoning_content": thoughts}
    return format_chat(PROCESSOR, [QUESTION, answer], continue_final=True, **options)


def test_a_begun_answer_stands_behind_the_prompt_without_its_end() -> None:
    assert begun("One, two,") == TEMPLATE[False] + "One, two,"


@pytest.mark.parametrize(
    ("words", "thoughts", "tail"),
    [
        ("One, two,", "Easy.", "Easy.\n</think>\n\nOne, two,"),
        ("", "Easy. So I", "Easy. So I"),
        ("One, two,", "", "\n</think>\n\nOne, two,"),
    ],
)
def test_thoughts_are_gone_on_with_or_closed(words: str, thoughts: str, tail: str) -> None:
    assert begun(words, thoughts, enable_thinking=True) == TEMPLATE[True] + tail


class Channels(Renderer):
    """A template that leaves thinking to the model, or closes the block, as those of Gemma 4 do."""

    def get_added_vocab(self) -> dict[str, int]:
        return {"<|channel>": 100, "<channel|>": 101}

    def apply_chat_template(self, messages: list[dict[str, Any]], *, enable_thinking: bool = False, **_: Any) -> str:
        return "[Count.]" if enable_thinking else "[Count.]<|channel>thought\n<channel|>"


@pytest.mark.parametrize(
    ("words", "thoughts", "on", "tail"),
    [
        ("One,", "Easy.", True, "<|channel>thought\nEasy.\n<channel|>One,"),
        ("", "Easy. So", True, "<|channel>thought\nEasy. So"),
        ("One,", "", True, "One,"),
        ("One,", "Easy.", False, "<|channel>thought\n<channel|>One,"),
    ],
)
def test_a_block_that_the_model_has_opened_itself_is_gone_on_with(
    words: str, thoughts: str, on: bool, tail: str
) -> None:
    processor = SimpleNamespace(tokenizer=Channels(), chat_template="a template")
    answer = {"role": "assistant", "content": words, "reasoning_content": thoughts}
    said = format_chat(processor, [QUESTION, answer], continue_final=True, enable_thinking=on)
    assert said == "[Count.]" + tail


@pytest.mark.parametrize("messages", [[], [QUESTION]])
def test_there_must_be_an_answer_to_continue(messages: list[dict[str, str]]) -> None:
    with pytest.raises(RequestRejected, match="no answer to continue"):
        format_chat(PROCESSOR, messages, continue_final=True)


def test_the_demo_model_ends_a_cut_answer_as_if_it_had_not_been_cut(pocket: Any, make: Any) -> None:
    scheduler = make(pocket)
    question = {"role": "user", "content": "Hello"}

    def answer(limit: int, *begun: dict[str, str]) -> str:
        options = {"continue_final": bool(begun)}
        request_id = scheduler.add_request(
            messages=[question, *begun], template_options=options, max_tokens=limit, temperature=0.0
        )
        while not scheduler.get_request(request_id).status.finished:
            scheduler.step()
        return str(scheduler.get_request(request_id).output_text)

    whole = answer(40)
    half = answer(3)
    assert half
    assert half != whole
    assert half + answer(40, {"role": "assistant", "content": half}) == whole
