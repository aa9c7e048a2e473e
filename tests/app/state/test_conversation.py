import asyncio
from pathlib import Path

import pytest
from PIL import Image

from app.presets import Sampling
from app.settings import Generation
from app.state.conversation import Conversation
from app.state.library import Library
from app.state.model import Model
from engine.config import MLLMSchedulerConfig
from engine.errors import ModelLoadError
from engine.request import Phase
from tests.fakes import FakeLoader, FakeScheduler, Script


@pytest.fixture
def chat(library) -> Conversation:
    return library.current


def ask(chat, text):
    chat.composer.set_text(text)
    chat.composer.send()


def told(chat):
    return [(turn.role, turn.text, turn.state) for turn in chat.turns]


def idle(chat):
    return lambda: not chat.answering


def test_an_answer_streams_into_one_turn_and_ends_with_its_facts(run, until, scheduler, chat):
    changes = []

    async def go():
        ask(chat, "What is wrong?")
        await until(lambda: scheduler.live)
        [request] = scheduler.live
        chat.turn_changed.connect(changes.append)
        for piece in ("The ", "seal ", "is torn."):
            request.say(piece)
        await until(lambda: chat.turns[-1].text == "The seal is torn.")
        assert chat.turns[-1].state == "live"
        request.end()
        await until(idle(chat))

    run(go())
    question, answer = chat.turns
    assert told(chat) == [("user", "What is wrong?", "done"), ("assistant", "The seal is torn.", "done")]
    assert answer.parent_id == question.id
    assert (answer.facts.completion_tokens, answer.facts.finish_reason) == (3, "stop")
    assert answer.facts.ttft_s > 0
    assert changes.count(answer.id) >= 3
    assert (chat.phase, chat.activity) == (None, "")
    assert scheduler.kept == []


def test_the_model_gets_the_whole_branch_and_the_chosen_sampling(run, until, scheduler, chat, tmp_path):
    Image.new("RGB", (8, 8)).save(tmp_path / "oven.png")
    scheduler.scripts.extend([Script(["The seal."]), Script(["Left."])])

    async def go():
        chat.composer.add_files([tmp_path / "oven.png"])
        await until(lambda: chat.composer.can_send)
        ask(chat, "What is wrong?")
        await until(idle(chat))
        (tmp_path / "oven.png").unlink()
        ask(chat, "Which side?")
        await until(idle(chat))

    run(go())
    request = scheduler.sent[-1]
    picture, words = request.messages[0]["content"]
    assert [message["role"] for message in request.messages] == ["user", "assistant", "user"]
    assert picture["type"] == "image"
    assert Path(picture["image"]).exists()
    assert words["text"] == "What is wrong?"
    assert request.options == Generation().options()
    assert request.options["max_tokens"] is None


def test_a_chat_s_own_prompt_and_sampling_hold_from_the_next_answer_on(run, until, scheduler, library, chat):
    scheduler.scripts.extend([Script(["one"]), Script(["two"])])
    sampling = Sampling(temperature=0.0, thinking=True)
    changes = []
    chat.instructed.connect(lambda: changes.append(chat.system_prompt))

    async def go():
        ask(chat, "one")
        await until(idle(chat))
        for _ in range(2):
            chat.instruct("Answer in French.", sampling)
        ask(chat, "two")
        await until(idle(chat))
        library.new_chat()
        library.close_tab(chat.id)
        library.open(chat.id)
        await until(lambda: library.current.id == chat.id)

    run(go())
    assert changes == ["Answer in French."]
    assert scheduler.sent[0].messages[0]["role"] == "user"
    assert scheduler.sent[1].messages[0] == {"role": "system", "content": "Answer in French."}
    assert scheduler.sent[1].options["temperature"] == 0.0
    assert scheduler.sent[1].options["template_options"] == {"enable_thinking": True}
    assert (library.current.system_prompt, library.current.sampling) == ("Answer in French.", sampling)


def test_turns_sent_while_it_answers_wait_and_follow_in_order(run, until, scheduler, chat):
    async def go():
        ask(chat, "one")
        await until(lambda: scheduler.live)
        ask(chat, "two")
        ask(chat, "three")
        assert [state for _, _, state in told(chat)] == ["done", "live", "queued", "queued"]
        for text in ("first", "second", "third"):
            await until(lambda: scheduler.live)
            [request] = scheduler.live
            request.say(text)
            request.end()
            await until(lambda request=request: request.id not in scheduler.kept)
        await until(idle(chat))

    run(go())
    assert [text for _, text, _ in told(chat)] == ["one", "first", "two", "second", "three", "third"]
    assert {state for _, _, state in told(chat)} == {"done"}
    assert [turn.parent_id for turn in chat.turns[1:]] == [turn.id for turn in chat.turns[:-1]]


