import asyncio
import gc
import random
import time
import weakref
from collections.abc import Callable

import pytest
from PIL import Image

from app.settings import Generation
from app.state import journal
from app.state import library as module
from app.state.library import Library
from app.storage import media
from app.storage.schema import Version
from tests.fakes import Script


def ask(chat, text):
    chat.composer.set_text(text)
    chat.composer.send()


def titles(library):
    return [entry.title for entry in library.entries]


async def leave(library):
    await library.end_answers()
    await library.close()


@pytest.fixture
def visit(run, model, profile):
    """Open the profile's library, do something with it, close it: one run of the program."""

    def visit(work: Callable):
        async def go():
            library = Library(profile, model, Generation)
            await library.restore()
            try:
                return await work(library)
            finally:
                await leave(library)

        return run(go())

    return visit


def test_a_fresh_profile_shows_one_fresh_chat_and_an_empty_list(library):
    assert library.tabs == [library.current]
    assert library.entries == ()
    assert library.current.title == "New chat"


def test_a_chat_appears_in_the_list_with_its_first_words_and_newest_first(run, until, library, scheduler):
    scheduler.scripts.extend([Script(), Script(), Script()])

    async def go():
        first = library.current
        ask(first, "one")
        second = library.new_chat()
        ask(second, "two")
        await until(lambda: not first.answering and not second.answering)
        assert titles(library) == ["two", "one"]
        ask(first, "again")
        await until(lambda: not first.answering)

    run(go())
    assert titles(library) == ["one", "two"]


def test_tabs_drafts_and_answers_are_there_after_a_restart(visit, until, scheduler, tmp_path):
    Image.new("RGB", (40, 30)).save(tmp_path / "oven.png")
    scheduler.scripts.append(Script(["The seal."]))

    async def first(library):
        kitchen = library.current
        kitchen.composer.add_files([tmp_path / "oven.png"])
        await until(lambda: kitchen.composer.can_send)
        ask(kitchen, "What is wrong?")
        await until(lambda: not kitchen.answering)
        kitchen.rename("Kitchen")
        draft = library.new_chat()
        draft.composer.set_text("half a thou")
        draft.composer.add_files([tmp_path / "oven.png"])
        await until(lambda: draft.composer.can_send)
        library.new_chat()
        library.move_tab(1, 0)
        library.select(kitchen.id)

    async def second(library):
        draft, kitchen = library.tabs
        assert library.current is kitchen
        assert (kitchen.title, kitchen.unread) == ("Kitchen", False)
        assert [(turn.text, turn.state) for turn in kitchen.turns] == [
            ("What is wrong?", "done"),
            ("The seal.", "done"),
        ]
        [item] = kitchen.turns[0].attachments
        assert (item.name, item.width, item.path.exists(), item.thumbnail[:4]) == ("oven.png", 40, True, b"\x89PNG")
        assert kitchen.turns[1].facts.completion_tokens == 1
        assert draft.composer.text == "half a thou"
        assert [chip.name for chip in draft.composer.chips] == ["oven.png"]
        scheduler.scripts.append(Script(["Left."]))
        ask(kitchen, "Which side?")
        await until(lambda: not kitchen.answering)
        assert [len(message["content"]) for message in scheduler.sent[-1].messages] == [2, 1, 1]

    visit(first)
    (tmp_path / "oven.png").unlink()
    visit(second)


def test_after_a_crash_the_half_answer_is_there_marked_as_cut(run, until, model, scheduler, profile, monkeypatch):
    monkeypatch.setattr(journal, "_SOON_MS", 20)

    async def go():
        dying = Library(profile, model, Generation)
        await dying.restore()
        ask(dying.current, "one")
        await until(lambda: scheduler.live)
        scheduler.live[0].say("half an ans")
        ask(dying.current, "still waiting")
        await until(lambda: dying.current.turns[1].text)
        await until(lambda: not dying._journal._latest and not dying._journal._ordered)
        await dying._database.run(lambda _: None)
        after = Library(profile, model, Generation)  # nothing of the first one was ended or closed
        await after.restore()
        seen = [(turn.text, turn.state) for turn in after.current.turns]
        draft = after.current.composer.text
        await leave(after)
        dying._journal.abandon()
        await leave(dying)
        return seen, draft

    seen, draft = run(go())
    assert seen == [("one", "done"), ("half an ans", "cut")]
    assert draft == "still waiting"


def test_a_streaming_answer_is_committed_at_most_once_a_second(run, until, library, scheduler, monkeypatch):
    commits = []
    original = library._database.run
    monkeypatch.setattr(library._database, "run", lambda work: commits.append(work) or original(work))

    async def go():
        ask(library.current, "one")
        await until(lambda: scheduler.live and not library._journal._ordered and not library._journal._lock.locked())
        before, start = len(commits), time.monotonic()
        for _ in range(200):
            scheduler.live[0].say("word ")
            await until(lambda: scheduler.live[0].queue.empty())
        streamed, took = len(commits) - before, time.monotonic() - start
        scheduler.live[0].end()
        await until(lambda: not library.current.answering)
        return streamed, took

    streamed, took = run(go())
    assert streamed <= took


