import pytest

from app.storage import conversations as rows
from app.storage.conversations import ConversationRecord, TurnRecord
from app.storage.search import Found, search, snippet


def chat(connection, id="c", title="Kitchen", updated=2.0):
    rows.put_conversation(connection, ConversationRecord(id, title, named=False, created=1.0, updated=updated))


def turn(connection, id, text, *, state="done", chat="c"):
    rows.put_turn(connection, TurnRecord(id, chat, None, "assistant", text, "", state, None, None, 3.0))


def ids(connection, words):
    return [found.conversation_id for found in search(connection, words)]


def test_titles_and_turns_are_found_in_any_script_and_forgotten_when_they_change(connection):
    chat(connection, title="Küche 厨房の写真", updated=1)
    chat(connection, "d", "Other", updated=2)
    turn(connection, "t", "50 % of “Müller's” oven", chat="d")
    for words, found in {
        "厨房の": ["c"], "房": ["c"], "küche": ["c"], "KÜC": ["c"], "müller's": ["d"], '"': [], "50 %": ["d"],
        "%": ["d"], "_": [], "nothing": [], "other": ["d"], "o": ["d"], "  ": [], "\\": [],
    }.items():  # fmt: skip
        assert ids(connection, words) == found, words
    chat(connection, "d", "Renamed", updated=2)
    turn(connection, "t", "changed", chat="d")
    assert ids(connection, "Other") == ids(connection, "oven") == []
    assert ids(connection, "chang") == ids(connection, "renam") == ["d"]


def test_all_words_must_stand_in_one_text_in_any_order(connection):
    chat(connection, "a", "Oven door")
    chat(connection, "b", "Oven")
    turn(connection, "t", "The door of it", chat="b")
    assert ids(connection, "door oven") == ["a"]
    assert ids(connection, "it door") == ["b"]


def test_the_newest_turn_with_the_words_is_given_with_a_piece_of_it(connection):
    chat(connection)
    turn(connection, "old", "A seal.")
    turn(connection, "new", "The seal is torn.")
    turn(connection, "later", "Nothing of it.")
    assert search(connection, "SEAL") == [Found("c", "new", "The seal is torn.")]
    assert search(connection, "kitch") == [Found("c")]


def test_newest_chats_come_first_and_no_more_than_asked_for(connection):
    for number in range(5):
        chat(connection, f"c{number}", "Oven", updated=number)
    assert [found.conversation_id for found in search(connection, "oven", limit=2)] == ["c4", "c3"]


def test_a_growing_answer_is_found_when_it_has_ended(connection):
    chat(connection)
    turn(connection, "a", "half", state="live")
    turn(connection, "a", "half an answer", state="live")
    assert ids(connection, "half") == []
    turn(connection, "a", "half an answer", state="done")
    assert ids(connection, "half an") == ["c"]


@pytest.mark.parametrize(
    ("text", "words", "shown"),
    [
        ("short text", ["text"], "short text"),
        ("two\nlines  and more", ["more"], "two lines and more"),
        ("word " * 40 + "oven", ["oven"], "…word word word word oven"),
        ("oven " + "word " * 40, ["OVEN"], "oven " + "word " * 22 + "word…"),
        ("changed since", ["gone"], "changed since"),
    ],
)
def test_a_snippet_shows_the_word_with_its_surroundings_on_one_line(text, words, shown):
    assert snippet(text, words) == shown
