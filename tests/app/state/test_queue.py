import pytest

from app.settings import Generation
from app.state.library import Library
from tests.app import files


def ask(chat, text):
    chat.composer.set_text(text)
    chat.composer.send()


@pytest.fixture
def chat(library):
    return library.current


def words(turns):
    return [turn.text for turn in turns]


def test_messages_sent_while_it_answers_wait_and_can_be_changed_moved_and_taken_back(run, until, scheduler, chat):
    async def go():
        ask(chat, "first")
        await until(lambda: scheduler.live)
        for text in ("second", "third", "fourth"):
            ask(chat, text)
        queue = chat.queue
        assert words(queue.waiting) == ["second", "third", "fourth"]
        second, third, fourth = (turn.id for turn in queue.waiting)
        queue.move(fourth, 0)
        queue.edit(second, "second, please")
        queue.cancel(third)
        queue.move(second, 7)
        assert words(queue.waiting) == ["fourth", "second, please"]
        for _ in range(3):
            await until(lambda: scheduler.live)
            scheduler.live[0].say("yes")
            scheduler.live[0].end()
        await until(lambda: not chat.answering)

    run(go())
    asked = [request.messages[-1]["content"][-1]["text"] for request in scheduler.sent]
    assert asked == ["first", "fourth", "second, please"]
    assert words(turn for turn in chat.turns if turn.role == "user") == asked
    assert chat.queue.waiting == ()


def test_a_first_message_that_waits_for_the_model_is_no_part_of_the_queue(run, until, scheduler, model, chat):
    async def go():
        model.status = "loading"
        model._settled.clear()
        ask(chat, "first")
        ask(chat, "second")
        assert words(chat.queue.waiting) == ["second"]
        chat.queue.cancel(chat.queue.waiting[0].id)
        model.status = "ready"
        model._settled.set()
        await until(lambda: scheduler.live)
        scheduler.live[0].end()
        await until(lambda: not chat.answering)

    run(go())
    assert [turn.text for turn in chat.turns if turn.role == "user"] == ["first"]


def test_without_words_a_waiting_message_keeps_its_picture_or_goes(run, until, scheduler, chat, tmp_path):
    async def go():
        ask(chat, "first")
        await until(lambda: scheduler.live)
        chat.composer.add_files([files.picture(tmp_path / "a.png")])
        await until(lambda: chat.composer.can_send)
        ask(chat, "with a picture")
        ask(chat, "only words")
        pictured, bare = (turn.id for turn in chat.queue.waiting)
        chat.queue.edit(pictured, "")
        chat.queue.edit(bare, "  ")
        assert [(turn.text, len(turn.attachments)) for turn in chat.queue.waiting] == [("", 1)]
        chat.queue.cancel(pictured)
        scheduler.live[0].end()
        await until(lambda: not chat.answering)

    run(go())


def test_the_order_of_waiting_messages_outlives_a_crash(run, until, scheduler, library, model, profile, chat):
    async def go():
        ask(chat, "first")
        await until(lambda: scheduler.live)
        for text in ("second", "third", "fourth"):
            ask(chat, text)
        chat.queue.move(chat.queue.waiting[2].id, 0)
        chat.queue.edit(chat.queue.waiting[1].id, "second, please")
        await library._journal.flush()
        again = Library(profile, model, Generation)
        await again.restore()
        text = again.current.composer.text
        await again.end_answers()
        await again.close()
        for turn in chat.queue.waiting:
            chat.queue.cancel(turn.id)
        scheduler.live[0].end()
        await until(lambda: not chat.answering)
        return text

    assert run(go()) == "fourth\n\nsecond, please\n\nthird"
