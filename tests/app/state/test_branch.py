import pytest
from PIL import Image

from app.settings import Generation
from app.state.branch import Offers, Tree
from app.state.library import Library
from app.state.turn import Turn
from tests.fakes import Script


def ask(chat, text):
    chat.composer.set_text(text)
    chat.composer.send()


def words(chat):
    return [turn.text for turn in chat.turns]


def grown(*edges):
    """A tree of turns named by their ids; each edge is "child<parent"."""
    tree = Tree()
    tree.fill([Turn(id=edge.split("<")[0], parent_id=edge.partition("<")[2] or None) for edge in edges])
    return tree


def ids(turns):
    return "".join(turn.id for turn in turns)


# --- the tree


def test_a_branch_runs_over_a_turn_down_to_the_newest_end():
    tree = grown("q", "a<q", "b<q", "x<a", "y<b", "z<b")
    assert ids(tree.through(tree.newest())) == "qbz"
    assert ids(tree.through(tree.get("a"))) == "qax"
    assert ids(tree.through(None)) == "qax"
    assert ids(tree.variants(tree.get("y"))) == "yz"


def test_each_fork_remembers_which_way_was_shown_last():
    tree = grown("q", "a<q", "b<q", "y<b", "z<b")
    tree.through(tree.get("y"))
    tree.through(tree.get("a"))
    assert ids(tree.through(tree.get("b"))) == "qby"


def test_a_question_that_waited_may_stand_before_the_answer_it_follows():
    assert ids(grown("q", "w<a", "a<q").through(None)) == "qaw"


def test_turns_whose_parent_is_lost_are_first_turns():
    tree = grown("q", "a<gone")
    assert ids(tree.under(None)) == "qa"


def test_a_removed_variant_gives_way_to_the_newest_that_is_left():
    tree = grown("q", "a<q", "b<q")
    tree.remove(tree.get("b"))
    assert ids(tree.through(None)) == "qa"
    assert grown().through(None) == []


# --- the conversation


@pytest.fixture
def chat(library):
    return library.current


@pytest.fixture
def talk(run, until, scheduler, chat):
    """Ask questions, one after the other, and let the model answer with the same words in capitals."""

    def talk(*questions):
        async def go():
            for question in questions:
                scheduler.scripts.append(Script([question.upper()]))
                ask(chat, question)
                await until(lambda: not chat.answering)

        run(go())

    return talk


@pytest.fixture
def act(run, until, scheduler, library, chat):
    """Do something, which is answered with this script if there is one, and let it be written down."""

    def act(does, *script):
        async def go():
            if script:
                scheduler.scripts.append(Script(script))
            does()
            await until(lambda: not chat.answering)
            await library._journal.flush()

        run(go())

    return act


def test_answering_again_keeps_every_variant_and_what_followed_it(talk, act, scheduler, chat):
    talk("one", "two")
    first = chat.turns[1]
    changed = []
    chat.branch_changed.connect(lambda: changed.append(words(chat)))
    act(lambda: chat.retry(first.id), "other")
    assert words(chat) == ["one", "other"]
    assert [message["content"][0]["text"] for message in scheduler.sent[-1].messages] == ["one"]
    second = chat.turns[1]
    assert chat.offers(second.id) == Offers(2, 2, switch=True, again=True, fork=True)
    act(lambda: chat.show_variant(second.id, -1))
    assert words(chat) == ["one", "ONE", "two", "TWO"]
    assert chat.offers(first.id).position == 1
    act(lambda: chat.show_variant(first.id, -1))
    act(lambda: chat.show_variant(first.id, 1))
    assert words(chat) == ["one", "other"]
    assert changed == [["one"], ["one", "ONE", "two", "TWO"], ["one", "other"]]