def test_stop_keeps_what_was_said_and_goes_on_with_the_next_question(run, until, scheduler, chat):
    async def go():
        ask(chat, "one")
        await until(lambda: scheduler.live)
        scheduler.live[0].say("half")
        ask(chat, "two")
        await until(lambda: chat.turns[1].text)
        scheduler.scripts.append(Script(["whole"]))
        chat.stop()
        await until(idle(chat))

    run(go())
    assert told(chat)[1] == ("assistant", "half", "stopped")
    assert told(chat)[3] == ("assistant", "whole", "done")
    assert scheduler.aborted == [scheduler.sent[0].id]


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        (Script([], "error", "oven.heic is damaged. Remove it."), "oven.heic is damaged. Remove it."),
        (Script(["half"], "error", "The step failed. Try again."), "The step failed. Try again."),
        (Script([]), "without a word"),
        (Script(["  \n"]), "without a word"),
    ],
)
def test_a_failure_ends_in_the_turn_with_a_sentence_and_is_never_sent_again(
    run, until, scheduler, chat, script, sentence
):
    scheduler.scripts.extend([script, Script(["fine"])])

    async def go():
        ask(chat, "one")
        await until(idle(chat))
        ask(chat, "two")
        await until(idle(chat))

    run(go())
    failed = chat.turns[1]
    assert failed.state == "failed"
    assert sentence in failed.error
    assert [message["role"] for message in scheduler.sent[1].messages] == ["user", "user"]


def test_a_request_that_is_refused_ends_in_the_turn(run, until, scheduler, chat):
    scheduler.refuse = "The prompt has 9000 tokens and 8000 fit. Shorten it."

    async def go():
        ask(chat, "one")
        await until(idle(chat))

    run(go())
    assert (chat.turns[1].state, chat.turns[1].error) == ("failed", scheduler.refuse)


def test_a_bug_in_the_engine_ends_in_the_turn_and_in_the_log(run, until, scheduler, chat, records, monkeypatch):
    records.expect("Answering failed")

    def broken(request_id):
        raise ZeroDivisionError

    monkeypatch.setattr(scheduler, "stream_outputs", broken)

    async def go():
        ask(chat, "one")
        await until(idle(chat))

    run(go())
    assert chat.turns[1].state == "failed"
    assert "ZeroDivision" not in chat.turns[1].error
    assert scheduler.live == []


def test_retry_replaces_the_failed_answer(run, until, scheduler, chat):
    scheduler.scripts.extend([Script([], "error", "No."), Script(["fine"])])

    async def go():
        ask(chat, "one")
        await until(idle(chat))
        failed = chat.turns[1].id
        chat.retry(chat.turns[0].id)
        chat.retry("unknown")
        chat.retry(failed)
        chat.retry(failed)
        await until(idle(chat))

    run(go())
    assert told(chat) == [("user", "one", "done"), ("assistant", "fine", "done")]
    assert chat.offers(chat.turns[1].id).variants == 1
    assert len(scheduler.sent) == 2


def test_the_first_words_title_the_chat_until_it_is_renamed(run, until, scheduler, chat):
    scheduler.scripts.extend([Script(), Script()])
    titles = []
    chat.title_changed.connect(titles.append)

    async def go():
        ask(chat, "What is wrong with the oven\nin the kitchen of my grandmother in Bern?")
        await until(idle(chat))
        chat.rename("  Kitchen ")
        ask(chat, "And now?")
        await until(idle(chat))
        chat.rename("")

    run(go())
    automatic = "What is wrong with the oven in the kitchen of my…"
    assert titles == [automatic, "Kitchen", automatic]


def test_a_picture_without_words_titles_the_chat_by_its_name(run, until, scheduler, chat, tmp_path):
    scheduler.scripts.append(Script())
    Image.new("RGB", (8, 8)).save(tmp_path / "oven.png")

    async def go():
        chat.composer.add_files([tmp_path / "oven.png"])
        await until(lambda: chat.composer.can_send)
        chat.composer.send()
        await until(idle(chat))

    run(go())
    assert chat.title == "oven.png"


