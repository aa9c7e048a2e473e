import asyncio
import threading

import pytest

from app.state.forecast import Cost, Speed
from engine.errors import MediaError
from tests.app import files
from tests.fakes import Script


def ask(chat, text):
    chat.composer.set_text(text)
    chat.composer.send()


@pytest.fixture
def chat(library):
    return library.current


def priced(chat):
    return lambda: chat.composer.cost is not None


def test_a_draft_is_priced_a_moment_after_it_changed_with_each_attachment(run, until, chat, tmp_path):
    async def go():
        chat.composer.set_text("What is it?")
        chat.composer.add_files([files.picture(tmp_path / "a.png")])
        assert chat.composer.cost is None
        await until(priced(chat))

    run(go())
    [chip] = chat.composer.chips
    cost = chat.composer.cost
    assert (cost.tokens, cost.media_tokens, cost.context) == (10 + 3 + 100, 100, 1000)
    assert (cost.parts, chip.attachment.tokens) == ({chip.attachment.id: 100}, 100)
    assert cost.seconds is None  # nothing was measured yet


def test_only_the_last_of_many_changes_is_priced(run, until, scheduler, chat):
    async def go():
        for number in range(30):
            chat.composer.set_text("word " * (number + 1))
            await asyncio.sleep(0.002)
        await until(priced(chat))

    run(go())
    assert chat.composer.cost.tokens == 40
    assert len(scheduler.estimated) == 1


def test_the_chat_so_far_and_waiting_messages_count(run, until, scheduler, chat):
    scheduler.scripts.append(Script(("one two",)))

    async def go():
        ask(chat, "a b c")
        await until(lambda: not chat.answering)
        ask(chat, "d e")
        await until(lambda: scheduler.live)
        ask(chat, "f")
        chat.composer.set_text("g")
        await until(priced(chat))
        scheduler.live[0].end()
        await until(lambda: len(scheduler.live) == 1)
        scheduler.live[0].end()
        await until(lambda: not chat.answering)

    run(go())
    # Three questions and one answer before, and the draft.
    assert sorted(len(messages) for messages in scheduler.estimated)[-1] >= 5


def test_a_draft_over_the_context_says_what_to_remove(run, until, scheduler, chat, tmp_path):
    scheduler.context_limit = 150

    async def go():
        chat.composer.set_text("Compare.")
        chat.composer.add_files([files.picture(tmp_path / f"{name}.png", (8, 8 + i)) for i, name in enumerate("abc")])
        await until(priced(chat))

    run(go())
    obstacle = chat.composer.obstacle
    assert "This takes 311 tokens, but Pocket reads fewer than 150" in obstacle.sentence
    assert "Remove 2 attachments" in obstacle.sentence
    assert not chat.composer.can_send
    chat.composer.remove(*obstacle.remove)
    assert chat.composer.can_send


def test_words_over_the_context_can_only_be_shortened(run, until, scheduler, chat):
    scheduler.context_limit = 20

    async def go():
        chat.composer.set_text("word " * 50)
        await until(priced(chat))

    run(go())
    assert chat.composer.obstacle.sentence.endswith("Shorten the message, or start a new chat.")
    assert chat.composer.obstacle.remove == ()


def test_a_text_of_millions_of_words_is_counted_only_until_it_is_too_much(run, until, scheduler, chat):
    scheduler.context_limit = 30_000

    async def go():
        chat.composer.add_text("word " * 900_000)
        await until(priced(chat))

    run(go())
    cost = chat.composer.cost
    assert (cost.at_least, cost.tokens) == (True, 40_000)
    assert "This takes more than 40,000 tokens" in chat.composer.obstacle.sentence
    assert chat.composer.obstacle.remove == (chat.composer.chips[0].id,)


def test_what_the_engine_has_against_a_draft_is_told_at_once_and_keeps_nobody_from_sending(run, until, scheduler, chat):
    estimate = scheduler.estimate

    def fails(messages, **options):
        raise MediaError("It is gone.")

    scheduler.estimate = fails

    async def go():
        chat.composer.set_text("What is it?")
        await until(lambda: chat.composer.obstacle)
        assert (chat.composer.obstacle.sentence, chat.composer.cost, chat.composer.can_send) == (
            "It is gone.",
            None,
            True,
        )
        scheduler.estimate = estimate
        chat.composer.set_text("What is it")
        await until(priced(chat))
        assert chat.composer.obstacle is None

    run(go())


def test_pricing_leaves_the_windows_thread_alone(run, until, scheduler, chat):
    threads = []
    estimate = scheduler.estimate

    def slow(messages, **options):
        threads.append(threading.current_thread().name)
        threading.Event().wait(0.05)
        return estimate(messages, **options)

    scheduler.estimate = slow

    async def go():
        chat.composer.set_text("What is it?")
        await until(priced(chat))

    run(go())
    assert all(name.startswith("media") for name in threads)


def test_without_a_model_nothing_is_priced(run, model, chat):
    model.status = "loading"

    async def go():
        chat.composer.set_text("What is it?")
        await asyncio.sleep(0.3)

    run(go())
    assert chat.composer.cost is None
    model.status = "ready"


def test_seconds_come_from_what_was_measured():
    nothing = Speed.measured({"batch_generator": {"prompt_tps": 0.0, "vision_time": 0.0, "num_images_processed": 0}})
    assert nothing.seconds(100, 0) is None
    words = Speed.measured({"batch_generator": {"prompt_tps": 50.0, "vision_time": 0.0, "num_images_processed": 0}})
    assert words.seconds(100, 0) == 2.0
    assert words.seconds(100, 1) is None
    both = Speed.measured({"batch_generator": {"prompt_tps": 50.0, "vision_time": 3.0, "num_images_processed": 2}})
    assert both.seconds(100, 2) == 5.0
    assert both.seconds(100, None) is None


def test_the_model_needs_room_for_a_word():
    assert Cost(99, 100, 0, 0, 0, {}, None).fits
    assert not Cost(100, 100, 0, 0, 0, {}, None).fits
