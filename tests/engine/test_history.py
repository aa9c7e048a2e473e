"""Replies keep the ids they were generated with, and the chat template's shape is read off the template itself."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from engine.chat_shape import ChatShape, learn_shape, store_points
from engine.history import History
from tests.engine import tiny

THINKING = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n\n</think>\n\n{% endif %}"
)


class Chats:
    """A processor with a template of its own."""

    def __init__(self, template: str | None) -> None:
        self.tokenizer = tiny.processor().tokenizer
        self.chat_template = template

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))


def test_the_shape_of_chats_is_learnt() -> None:
    processor = tiny.processor()
    shape = learn_shape(processor, {})
    assert (shape.opener, shape.closer, shape.unstable) == ("<|im_start|>assistant\n", "<|im_end|>", 0)
    assert list(shape.user_stem) == Chats(None).encode("<|im_start|>user")


def test_a_think_block_that_later_turns_drop_is_unstable() -> None:
    chats = Chats(THINKING)
    shape = learn_shape(chats, {})
    assert shape.opener == "<|im_start|>assistant\n<think>\n\n</think>\n\n"
    assert shape.unstable == len(chats.encode("<think>\n\n</think>\n\n"))


def test_the_embedded_model_repeats_its_empty_think_block(pocket_processor: Any) -> None:
    shape = learn_shape(pocket_processor, {})
    assert shape.opener == "<|im_start|>assistant\n<think>\n\n</think>\n\n"
    assert (shape.closer, shape.unstable) == ("<|im_end|>", 0)


@pytest.fixture(scope="module")
def pocket_processor() -> Any:
    from transformers import AutoTokenizer

    folder = Path(__file__).parents[2] / "resources" / "pocket"

    class Processor:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        chat_template = (folder / "chat_template.jinja").read_text("utf-8")

    return Processor()


@pytest.mark.parametrize("template", ["{{ raise_exception('no') }}", "constant", "{{ messages[0].content }}"])
def test_a_template_without_shape_gives_none(template: str) -> None:
    assert learn_shape(Chats(template), {}).closer == ""


def test_states_are_stored_where_another_prompt_is_likely_to_go_on() -> None:
    shape = ChatShape(user_stem=(7,), unstable=0)
    system, question = [7] + [1] * 39, [7] + [2] * 59
    # After the first turn's opening is too early to be worth it; after the second's, the picture, and at the end.
    assert store_points([*system, *question], [80], shape) == (41, 80, 99)
    assert store_points([*system, *question], [], shape) == (41, 99)
    assert store_points([*system, *question], [], ChatShape(user_stem=(7,), unstable=4)) == (41, 96)
    assert store_points([1, 2, 3], [], ChatShape()) == (2,)
    assert store_points([1], [], shape) == (0,)


def spell(history: History, text: str) -> tuple[list[int], bytes]:
    spelling = history.spelling({})
    return spelling.encode(text), spelling.digest


def test_a_known_reply_keeps_the_ids_it_was_generated_with() -> None:
    chats = Chats(tiny.processor().chat_template)
    history = History(chats)
    prompt = tiny.chat("say hello")
    ids, digest = spell(history, prompt)
    assert ids == chats.encode(prompt)
    emitted = [200, 201, 202]
    history.record(digest, "hello\n", emitted)
    later = prompt + "hello<|im_end|>\n" + tiny.chat("again")
    assert spell(history, later)[0] == [*ids, *emitted, *chats.encode("<|im_end|>\n" + tiny.chat("again"))]


@pytest.mark.parametrize(
    ("prompt", "reply"), [("say hello", "hullo"), ("say hallo", "hello"), ("say hello", "hello there")]
)
def test_another_reply_or_another_question_is_tokenised_as_text(prompt: str, reply: str) -> None:
    chats = Chats(tiny.processor().chat_template)
    history = History(chats)
    history.record(spell(history, tiny.chat("say hello"))[1], "hello", [200])
    text = tiny.chat(prompt) + reply + "<|im_end|>\n" + tiny.chat("again")
    assert spell(history, text)[0] == chats.encode(text)


def test_a_conversation_cut_into_pieces_is_spelt_the_same() -> None:
    chats = Chats(tiny.processor().chat_template)
    history = History(chats)
    prompt = tiny.chat("say hello")
    history.record(spell(history, prompt)[1], "hello", [200, 201])
    later = prompt + "hello<|im_end|>\n" + tiny.chat("again")
    whole, digest = spell(history, later)
    spelling = history.spelling({})
    cut = later.index("again") + 2
    assert spelling.encode(later[:cut]) + spelling.encode(later[cut:]) == whole
    assert spelling.digest == digest


def test_what_cannot_be_read_back_is_not_recorded() -> None:
    chats = Chats(tiny.processor().chat_template)
    history = History(chats, pads=[5])
    prompt = tiny.chat("hi")
    _, digest = spell(history, prompt)
    history.record(digest, "x", [4, 5])
    history.record(digest, " \n", [4])
    text = prompt + "x<|im_end|>\n"
    assert spell(history, text)[0] == chats.encode(text)


def test_what_is_remembered_is_bounded_by_bytes_and_the_oldest_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.history._KEPT_BYTES", 10_000)
    history = History(Chats(tiny.processor().chat_template))
    for number in range(100):
        history.record(bytes([number]), "reply", range(number, number + 100))
        history.record(bytes([number]), "reply", range(number, number + 200))  # said again, in other tokens
    figures = history.snapshot()
    assert figures["entry_count"] == 10_000 // (256 + 4 * 200)
    assert figures["current_memory_mb"] <= figures["max_memory_mb"] == 0.01
    assert list(history.reply(bytes([99]), "reply") or ()) == list(range(99, 299))
    assert history.reply(bytes([99 - figures["entry_count"]]), "reply") is None


def test_threads_may_record_and_spell_at_once() -> None:
    history = History(Chats(tiny.processor().chat_template))
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(30):
                _, digest = spell(history, tiny.chat(f"{number} {turn}"))
                history.record(digest, "reply", [number, turn])
                assert list(history.reply(digest, "reply") or ()) == [number, turn]
        except BaseException as error:  # noqa: BLE001 - handed to the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