def test_an_edited_question_is_asked_with_its_pictures_and_the_old_one_stays(
    run, until, act, scheduler, chat, tmp_path
):
    Image.new("RGB", (8, 8)).save(tmp_path / "oven.png")

    async def first():
        chat.composer.add_files([tmp_path / "oven.png"])
        await until(lambda: chat.composer.can_send)
        scheduler.scripts.append(Script(["torn"]))
        ask(chat, "What is wrong?")
        await until(lambda: not chat.answering)
        (tmp_path / "oven.png").unlink()

    run(first())
    question = chat.turns[0]
    act(lambda: chat.edit(question.id, "What is good?"), "glass")
    assert words(chat) == ["What is good?", "glass"]
    assert chat.title == "What is good?"
    [message] = scheduler.sent[-1].messages
    assert [part["type"] for part in message["content"]] == ["image", "text"]
    assert chat.turns[0].attachments[0].path.exists()
    act(lambda: chat.show_variant(chat.turns[0].id, -1))
    assert words(chat) == ["What is wrong?", "torn"]


def test_an_emptied_question_or_a_question_of_the_model_is_not_sent(talk, act, chat):
    talk("one")
    act(lambda: chat.edit(chat.turns[0].id, "  "))
    act(lambda: chat.edit(chat.turns[1].id, "mine"))
    act(lambda: chat.edit("unknown", "mine"))
    assert words(chat) == ["one", "ONE"]


def test_nothing_is_offered_while_it_answers_but_a_fork(run, until, scheduler, chat):
    async def go():
        ask(chat, "one")
        await until(lambda: scheduler.live)
        ask(chat, "two")
        question, answer, waiting = chat.turns
        assert chat.offers(question.id) == Offers(fork=True)
        assert chat.offers(answer.id) == chat.offers(waiting.id) == Offers()
        before = words(chat)
        chat.retry(answer.id)
        chat.resume(answer.id)
        chat.edit(question.id, "three")
        chat.show_variant(answer.id, 1)
        assert words(chat) == before

    run(go())


def test_an_edit_that_is_stopped_before_it_was_sent_returns_to_the_draft_and_the_old_branch(run, until, talk, chat):
    talk("one", "two")

    async def go():
        chat.edit(chat.turns[0].id, "changed")
        chat.stop()
        await until(lambda: not chat.answering)

    run(go())
    assert words(chat) == ["one", "ONE", "two", "TWO"]
    assert chat.composer.text == "changed"


def test_a_retry_that_is_stopped_before_it_was_sent_shows_the_old_answer_again(run, until, talk, chat):
    talk("one", "two")

    async def go():
        chat.retry(chat.turns[1].id)
        chat.stop()
        await until(lambda: not chat.answering)

    run(go())
    assert words(chat) == ["one", "ONE", "two", "TWO"]


def test_a_failed_answer_that_others_followed_stays_with_them(talk, act, scheduler, chat, run, until):
    async def fail():
        scheduler.scripts.append(Script([], "error", "No."))
        ask(chat, "one")
        await until(lambda: not chat.answering)

    run(fail())
    talk("two")
    act(lambda: chat.retry(chat.turns[1].id), "fine")
    assert words(chat) == ["one", "fine"]
    act(lambda: chat.show_variant(chat.turns[1].id, -1))
    assert words(chat) == ["one", "", "two", "TWO"]


# --- going on with an answer


@pytest.mark.parametrize("reason", ["abort", "length"])
def test_an_answer_that_ended_early_is_gone_on_with_in_place(run, until, act, scheduler, chat, reason):
    async def begin():
        ask(chat, "Count.")
        await until(lambda: scheduler.live)
        for piece in ("One, ", "two, "):
            scheduler.live[0].say(piece)
        scheduler.live[0].end(reason)
        await until(lambda: not chat.answering)

    run(begin())
    answer = chat.turns[-1]
    assert chat.offers(answer.id).resume
    act(lambda: chat.resume(answer.id), " three", ".")
    assert words(chat) == ["Count.", "One, two, three."]
    assert (answer.state, answer.facts.completion_tokens) == ("done", 4)
    assert not chat.offers(answer.id).resume
    request = scheduler.sent[-1]
    assert request.messages[-1]["content"] == [{"type": "text", "text": "One, two,"}]
    assert request.options["template_options"]["continue_final"] is True
    assert "continue_final" not in scheduler.sent[0].options["template_options"]


def test_a_finished_or_older_answer_is_not_gone_on_with(talk, act, chat, scheduler):
    talk("one", "two")
    chat.turns[1].state = "stopped"
    for turn in chat.turns:
        assert not chat.offers(turn.id).resume
        act(lambda turn=turn: chat.resume(turn.id))
    assert len(scheduler.sent) == 2