def test_quitting_while_it_streams_keeps_the_half_answer(visit, until, scheduler):
    async def first(library):
        ask(library.current, "one")
        await until(lambda: scheduler.live)
        scheduler.live[0].say("half")
        await until(lambda: library.current.turns[1].text)

    async def second(library):
        return [(turn.text, turn.state) for turn in library.current.turns]

    visit(first)
    assert scheduler.live == []
    assert visit(second) == [("one", "done"), ("half", "cut")]


def test_a_question_that_lost_its_answer_gets_one_to_retry_from(run, until, visit, scheduler):
    scheduler.scripts.extend([Script(["lost"]), Script(["found"])])

    async def first(library):
        ask(library.current, "one")
        await until(lambda: not library.current.answering)
        answer = library.current.turns[1].id
        await library._journal.flush()
        await library._database.run(lambda c: c.execute("DELETE FROM turns WHERE id = ?", (answer,)))

    async def second(library):
        chat = library.current
        assert [(turn.text, turn.state) for turn in chat.turns] == [("one", "done"), ("", "cut")]
        assert not chat.unread
        chat.retry(chat.turns[1].id)
        await until(lambda: not chat.answering)
        assert chat.turns[1].text == "found"

    visit(first)
    visit(second)


def test_closing_a_tab_aborts_only_it_and_keeps_what_it_said(run, until, library, scheduler):
    async def go():
        first, second = library.current, library.new_chat()
        for chat in (first, second):
            ask(chat, chat.id)
        await until(lambda: len(scheduler.live) == 2)
        mine, other = scheduler.live
        mine.say("half")
        await until(lambda: first.turns[1].text)
        library.close_tab(first.id)
        await until(lambda: mine.ended)
        assert (mine.ended, other.ended) == ("abort", None)
        assert library.tabs == [second]
        other.say("whole")
        other.end()
        await until(lambda: not second.answering)
        library.open(first.id)
        await until(lambda: library.current.id == first.id)
        assert [(turn.text, turn.state) for turn in library.current.turns][1] == ("half", "stopped")
        assert second.turns[1].text == "whole"

    run(go())


def test_closing_the_last_tab_opens_a_fresh_chat(run, library):
    old = library.current
    library_ids = []
    library.current_changed.connect(library_ids.append)

    async def go():
        library.close_tab(old.id)

    run(go())
    assert len(library.tabs) == 1
    assert library.current is library.tabs[0]
    assert library.current is not old
    assert library_ids == [library.current.id]


def test_closing_the_shown_tab_shows_its_neighbour(run, library):
    async def go():
        a, b, c = library.current, library.new_chat(), library.new_chat()
        library.select(b.id)
        library.close_tab(b.id)
        assert library.current is c
        library.close_tab(c.id)
        assert library.current is a

    run(go())


def test_a_chat_whose_draft_was_emptied_leaves_no_trace(run, visit):
    async def first(library):
        library.current.composer.set_text("never mind")
        assert titles(library) == ["New chat"]
        library.current.composer.set_text("")
        library.close_tab(library.current.id)
        assert library.entries == ()

    async def second(library):
        return library.entries

    visit(first)
    assert visit(second) == ()


def test_opening_a_listed_chat_replaces_an_untouched_fresh_one(run, until, library, scheduler):
    scheduler.scripts.append(Script())

    async def go():
        first = library.current
        ask(first, "one")
        await until(lambda: not first.answering)
        library.close_tab(first.id)
        library.open(first.id)
        library.open(first.id)
        await until(lambda: library.current.id == first.id)
        assert [tab.id for tab in library.tabs] == [first.id]
        library.open("unknown")

    run(go())


def test_deleting_takes_one_chat_and_undo_brings_it_back_with_its_tab(run, until, visit, scheduler):
    scheduler.scripts.extend([Script(["a"]), Script(["b"])])

    async def first(library):
        told = []
        library.deleted.connect(told.append)
        one, two = library.current, library.new_chat()
        for chat, text in ((one, "one"), (two, "two")):
            ask(chat, text)
        await until(lambda: not one.answering and not two.answering)
        library.delete(one.id)
        assert (told, titles(library), library.tabs) == (["one"], ["two"], [two])
        library.undo_delete()
        library.undo_delete()
        await until(lambda: library.current.id == one.id)
        assert [turn.text for turn in library.current.turns] == ["one", "a"]
        assert titles(library) == ["two", "one"]
        library.delete(two.id)

    async def second(library):
        return titles(library)

    visit(first)
    assert visit(second) == ["one"]


def test_deleting_a_chat_that_answers_aborts_it_and_no_other(run, until, library, scheduler):
    async def go():
        one, two = library.current, library.new_chat()
        for chat in (one, two):
            ask(chat, chat.id)
        await until(lambda: len(scheduler.live) == 2)
        mine, other = scheduler.live
        library.delete(one.id)
        await until(lambda: mine.ended)
        assert other.ended is None
        other.say("whole")
        other.end()
        await until(lambda: not two.answering)
        assert two.turns[1].state == "done"

    run(go())


