"""Two tabs that are shown side by side."""

import pytest

from app.settings import Generation
from app.state.library import Library
from tests.fakes import Script


def ask(chat, text):
    chat.composer.set_text(text)
    chat.composer.send()


@pytest.fixture
def act(run, library):
    """Do something on the loop and let it be written down."""

    def act(*steps):
        async def go():
            for step in steps:
                step()
            await library._journal.flush()

        run(go())

    return act


@pytest.fixture
def three(act, library):
    act(library.new_chat, library.new_chat, lambda: library.select(library.tabs[0].id))
    return list(library.tabs)


def shown(library):
    return [tab for tab in library.tabs if tab.shown]


def test_choosing_the_one_beside_changes_only_which_is_current(act, library, three):
    a, b, _ = three
    act(lambda: library.show_beside(b.id))
    assert (library.current, library.beside) == (a, b)
    act(lambda: library.select(b.id))
    assert (library.current, library.beside) == (b, a)
    assert shown(library) == [a, b]


def restart(run, library, model, profile):
    """Titles of the current chat and of the one beside it after another start of the program."""

    async def go():
        await library._journal.flush()
        second = Library(profile, model, Generation)
        await second.restore()
        found = second.current.title, second.beside.title if second.beside else None, len(shown(second))
        await second.end_answers()
        await second.close()
        return found

    return run(go())


def test_two_chats_side_by_side_come_back_at_the_next_start(run, act, library, model, profile, three):
    one, two, _ = three
    act(*(lambda tab=tab, name=name: tab.rename(name) for tab, name in zip(three, "ABC", strict=True)))
    act(*(lambda tab=tab: tab.composer.set_text("A draft") for tab in three))
    act(lambda: library.show_beside(two.id))
    assert restart(run, library, model, profile) == ("A", "B", 2)
    act(lambda: library.select(two.id))
    assert restart(run, library, model, profile) == ("B", "A", 2)
    act(lambda: library.show_beside(None))
    assert restart(run, library, model, profile) == ("B", None, 1)
    act(lambda: library.show_beside(one.id), lambda: library.close_tab(one.id))
    assert restart(run, library, model, profile) == ("B", None, 1)


def test_another_tab_takes_the_place_of_the_current_one(act, library, three):
    a, b, c = three
    act(lambda: library.show_beside(b.id), lambda: library.select(c.id))
    assert (library.current, library.beside) == (c, b)
    assert shown(library) == [b, c]
    act(lambda: library.show_beside(None))
    assert shown(library) == [c]
    assert not a.shown


def test_the_current_tab_goes_aside_for_its_neighbour(act, library, three):
    a, b, c = three
    act(lambda: library.show_beside(a.id))
    assert (library.current, library.beside) == (b, a)
    act(lambda: library.select(c.id), lambda: library.show_beside(c.id))
    assert (library.current, library.beside) == (b, c)


def test_the_only_tab_goes_aside_for_a_fresh_chat(act, library):
    only = library.current
    act(lambda: library.show_beside(only.id))
    assert library.beside is only
    assert library.current is library.tabs[1]


@pytest.mark.parametrize("which", ["current", "beside"])
def test_closing_one_of_the_two_leaves_the_other_alone_in_sight(act, library, three, which):
    a, b, _ = three
    act(lambda: library.show_beside(b.id))
    changes = []
    library.beside_changed.connect(lambda: changes.append(library.beside))
    act(lambda: library.close_tab((a if which == "current" else b).id))
    assert library.beside is None
    assert library.current is (b if which == "current" else a)
    assert changes == [None]
    assert shown(library) == [library.current]


def test_an_answer_beside_is_seen_and_one_behind_is_not(run, until, scheduler, library, three):
    _, b, c = three
    ended = []
    library.answered.connect(ended.append)

    async def go():
        library.show_beside(b.id)
        for chat in (b, c):
            scheduler.scripts.append(Script())
            ask(chat, "one")
            await until(lambda chat=chat: not chat.answering)
        await library._journal.flush()

    run(go())
    assert (b.unread, c.unread) == (False, True)
    assert ended == [b.id, c.id]


def test_a_stopped_answer_is_not_told(run, until, scheduler, library):
    ended = []
    library.answered.connect(ended.append)

    async def go():
        ask(library.current, "one")
        await until(lambda: scheduler.live)
        library.current.stop()
        await until(lambda: not library.current.answering)

    run(go())
    assert ended == []
