from app.storage import conversations as rows
from app.storage.conversations import AttachmentRecord, ConversationRecord, DraftRecord, TurnRecord
from app.storage.search import search

OVEN = AttachmentRecord("a1", "image", "oven.heic", "d1", "d1.heic", 100, 40, 30, "scaled down")


def chat(connection, id="c", title="Kitchen", updated=2.0, leaf=None):
    rows.put_conversation(
        connection, ConversationRecord(id, title, named=False, created=1.0, updated=updated, active_leaf=leaf)
    )


def turn(connection, id, parent=None, *, role="user", text="", state="done", attachments=(), chat="c"):
    record = TurnRecord(id, chat, parent, role, text, "", state, None, None, 3.0, attachments)
    rows.put_turn(connection, record)
    return record


def test_a_conversation_comes_back_as_it_was_put(connection):
    chat(connection, leaf="t2")
    question = turn(connection, "t1", text="What is wrong?", attachments=(OVEN,))
    answer = turn(connection, "t2", "t1", role="assistant", text="The seal.")
    rows.put_draft(connection, "c", DraftRecord("And now", (OVEN,)))
    stored = rows.load_conversation(connection, "c")
    assert stored.turns == (question, answer)
    assert stored.draft == DraftRecord("And now", (OVEN,))
    assert (stored.record.title, stored.record.named, stored.record.active_leaf) == ("Kitchen", False, "t2")


def test_all_variants_come_back_in_the_order_in_which_they_were_made(connection):
    chat(connection, leaf="b")
    turn(connection, "q")
    turn(connection, "b", "q", role="assistant", text="first try", attachments=(OVEN,))
    turn(connection, "a", "q", role="assistant", text="second try")
    turn(connection, "q", text="changed")
    stored = rows.load_conversation(connection, "c")
    assert [(item.id, item.parent_id, len(item.attachments)) for item in stored.turns] == [
        ("q", None, 0),
        ("b", "q", 1),
        ("a", "q", 0),
    ]


def test_queued_turns_come_last_in_the_order_of_sending(connection):
    chat(connection, leaf="q")
    turn(connection, "q")
    turn(connection, "w1", text="one", state="queued")
    turn(connection, "w2", text="two", state="queued")
    assert [item.id for item in rows.load_conversation(connection, "c").turns] == ["q", "w1", "w2"]


def test_an_answer_cut_by_a_crash_keeps_its_text(connection):
    chat(connection, leaf="a")
    turn(connection, "q")
    turn(connection, "a", "q", role="assistant", text="The door se", state="live")
    rows.cut_live_turns(connection)
    assert [(item.state, item.text) for item in rows.load_conversation(connection, "c").turns][1] == (
        "cut",
        "The door se",
    )
    assert [found.turn_id for found in search(connection, "door se")] == ["a"]


def test_removing_a_turn_removes_what_hangs_under_it(connection):
    chat(connection)
    turn(connection, "q", attachments=(OVEN,))
    turn(connection, "a", "q", role="assistant")
    rows.remove_turn(connection, "q")
    assert rows.load_conversation(connection, "c").turns == ()
    assert rows.media_in_use(connection) == set()


def test_deleting_hides_undo_shows_and_purging_removes_for_good(connection):
    chat(connection)
    turn(connection, "q", text="secret", attachments=(OVEN,))
    rows.put_draft(connection, "c", DraftRecord("draft"))
    rows.put_tabs(connection, rows.Tabs(("c",), "c"))
    rows.set_deleted(connection, "c", 5.0)
    assert rows.list_conversations(connection) == search(connection, "secret") == []
    assert rows.load_tabs(connection) == rows.Tabs(())
    assert rows.load_conversation(connection, "c") is None
    rows.set_deleted(connection, "c", None)
    assert [row[0] for row in rows.list_conversations(connection)] == ["c"]
    assert [found.conversation_id for found in search(connection, "secret")] == ["c"]
    rows.set_deleted(connection, "c", 5.0)
    rows.purge_deleted(connection)
    left = [connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in
            ("conversations", "turns", "attachments", "drafts", "tabs")]  # fmt: skip
    assert left == [0] * 5


def test_the_list_is_newest_first(connection):
    for id, updated in (("a", 1.0), ("b", 3.0), ("c", 2.0)):
        chat(connection, id, updated=updated)
    assert [row[0] for row in rows.list_conversations(connection)] == ["b", "c", "a"]


def test_tabs_keep_their_order_and_leave_out_chats_that_are_not_stored(connection):
    chat(connection, "a")
    chat(connection, "b")
    rows.put_tabs(connection, rows.Tabs(("b", "unknown", "a"), "a", "b"))
    assert rows.load_tabs(connection) == rows.Tabs(("b", "a"), "a", "b")
    rows.put_tabs(connection, rows.Tabs(("a",), "a"))
    assert rows.load_tabs(connection) == rows.Tabs(("a",), "a")


def test_only_an_empty_conversation_is_forgotten(connection):
    for id in ("turns", "draft", "empty"):
        chat(connection, id)
    turn(connection, "t", chat="turns")
    rows.put_draft(connection, "draft", DraftRecord("text"))
    for id in ("turns", "draft", "empty"):
        rows.remove_if_empty(connection, id)
    assert {row[0] for row in rows.list_conversations(connection)} == {"turns", "draft"}


def test_an_emptied_draft_leaves_nothing(connection):
    chat(connection)
    rows.put_draft(connection, "c", DraftRecord("text", (OVEN,)))
    assert rows.media_in_use(connection) == {"d1"}
    rows.put_draft(connection, "c", DraftRecord(""))
    assert rows.media_in_use(connection) == set()
    assert rows.load_conversation(connection, "c").draft == DraftRecord("")


def test_pins_folders_and_titles_stay_when_the_conversation_is_written_again(connection):
    chat(connection)
    rows.set_place(connection, "c", pinned=True, folder="House")
    chat(connection, title="Kitchen", updated=3.0)
    rows.set_title(connection, "c", "Oven")
    assert rows.list_conversations(connection) == [("c", "Oven", 3.0, True, "House")]
    assert rows.load_conversation(connection, "c").record.named
    rows.set_place(connection, "c", pinned=False, folder=None)
    assert rows.list_conversations(connection) == [("c", "Oven", 3.0, False, None)]
