"""The system is held awake from the first answer's start to the last one's end."""

import pytest

from app.state.activity import Activity


class Holds:
    """Counts who holds the system."""

    def __init__(self):
        self.now = 0
        self.begun = []

    def __call__(self, reason):
        self.now += 1
        self.begun.append(reason)
        return self.release

    def release(self):
        self.now -= 1


@pytest.fixture
def holds():
    return Holds()


@pytest.fixture
def activity(library, holds):
    return Activity(library, holds)


def ask(chat):
    chat.composer.set_text("Hello")
    chat.composer.send()


def test_it_holds_once_while_two_chats_answer(activity, library, scheduler, holds, run, until):
    async def evening():
        first, second = library.current, library.new_chat()
        assert holds.now == 0
        ask(first)
        ask(second)
        await until(lambda: len(scheduler.live) == 2)
        assert (holds.now, holds.begun) == (1, ["Answering"])
        scheduler.sent[0].end()
        await until(lambda: not first.answering)
        assert holds.now == 1
        scheduler.sent[1].end()
        await until(lambda: not second.answering)
        assert holds.now == 0
        ask(first)
        await until(lambda: len(scheduler.live) == 1)
        assert (holds.now, len(holds.begun)) == (1, 2)
        scheduler.sent[2].end()
        await until(lambda: not first.answering)
        assert holds.now == 0

    run(evening())


def test_closing_the_answering_tab_lets_go(activity, library, scheduler, holds, run, until):
    async def evening():
        library.new_chat()
        answering = library.current
        ask(answering)
        await until(lambda: holds.now == 1)
        library.close_tab(answering.id)
        await until(lambda: holds.now == 0)
        await until(lambda: not answering.answering)

    run(evening())


def test_the_end_lets_go_once(activity, library, scheduler, holds, run, until):
    async def evening():
        ask(library.current)
        await until(lambda: holds.now == 1)
        activity.end()
        activity.end()
        assert holds.now == 0

    run(evening())
