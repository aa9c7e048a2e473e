"""Thoughts in a conversation: kept beside the answer, never sent as one, timed, and gone on with."""

from __future__ import annotations

import json

import pytest

from app.state.turn import AnswerFacts, Turn
from engine.think_tags import ThinkTags


@pytest.fixture
def chat(library):
    return library.current


def ask(chat, text: str = "Why?") -> None:
    chat.composer.set_text(text)
    chat.composer.send()


def idle(chat):
    return lambda: not chat.answering


async def thinking(scheduler, chat, until):
    """Ask, and return the request once the model would think aloud."""
    sent = len(scheduler.sent)
    ask(chat)
    await until(lambda: len(scheduler.sent) > sent)
    scheduler.sent[-1].record.begins_thinking = True
    return scheduler.sent[-1]


def test_thoughts_are_kept_beside_the_answer_and_timed(run, until, scheduler, chat):
    async def go():
        request = await thinking(scheduler, chat, until)
        for piece in ("reason", "ing</thi", "nk>"):
            request.say(piece)
        await until(lambda: chat.turns[-1].reasoning == "reasoning")
        assert chat.turns[-1].text == ""
        request.say("answer")
        request.end()
        await until(idle(chat))
        ask(chat, "And?")
        await until(lambda: len(scheduler.sent) == 2)
        chat.stop()
        await until(idle(chat))

    run(go())
    answer = chat.turns[1]
    assert (answer.state, answer.reasoning, answer.text) == ("done", "reasoning", "answer")
    assert 0 < answer.facts.thinking_s < 10
    assert scheduler.sent[1].messages[1]["content"] == [{"type": "text", "text": "answer"}]


def test_a_stop_while_thinking_keeps_the_thoughts_and_offers_to_go_on(run, until, scheduler, chat):
    async def go():
        request = await thinking(scheduler, chat, until)
        request.say("I think </th")
        await until(lambda: chat.turns[-1].reasoning)
        chat.stop()
        await until(idle(chat))

    run(go())
    answer = chat.turns[-1]
    assert (answer.state, answer.reasoning, answer.text) == ("stopped", "I think </th", "")
    assert chat.offers(answer.id).resume
    assert not answer.told

    async def go_on():
        chat.resume(answer.id)
        await until(lambda: len(scheduler.sent) == 2)
        request = scheduler.sent[1]
        assert request.messages[-1]["reasoning_content"] == "I think </th"
        request.record.begins_thinking = True
        for piece in (" more", "</think>\n\n", "Yes."):
            request.say(piece)
        request.end()
        await until(idle(chat))

    run(go_on())
    assert (answer.state, answer.reasoning, answer.text) == ("done", "I think </th more", "Yes.")


@pytest.mark.parametrize(("reason", "state"), [("length", "done"), ("stop", "failed")])
def test_an_answer_that_never_came_is_told_apart_from_one_cut_by_the_limit(run, until, scheduler, chat, reason, state):
    async def go():
        request = await thinking(scheduler, chat, until)
        request.say("Let me see")
        request.end(reason)
        await until(idle(chat))

    run(go())
    answer = chat.turns[-1]
    assert (answer.state, answer.reasoning) == (state, "Let me see")
    assert ("without an answer" in (answer.error or "")) == (state == "failed")
    assert answer.at_limit == (state == "done")


def test_closing_the_chat_while_thinking_loses_nothing_that_was_held_back(run, until, scheduler, chat):
    async def go():
        request = await thinking(scheduler, chat, until)
        request.say("a </thi")
        await until(lambda: chat.turns[-1].reasoning)
        await chat.close()

    run(go())
    assert chat.turns[-1].reasoning == "a </thi"


def test_a_family_with_tags_of_its_own_is_folded_as_well(run, until, scheduler, chat):
    async def go():
        ask(chat)
        await until(lambda: scheduler.sent)
        request = scheduler.sent[0]
        request.record.think_tags = ThinkTags("<|channel>", "<channel|>", "thought", "")
        for piece in ("<|channel>", "thought", "\nIt is", " clear.", "<channel|>", "Yes."):
            request.say(piece)
        request.end()
        await until(idle(chat))

    run(go())
    answer = chat.turns[-1]
    assert (answer.state, answer.reasoning, answer.text) == ("done", "It is clear.", "Yes.")
    assert answer.facts.thinking_s > 0


def test_facts_survive_what_another_version_has_measured():
    facts = AnswerFacts(3, 5.0, 0.1, 10, 4, "stop", mtp_drafts=4, mtp_accepted=3)
    assert (
        AnswerFacts.restored(
            json.dumps(
                {
                    "completion_tokens": 3,
                    "tokens_per_second": 5.0,
                    "ttft_s": 0.1,
                    "prompt_tokens": 10,
                    "cached_tokens": 4,
                    "finish_reason": "stop",
                    "mtp_drafts": 4,
                    "mtp_accepted": 3,
                    "sparkles": 1,
                }
            )
        )
        == facts
    )
    old = {"completion_tokens": 3, "tokens_per_second": 5.0, "ttft_s": 0.1, "prompt_tokens": 10, "cached_tokens": 4}
    assert AnswerFacts.restored(json.dumps(old | {"finish_reason": "stop"})).mtp_off is None
    assert facts.after(facts).mtp_drafts == 8
    assert Turn(role="assistant", reasoning="hm", state="stopped").early
