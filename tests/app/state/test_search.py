import asyncio

import pytest

from app.state.search import Search
from app.state.tasks import Tasks
from app.storage.database import StorageError
from app.storage.search import Found
from tests.fakes import Script


def ask(chat, text):
    chat.composer.set_text(text)
    chat.composer.send()


class Index:
    """Finds when the test says so."""

    def __init__(self):
        self.asked = []
        self.go = asyncio.Event()
        self.error = None

    async def __call__(self, words):
        self.asked.append(words)
        await self.go.wait()
        if self.error is not None:
            raise self.error
        return [Found(words)]


@pytest.fixture
def index(loop):
    return Index()


@pytest.fixture
def search(index):
    return Search(index, Tasks())


def test_typing_on_searches_once_for_the_last_words(run, until, index, search):
    async def go():
        for text in ("o", "ov", "  oven   door "):
            search.seek(text)
        index.go.set()
        await until(lambda: search.found)

    run(go())
    assert index.asked == ["oven door"]
    assert (search.words, search.found) == ("oven door", (Found("oven door"),))


def test_words_typed_while_it_looks_take_the_place_of_the_old_ones(run, until, index, search):
    seen = []
    search.changed.connect(lambda: seen.append(search.words))

    async def go():
        search.seek("oven")
        await until(lambda: index.asked)
        search.seek("door")
        index.go.set()
        await until(lambda: search.words == "door")
        search.seek("door ")
        search.seek("")

    run(go())
    assert seen == ["door", ""]
    assert search.found == ()


def test_a_library_that_cannot_be_searched_says_why(run, until, index, search):
    index.error = StorageError("The library is damaged.")

    async def go():
        search.seek("oven")
        index.go.set()
        await until(lambda: search.words)

    run(go())
    assert (search.found, search.error) == ((), "The library is damaged.")


def test_an_answer_that_has_just_ended_is_found_and_opened_at_its_turn(run, until, scheduler, library):
    async def go():
        chat = library.current
        scheduler.scripts.extend([Script(["The seal is torn."]), Script(["Nothing."])])
        ask(chat, "What is wrong?")
        await until(lambda: not chat.answering)
        hidden = chat.turns[1]
        chat.retry(hidden.id)
        await until(lambda: not chat.answering)
        library.search.seek("torn SEAL")
        await until(lambda: library.search.found)
        assert library.search.found == (Found(chat.id, hidden.id, "The seal is torn."),)
        library.close_tab(chat.id)
        library.open(chat.id, hidden.id)
        await until(lambda: library.current.id == chat.id)
        assert library.current.turns[1].text == "The seal is torn."
        revealed = []
        library.current.revealed.connect(revealed.append)
        library.open(chat.id, hidden.id)
        assert revealed == [hidden.id]

    run(go())