def test_activity_tells_phase_and_speed_and_ends_with_the_answer(run, until, scheduler, chat):
    seen = []
    chat.activity_changed.connect(lambda: seen.append(chat.activity))

    async def go():
        ask(chat, "one")
        await until(lambda: scheduler.live)
        [request] = scheduler.live
        for phase, progress, detail, rate, activity in (
            (Phase.PREPARING, 0.0, "", None, "preparing"),
            (Phase.VISION, 0.5, "image 2 of 3", None, "image 2 of 3"),
            (Phase.PREFILL, 0.631, "", None, "prefill 63 %"),
            (Phase.GENERATION, 0.1, "", None, "answering"),
            (Phase.GENERATION, 0.2, "", 41.4, "41 tok/s"),
            (Phase.GENERATION, 0.2, "", 4.25, "4.2 tok/s"),
        ):
            request.phase, request.progress, request.detail, request.tokens_per_second = phase, progress, detail, rate
            await until(lambda activity=activity: chat.activity == activity)
            assert chat.phase is phase
            assert chat.tokens_per_second == rate
        request.say("Done.")
        request.end()
        await until(idle(chat))

    run(go())
    assert seen[0] == "queued"
    assert seen[-1] == ""


def test_an_answer_in_a_tab_that_is_not_shown_is_unread_until_it_is(run, until, scheduler, library):
    scheduler.scripts.append(Script())

    async def go():
        hidden = library.current
        ask(hidden, "one")
        library.new_chat()
        await until(idle(hidden))
        assert hidden.unread
        library.select(hidden.id)
        assert not hidden.unread

    run(go())


# --- a model that is not ready


@pytest.fixture
def loader(loop):
    return FakeLoader(FakeScheduler(), at_once=False)


@pytest.fixture
def loading(run, loader, profile):
    model = Model(Path("pocket"), MLLMSchedulerConfig(), loader)
    library = Library(profile, model, Generation)
    run(library.restore())
    yield library
    run(library.end_answers())
    run(library.close())


def test_a_question_waits_for_the_model(run, until, loader, loading):
    loader.scheduler.scripts.append(Script(["here"]))
    chat = loading.current

    async def go():
        load = asyncio.create_task(loading._room.model.load())
        ask(chat, "one")
        await asyncio.sleep(0)
        assert told(chat) == [("user", "one", "queued")]
        assert (chat.phase, chat.activity) == (Phase.QUEUED, "queued")
        loader.go.set()
        await load
        await until(idle(chat))

    run(go())
    assert told(chat) == [("user", "one", "done"), ("assistant", "here", "done")]


def test_a_model_that_cannot_be_loaded_fails_the_answer_with_its_sentence(run, until, loader, loading):
    loader.error = ModelLoadError("The folder holds no model. Choose another.")
    chat = loading.current

    async def go():
        ask(chat, "one")
        loader.go.set()
        await loading._room.model.load()
        await until(idle(chat))

    run(go())
    assert told(chat) == [("user", "one", "done"), ("assistant", "", "failed")]
    assert chat.turns[1].error == str(loader.error)


@pytest.mark.parametrize("turns_of_the_loop", [0, 1, 5])
def test_stop_before_the_model_is_ready_returns_the_question_to_the_draft(
    run, until, loader, loading, turns_of_the_loop
):
    chat = loading.current

    async def go():
        ask(chat, "one")
        for _ in range(turns_of_the_loop):
            await asyncio.sleep(0)
        ask(chat, "two")
        chat.stop()
        await until(idle(chat))

    run(go())
    assert chat.turns == []
    assert chat.composer.text == "one\n\ntwo"
    assert (chat.phase, chat.activity) == (None, "")


def test_stop_while_a_retry_waits_leaves_an_answer_to_retry_from(run, until, scheduler, chat, model):
    scheduler.scripts.append(Script([], "error", "No."))

    async def go():
        ask(chat, "one")
        await until(idle(chat))
        chat.retry(chat.turns[1].id)
        chat.stop()
        await until(idle(chat))

    run(go())
    assert told(chat) == [("user", "one", "done"), ("assistant", "", "stopped")]


def test_stop_at_the_very_end_changes_nothing(run, until, scheduler, chat):
    async def go():
        ask(chat, "one")
        await until(lambda: scheduler.live)
        ask(chat, "two")
        [request] = scheduler.live
        scheduler.scripts.append(Script(["second"]))
        request.say("whole")
        request.end()
        chat.stop()
        await until(idle(chat))

    run(go())
    assert [(text, state) for _, text, state in told(chat)][1::2] == [("whole", "done"), ("second", "done")]


