"""Whatever a person does in whatever order, chats stay whole, every answer ends, and a restart finds what was there."""

import asyncio
import random

import pytest

from app.settings import Generation
from app.state.library import Library

STEPS = 150


def ask(chat, text):
    chat.composer.set_text(text)
    chat.composer.send()


class Person:
    """Does one thing after the other, some of them senseless."""

    def __init__(self, library, scheduler, seed):
        self.library, self.scheduler, self.dice = library, scheduler, random.Random(seed)
        self.said = 0

    @property
    def chat(self):
        return self.dice.choice(self.library.tabs)

    def turn(self, chat):
        return self.dice.choice(chat.turns).id if chat.turns else "none"

    def act(self):
        name = self.dice.choice(ACTS)
        getattr(self, name)()

    def asks(self):
        self.said += 1
        ask(self.chat, f"question {self.said}")

    def hears(self):
        if self.scheduler.live:
            request = self.dice.choice(self.scheduler.live)
            request.say("word ")
            if self.dice.random() < 0.5:
                request.end(self.dice.choice(["stop", "length", "error"]), "It failed.")

    def stops(self):
        self.chat.stop()

    def retries(self):
        chat = self.chat
        chat.retry(self.turn(chat))

    def edits(self):
        chat = self.chat
        self.said += 1
        chat.edit(self.turn(chat), f"wording {self.said}")

    def steps(self):
        chat = self.chat
        chat.show_variant(self.turn(chat), self.dice.choice([-1, 1]))

    def resumes(self):
        chat = self.chat
        chat.resume(self.turn(chat))

    def forks(self):
        chat = self.chat
        if len(self.library.tabs) < 6:
            chat.fork(self.turn(chat))

    def opens(self):
        if self.library.entries and len(self.library.tabs) < 6:
            self.library.open(self.dice.choice(self.library.entries).id)

    def starts(self):
        if len(self.library.tabs) < 6:
            self.library.new_chat()

    def closes(self):
        self.library.close_tab(self.chat.id)

    def deletes(self):
        self.library.delete(self.chat.id)

    def regrets(self):
        self.library.undo_delete()

    def looks(self):
        self.library.show_beside(self.dice.choice([None, self.chat.id]))

    def selects(self):
        self.library.select(self.chat.id)


ACTS = [
    *("asks", "asks", "asks", "hears", "hears", "hears", "hears", "stops", "retries", "edits", "steps", "resumes"),
    *("forks", "opens", "starts", "closes", "deletes", "regrets", "looks", "selects"),
]


def check(library):
    """What must hold at any moment."""
    assert library.current in library.tabs
    assert library.beside is None or library.beside in library.tabs
    assert library.beside is not library.current
    assert {tab.id for tab in library.tabs if tab.shown} == {
        tab.id for tab in (library.current, library.beside) if tab is not None
    }
    for tab in library.tabs:
        sent = [turn for turn in tab.turns if turn.state != "queued"]
        assert [turn.parent_id for turn in sent] == [None, *(turn.id for turn in sent)][: len(sent)]
        assert [turn.role for turn in sent] == ["user", "assistant"] * (len(sent) // 2) + ["user"] * (len(sent) % 2)
        for turn in sent:
            offers = tab.offers(turn.id)
            assert 1 <= offers.position <= offers.variants


def seen(library):
    return {tab.id: [(turn.text, turn.state) for turn in tab.turns] for tab in library.tabs if tab.kept and tab.turns}


@pytest.mark.parametrize("seed", range(12))
def test_any_order_of_acts_leaves_chats_whole(run, until, library, model, scheduler, profile, seed):
    person = Person(library, scheduler, seed)

    async def go():
        for _ in range(STEPS):
            person.act()
            await asyncio.sleep(0)
            check(library)
            if person.dice.random() < 0.2:
                await until(lambda: not library._closing)
        await until(lambda: not library._closing)
        for tab in library.tabs:
            while tab.answering:
                tab.stop()
                await asyncio.sleep(0)
        await library._tasks.join()
        check(library)
        before = seen(library)
        await library._journal.flush()
        again = Library(profile, model, Generation)
        await again.restore()
        after = seen(again)
        await again.end_answers()
        await again.close()
        return before, after

    before, after = run(go())
    assert after == before
    assert scheduler.live == []
    assert scheduler.kept == []
