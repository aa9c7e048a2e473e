"""Names, pins and folders of the list of chats."""

import pytest

from app.settings import Generation
from app.state.library import Library
from tests.fakes import Script


def ask(chat, text):
    chat.composer.set_text(text)
    chat.composer.send()


def listed(library):
    return [(entry.title, entry.pinned, entry.folder) for entry in library.entries]


@pytest.fixture
def three(run, until, scheduler, library):
    """Three chats; the first is closed."""

    async def go():
        for text in ("one", "two", "three"):
            chat = library.current if text == "one" else library.new_chat()
            scheduler.scripts.append(Script())
            ask(chat, text)
            await until(lambda chat=chat: not chat.answering)
        library.close_tab(library.tabs[0].id)
        await library._journal.flush()

    run(go())
    return [entry.id for entry in reversed(library.entries)]


@pytest.fixture
def again(run, library, model, profile):
    """What another start of the program lists."""

    def again():
        async def go():
            await library._journal.flush()
            second = Library(profile, model, Generation)
            await second.restore()
            found = listed(second)
            await second.end_answers()
            await second.close()
            return found

        return run(go())

    return again


def test_names_pins_and_folders_are_kept_for_open_and_closed_chats(run, until, again, library, scheduler, three):
    one, two, three = three

    async def go():
        library.rename(one, " Oven ")
        library.rename(two, "Door")
        library.rename(three, "  ")
        library.pin(one, True)
        library.file(one, "House")
        library.file(two, " House ")
        scheduler.scripts.append(Script())
        chat = next(tab for tab in library.tabs if tab.id == two)
        ask(chat, "more")
        await until(lambda: not chat.answering)

    run(go())
    expected = [("Door", False, "House"), ("three", False, None), ("Oven", True, "House")]
    assert listed(library) == expected
    assert library.folders == ("House",)
    assert again() == expected


def test_a_folder_is_renamed_joined_and_removed_with_all_its_chats(run, again, library, three):
    one, two, _ = three

    async def go():
        library.file(one, "House")
        library.file(two, "garden")
        library.rename_folder("House", "Home")
        assert library.folders == ("garden", "Home")
        library.rename_folder("Home", "garden")
        library.rename_folder("garden", None)

    run(go())
    assert library.folders == ()
    assert again() == [("three", False, None), ("two", False, None), ("one", False, None)]


def test_a_fork_stays_in_the_folder(run, library, three):
    async def go():
        chat = library.tabs[-1]
        library.file(chat.id, "House")
        chat.fork(chat.turns[0].id)
        await library._journal.flush()

    run(go())
    assert ("three (2)", False, "House") in listed(library)


def test_unknown_chats_are_left_alone(library):
    library.rename("unknown", "x")
    library.pin("unknown", True)
    library.file("unknown", "x")
    assert library.entries == ()