def test_a_question_sent_between_the_last_answer_and_its_clean_up_is_answered(run, until, scheduler, chat):
    async def go():
        ask(chat, "one")
        await until(lambda: scheduler.live)
        task = chat._task
        scheduler.live[0].say("first")
        scheduler.live[0].end()
        while not task.done():  # noqa: ASYNC110 - the very next turn of the loop is wanted
            await asyncio.sleep(0)
        assert chat.answering
        scheduler.scripts.append(Script(["second"]))
        ask(chat, "two")
        await until(idle(chat))

    run(go())
    assert told(chat)[2:] == [("user", "two", "done"), ("assistant", "second", "done")]


def test_quitting_before_the_model_is_ready_loses_no_question(run, profile, loader):
    async def ask_and_quit():
        library = Library(profile, Model(Path("pocket"), MLLMSchedulerConfig(), loader), Generation)
        await library.restore()
        ask(library.current, "one")
        await library.end_answers()
        await library.close()

    async def start_again():
        library = Library(profile, Model(None, MLLMSchedulerConfig(), loader), Generation)
        await library.restore()
        text = library.current.composer.text
        await library.close()
        return text

    run(ask_and_quit())
    assert run(start_again()) == "one"


@pytest.fixture
def other(run, until, library, model, scheduler):
    """Two chats, one streaming and one still waiting for its first word, when the model is changed; the next
    question follows at once."""

    async def go():
        first = library.current
        ask(first, "one")
        await until(lambda: len(scheduler.live) == 1)
        second = library.new_chat()
        ask(second, "two")
        await until(lambda: len(scheduler.live) == 2)
        scheduler.sent[0].say("half an answer")
        await until(lambda: first.turns[-1].text)
        ask(first, "and this?")
        model.choose(Path("models/other"))
        await until(idle(second))
        await until(lambda: model.scheduler is not None and model.scheduler.sent)
        model.scheduler.sent[0].play(Script(["by the other"]))
        await until(idle(first))
        return first, second

    yield run(go())
    run(model.close())


def test_a_change_of_models_ends_answers_visibly_and_questions_wait_for_the_new_one(other, scheduler):
    first, second = other
    assert scheduler.stopped
    cut, answered = first.turns[1], first.turns[3]
    assert (cut.text, cut.state, cut.error) == ("half an answer", "cut", "The model was changed")
    assert (answered.text, answered.state) == ("by the other", "done")
    assert second.turns[-1].state == "failed"
    assert "model was changed before it could answer" in second.turns[-1].error


@pytest.mark.usefixtures("other")
def test_what_was_cut_by_the_change_is_told_to_the_next_model(model):
    [request] = model._load.scheduler.sent
    assert [message["content"][0]["text"] for message in request.messages] == ["one", "half an answer", "and this?"]


def test_a_question_asked_again_tells_what_the_model_of_now_does_not_see(run, until, scheduler, model, chat, tmp_path):
    notices = []
    chat.composer.notice.connect(notices.append)
    scheduler.scripts += [Script(), Script()]

    async def go():
        Image.new("RGB", (8, 8)).save(tmp_path / "oven.png")
        chat.composer.add_files([tmp_path / "oven.png"])
        await until(lambda: chat.composer.can_send)
        ask(chat, "What is it?")
        await until(idle(chat))
        assert notices == []
        model.takes = scheduler.takes = frozenset()
        chat.retry(chat.turns[1].id)
        await until(idle(chat))

    run(go())
    assert notices == ["Pocket cannot see pictures, so it answers without oven.png."]
    assert scheduler.sent[1].messages[0]["content"][0]["text"].startswith("[picture: oven.png]")


def test_a_text_whose_copy_is_gone_is_told_in_its_chat(run, until, scheduler, chat, tmp_path):
    (tmp_path / "note.txt").write_text("Dear diary")

    async def go():
        chat.composer.add_files([tmp_path / "note.txt"])
        await until(lambda: chat.composer.can_send)
        chat.composer.chips[0].attachment.path.unlink()
        ask(chat, "What is it?")
        await until(idle(chat))

    run(go())
    answer = chat.turns[-1]
    assert (answer.state, answer.error) == ("failed", "Braid's copy of note.txt cannot be read. Add the file again.")
    assert scheduler.sent == []
