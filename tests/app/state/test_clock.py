"""The system's clock is set while answers stream, or was wrong at the last start: order and durations stay right."""

import time

import pytest

from app.settings import Generation
from app.state.clock import Clock
from app.state.library import Library

HOUR_S, TEN_YEARS_S = 3600.0, 10 * 365 * 86400.0


@pytest.fixture
def set_clock(monkeypatch):
    """Put the system's clock so many seconds before (-) or after the true time."""
    true = time.time

    def set_clock(by):
        monkeypatch.setattr(time, "time", lambda: true() + by)

    return set_clock


def titles(library):
    return [entry.title for entry in library.entries]


def ask(chat, text):
    chat.composer.set_text(text)
    chat.composer.send()


async def answered(chat, text, scheduler, until):
    ask(chat, text)
    await until(lambda: scheduler.live)
    scheduler.live[0].say("Yes.")
    scheduler.live[0].end()
    await until(lambda: not chat.answering)


def test_time_goes_on_whatever_the_system_s_clock_does(set_clock):
    clock = Clock()
    told = [clock.now()]
    for by in (-HOUR_S, TEN_YEARS_S, 0.0, -HOUR_S):
        set_clock(by)
        told += [clock.now(), clock.now()]
    assert told == sorted(set(told))
    assert told[3] - told[0] == pytest.approx(TEN_YEARS_S, abs=60)


@pytest.mark.parametrize("by", [-HOUR_S, TEN_YEARS_S])
def test_an_answer_survives_a_clock_that_is_set_while_it_streams(run, until, library, scheduler, set_clock, by):
    async def go():
        first, second = library.current, library.new_chat()
        await answered(second, "Another one", scheduler, until)
        ask(first, "What is this?")
        await until(lambda: scheduler.live)
        [request] = scheduler.live
        request.say("<think>hm")
        await until(lambda: first.turns[-1].reasoning)
        set_clock(by)
        request.say("</think>")
        request.say("A dog.")
        request.end()
        await until(lambda: not first.answering)
        assert titles(library) == ["What is this?", "Another one"]
        facts = first.turns[-1].facts
        assert first.turns[-1].state == "done"
        assert 0 < facts.thinking_s < 60
        set_clock(0.0)
        await answered(second, "And this?", scheduler, until)
        assert titles(library) == ["Another one", "What is this?"]

    run(go())


def test_chats_from_the_future_do_not_stay_on_top(run, until, model, scheduler, profile, set_clock):
    async def visit(*questions):
        library = Library(profile, model, Generation)
        await library.restore()
        for question in questions:
            await answered(library.new_chat(), question, scheduler, until)
        found = titles(library)
        await library.end_answers()
        await library.close()
        return found

    set_clock(TEN_YEARS_S)
    assert run(visit("While the clock was wrong")) == ["While the clock was wrong"]
    set_clock(0.0)
    assert run(visit("Today")) == ["Today", "While the clock was wrong"]
    assert run(visit()) == ["Today", "While the clock was wrong"]