def test_closing_while_streaming_fifty_times_leaves_nothing_behind(run, until, library, scheduler):
    async def go():
        dice = random.Random(1)
        for _ in range(50):
            chat = library.new_chat()
            ask(chat, "go")
            for _ in range(dice.randrange(4)):
                for request in scheduler.live:
                    request.say("word ")
                await asyncio.sleep(0)
            library.close_tab(chat.id)
        await until(lambda: not library._closing)

    run(go())
    assert scheduler.live == []
    assert scheduler.kept == []
    assert len(library.tabs) == 1


def test_a_library_of_a_newer_braid_is_told_and_the_session_works_without_it(
    run, until, model, scheduler, profile, records
):
    records.expect("The library cannot be opened")
    scheduler.scripts.append(Script(["here"]))

    async def prepare():
        library = Library(profile, model, Generation)
        await library.restore()
        await library._database.run(lambda c: c.execute(f"PRAGMA user_version = {Version(99, 0).packed}"))
        await leave(library)

    async def go():
        library = Library(profile, model, Generation)
        told = []
        library.current.composer.notice.connect(told.append)
        await library.restore()
        ask(library.current, "one")
        await until(lambda: not library.current.answering)
        text = library.current.turns[1].text
        await leave(library)
        return told, text

    run(prepare())
    told, text = run(go())
    assert len(told) == 1
    assert "newer Braid" in told[0]
    assert text == "here"


def test_media_nobody_shows_any_more_are_deleted_at_the_next_start(visit, until, profile, tmp_path, monkeypatch):
    for name, color in (("keep.png", "red"), ("drop.png", "blue")):
        Image.new("RGB", (8, 8), color).save(tmp_path / name)

    async def first(library):
        chat = library.current
        chat.composer.add_files([tmp_path / "keep.png", tmp_path / "drop.png"])
        await until(lambda: chat.composer.can_send)
        chat.composer.remove(chat.composer.chips[1].id)

    async def second(library):
        await library._tasks.join()
        return [chip.attachment.path.exists() for chip in library.current.composer.chips]

    visit(first)
    assert len(list((profile / "media").iterdir())) == 4
    monkeypatch.setattr("app.storage.media._SETTLED_S", -10.0)
    assert visit(second) == [True]
    assert len(list((profile / "media").iterdir())) == 2


def test_words_typed_while_the_library_is_read_stay_in_front(run, visit, model, profile):
    async def first(library):
        library.current.composer.set_text("from last time")

    async def go():
        library = Library(profile, model, Generation)
        library.current.composer.set_text("typed at once")
        await library.restore()
        texts = [tab.composer.text for tab in library.tabs]
        current = library.current.composer.text
        await leave(library)
        return texts, current

    visit(first)
    assert run(go()) == (["from last time", "typed at once"], "typed at once")


def test_sql_runs_on_no_other_thread_than_the_storage_s(visit, until, scheduler, monkeypatch):
    """The window's thread never waits for the disk."""
    import threading

    threads = set()

    def watched(function):
        def call(connection, *args, **kwargs):
            threads.add(threading.current_thread().name)
            return function(connection, *args, **kwargs)

        return call

    for name in ("put_conversation", "put_turn", "put_draft", "put_tabs", "load_conversation", "set_deleted"):
        monkeypatch.setattr(module.rows, name, watched(getattr(module.rows, name)))
    scheduler.scripts.append(Script())

    async def work(library):
        chat = library.current
        ask(chat, "one")
        await until(lambda: not chat.answering)
        library.close_tab(chat.id)
        library.open(chat.id)
        await until(lambda: library.current.id == chat.id)
        library.delete(chat.id)

    visit(work)
    assert threads == {"storage_0"}


def test_a_media_folder_that_cannot_be_tidied_is_no_trouble_for_anybody(visit, loop, monkeypatch):
    trouble = []
    loop.set_exception_handler(lambda _, context: trouble.append(context))

    async def leave_something(library):
        library._media.add("old", ".png", b"x")

    async def come_back(library):
        await library._tasks.join()
        return library._media.folder

    visit(leave_something)
    monkeypatch.setattr(media, "_SETTLED_S", -1.0)
    with monkeypatch.context() as locked:
        locked.setattr(media.Path, "unlink", denied)
        folder = visit(come_back)
    assert not trouble
    assert (folder / "old.png").exists()
    visit(come_back)
    assert not (folder / "old.png").exists()


def denied(*_, **__):
    raise PermissionError(13, "Permission denied")


def test_a_closed_chat_gives_its_memory_back(run, until, library, scheduler):
    scheduler.scripts.append(Script())

    async def go():
        chat = library.new_chat()
        ask(chat, "one")
        await until(lambda: not chat.answering)
        library.close_tab(chat.id)
        await until(lambda: not library._closing)
        return weakref.ref(chat)

    async def gone():
        await until(lambda: gc.collect() >= 0 and closed() is None)

    closed = run(go())
    run(gone())