def test_going_on_that_fails_keeps_the_beginning_and_says_why(run, until, scheduler, chat):
    told = []
    chat.composer.notice.connect(told.append)

    async def go():
        ask(chat, "Count.")
        await until(lambda: scheduler.live)
        scheduler.live[0].say("One,")
        scheduler.live[0].end("length")
        await until(lambda: not chat.answering)
        scheduler.refuse = "There is not enough memory. Close a chat."
        chat.resume(chat.turns[-1].id)
        await until(lambda: not chat.answering)

    run(go())
    assert (chat.turns[-1].text, chat.turns[-1].state) == ("One,", "cut")
    assert told == [scheduler.refuse]
    assert chat.offers(chat.turns[-1].id).resume


def test_thoughts_of_a_begun_answer_are_handed_over_apart(act, talk, scheduler, chat):
    talk("one")
    answer = chat.turns[-1]
    answer.state, answer.text, answer.reasoning = "stopped", "", "Let me"
    act(lambda: chat.resume(answer.id), "done")
    assert scheduler.sent[-1].messages[-1]["reasoning_content"] == "Let me"


# --- forks


def test_a_fork_is_a_chat_of_its_own_beside_the_first(run, until, talk, act, scheduler, library, chat):
    talk("one", "two")
    act(library.new_chat)
    act(lambda: chat.fork(chat.turns[1].id))
    assert library.tabs.index(library.current) == 1
    fork = library.current
    assert (words(fork), fork.title) == (["one", "ONE"], "one (2)")

    async def go():
        scheduler.scripts.append(Script(["THREE"]))
        ask(fork, "three")
        await until(lambda: not fork.answering)
        library.close_tab(fork.id)
        library.open(fork.id)
        await until(lambda: library.current.id == fork.id)

    run(go())
    assert words(library.current) == ["one", "ONE", "three", "THREE"]
    assert words(chat) == ["one", "ONE", "two", "TWO"]
    assert not {turn.id for turn in library.current.turns} & {turn.id for turn in chat.turns}


def test_a_fork_at_a_question_has_it_in_its_draft(talk, act, library, chat):
    talk("one", "two")
    act(lambda: chat.fork(chat.turns[2].id))
    assert words(library.current) == ["one", "ONE"]
    assert library.current.composer.text == "two"
    act(lambda: chat.fork(chat.turns[0].id))
    assert (words(library.current), library.current.composer.text) == ([], "one")


def test_no_fork_from_an_answer_that_grows_or_from_nowhere(run, until, scheduler, library, chat):
    async def go():
        ask(chat, "one")
        await until(lambda: scheduler.live)
        chat.fork(chat.turns[1].id)
        chat.fork("unknown")

    run(go())
    assert library.tabs == [chat]


# --- what is kept


def test_variants_and_the_shown_branch_are_there_after_a_restart(run, until, talk, act, library, model, profile, chat):
    talk("one", "two")
    act(lambda: chat.retry(chat.turns[1].id), "other")
    act(lambda: ask(chat, "three"), "THREE")
    first = chat.turns[1].id
    act(lambda: chat.show_variant(first, -1))

    async def again():
        await library._journal.flush()
        second = Library(profile, model, Generation)
        await second.restore()
        found = second.current
        seen = [words(found), found.offers(found.turns[1].id).variants]
        found.show_variant(found.turns[1].id, 1)
        seen.append(words(found))
        await second.end_answers()
        await second.close()
        return seen

    assert run(again()) == [["one", "ONE", "two", "TWO"], 2, ["one", "other", "three", "THREE"]]


def test_a_turn_on_another_branch_is_revealed(talk, act, chat):
    talk("one", "two")
    hidden = chat.turns[2]
    act(lambda: chat.retry(chat.turns[1].id), "other")
    act(lambda: chat.reveal(hidden.id))
    assert words(chat) == ["one", "ONE", "two", "TWO"]
    act(lambda: chat.reveal("unknown"))
    assert words(chat) == ["one", "ONE", "two", "TWO"]
