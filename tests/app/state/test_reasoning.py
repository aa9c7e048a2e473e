from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.state.reasoning import Parts, Splitter
from engine.think_tags import ThinkTags

CHANNEL = ThinkTags("<|channel>", "<channel|>", "thought", "")


def split(
    *pieces: str, opened: bool = False, reasoning: str = "", text: str = "", tags: ThinkTags | None = None
) -> Parts:
    splitter = Splitter(opened=opened, reasoning=reasoning, text=text, tags=tags)
    for piece in pieces:
        told = splitter.add(piece)
        reasoning, text = reasoning + told.reasoning, text + told.text
    told = splitter.finish()
    return Parts(reasoning + told.reasoning, text + told.text)


CASES = [
    # reply, whether the prompt opened a block, thoughts, answer
    ("reasoning</think>answer", True, "reasoning", "answer"),
    ("<think>\nwhy not\n</think>\n\nBecause.", False, "why not", "Because."),
    ("\n<think>a</think> b ", False, "a", "b "),
    ("No tag at all", False, "", "No tag at all"),
    ("  Two spaces stay", False, "", "  Two spaces stay"),
    ("still think", True, "still think", ""),
    ("  think \n", True, "think", ""),
    ("a < b </thin", True, "a < b </thin", ""),
    ("</think>plan</think>answer", True, "", "plan</think>answer"),
    ("</think>plan</think>answer", False, "", "plan</think>answer"),
    ("Write `<think>` and `</think>`.", False, "", "Write `<think>` and `</think>`."),
    ("a</think>Use <think>x</think>, see?", True, "a", "Use <think>x</think>, see?"),
    ("a <think> b</think>c", True, "a <think> b", "c"),
    ("<thinking", False, "", "<thinking"),
    ("<thi", False, "", "<thi"),
    ("a\n \n</think>\n \n b\n", True, "a", "b\n"),
    ("", True, "", ""),
]


@pytest.mark.parametrize(("reply", "opened", "thoughts", "answer"), CASES)
def test_thoughts_and_answer_are_told_apart_however_the_reply_is_cut(
    reply: str, opened: bool, thoughts: str, answer: str
) -> None:
    assert split(reply, opened=opened) == (thoughts, answer)
    assert split(*reply, opened=opened) == (thoughts, answer)
    for one, two in itertools.combinations(range(len(reply) + 1), 2):
        assert split(reply[:one], reply[one:two], reply[two:], opened=opened) == (thoughts, answer), (one, two)


@given(
    st.lists(st.sampled_from(["<think>", "</think>", " ", "\n", "a", "<", "</th", "word "]), max_size=8),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_any_cut_gives_the_same(parts: list[str], opened: bool, random) -> None:
    reply = "".join(parts)
    ends = sorted(random.randint(0, len(reply)) for _ in range(3))
    pieces = [reply[a:b] for a, b in itertools.pairwise([0, *ends, len(reply)])]
    assert split(*pieces, opened=opened) == split(reply, opened=opened)


def test_a_thought_is_told_as_soon_as_it_is_one() -> None:
    splitter = Splitter(opened=True)
    assert splitter.add("reason") == ("reason", "")
    assert splitter.add("ing</thi") == ("ing", "")
    assert splitter.thinks
    assert splitter.add("nk>") == ("", "")
    assert not splitter.thinks
    assert splitter.add("answer") == ("", "answer")


def test_thoughts_that_are_gone_on_with_keep_their_space() -> None:
    assert split(" and so</think>Yes", opened=True, reasoning="I think") == ("I think and so", "Yes")
    assert split(" more", opened=False, reasoning="I think", text="Yes,") == ("I think", "Yes, more")
    assert split("</think>", opened=False, text="The tag is ") == ("", "The tag is </think>")


@pytest.mark.parametrize(
    ("reply", "opened", "thoughts", "answer"),
    [
        ("<|channel>thought\nwhy not\n<channel|>Because.", False, "why not", "Because."),
        ("<|channel>thought\n<channel|>Because.", False, "", "Because."),
        ("<|channel><channel|>Because.", False, "", "Because."),
        ("why not<channel|>Because.", True, "why not", "Because."),
        ("<|channel>thought", False, "", ""),
        ("<|channel>", False, "", ""),
        ("Because <think>.", False, "", "Because <think>."),
        ("thought out", False, "", "thought out"),
    ],
)
def test_other_families_write_other_tags(reply: str, opened: bool, thoughts: str, answer: str) -> None:
    assert split(reply, opened=opened, tags=CHANNEL) == (thoughts, answer)
    assert split(*reply, opened=opened, tags=CHANNEL) == (thoughts, answer)
