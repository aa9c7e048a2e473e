"""Chats into files and back, and from the exports of other programs."""

import base64
import copy
import dataclasses
import functools
import io
import json
import random
import time
import zipfile

import pytest
from PIL import Image

from app.presets import Sampling
from app.state.attachment import Excerpt
from app.storage import conversations as rows
from tests.app import files
from tests.app.files import clip
from tests.fakes import Script


def ask(chat, text):
    chat.composer.set_text(text)
    chat.composer.send()


def png(colour="teal"):
    data = io.BytesIO()
    Image.new("RGB", (12, 8), colour).save(data, "PNG")
    return data.getvalue()


@pytest.fixture
def told(library):
    sentences = []
    library.exchange.told.connect(sentences.append)
    return sentences


@pytest.fixture
def do(run, until, library, told):
    """Start an export or import and wait until it has said how it ended."""

    def do(work, *arguments):
        async def go():
            before = len(told)
            work(*arguments)
            await until(lambda: len(told) > before)
            await library._journal.flush()
            return told[-1]

        return run(go())

    return do


@pytest.fixture
def kitchen(run, until, library, scheduler, tmp_path):
    """A chat with a picture, two answers to its first question, and choices of its own."""
    (tmp_path / "oven.png").write_bytes(png())
    chat = library.current

    async def go():
        chat.composer.add_files([tmp_path / "oven.png"])
        await until(lambda: chat.composer.can_send)
        for script, does in (
            ("torn", lambda: ask(chat, "What is [wrong]?")),
            ("fine", lambda: chat.retry(chat.turns[1].id)),
            ("left", lambda: ask(chat, "Which side?")),
        ):
            scheduler.scripts.append(Script([script]))
            does()
            await until(lambda: not chat.answering)
        chat.rename("Kitchen: a/b")
        chat.instruct("Be brief.", Sampling(temperature=0.5))
        library.file(chat.id, "House")
        library.pin(chat.id, True)
        await library._journal.flush()

    run(go())
    return chat


@pytest.fixture
def opened(run, until, library):
    """Open a listed chat."""

    def opened(id):
        async def go():
            library.open(id)
            await until(lambda: library.current.id == id)
            await library._journal.flush()
            return library.current

        return run(go())

    return opened


def words(chat):
    return [turn.text for turn in chat.turns]


def newest(library, known):
    return next(entry for entry in library.entries if entry.id not in known)


# --- our own


def test_an_archive_brings_everything_back_as_a_chat_of_its_own(do, opened, library, kitchen, tmp_path):
    assert do(library.exchange.export, [kitchen.id], tmp_path / "k.braid") == "1 chat was exported to k.braid."
    (tmp_path / "oven.png").unlink()
    assert do(library.exchange.take, tmp_path / "k.braid") == "1 chat was imported."
    entry = newest(library, {kitchen.id})
    assert (entry.title, entry.pinned, entry.folder) == ("Kitchen: a/b", True, "House")
    again = opened(entry.id)
    assert words(again) == words(kitchen) == ["What is [wrong]?", "fine", "Which side?", "left"]
    assert not {turn.id for turn in again.turns} & {turn.id for turn in kitchen.turns}
    assert again.offers(again.turns[1].id).variants == 2
    assert (again.system_prompt, again.sampling) == ("Be brief.", Sampling(temperature=0.5))
    assert again.turns[1].facts.completion_tokens == 1
    [item] = again.turns[0].attachments
    assert (item.name, item.width, item.path.read_bytes()) == ("oven.png", 12, png())


def test_an_archive_keeps_which_part_of_a_clip_was_sent(run, until, do, opened, library, scheduler, tmp_path):
    chat = library.current
    chosen = Excerpt(fps=4.0, start=0.5, end=1.5)
    library._room.model.takes = frozenset({"image", "video"})

    async def go():
        chat.composer.add_files([clip(tmp_path / "door.mp4")])
        await until(lambda: chat.composer.can_send)
        chat.composer.choose(chat.composer.chips[0].id, chosen)
        scheduler.scripts.append(Script(["It opens."]))
        ask(chat, "What happens?")
        await until(lambda: not chat.answering)

    run(go())
    do(library.exchange.export, [chat.id], tmp_path / "k.braid")
    do(library.exchange.take, tmp_path / "k.braid")
    again = opened(newest(library, {chat.id}).id)
    [item] = again.turns[0].attachments
    assert (item.kind, item.excerpt, item.seconds) == ("video", chosen, chat.turns[0].attachments[0].seconds)


@pytest.fixture
def rich(run, until, library, scheduler, tmp_path):
    """A chat with media of every kind, parts chosen of them, branches, thoughts and answers that ended in every way."""
    model, chat = library._room.model, library.current
    model.takes = scheduler.takes = frozenset({"image", "video", "audio"})
    made = [
        files.picture(tmp_path / "a.png"),
        files.torn(tmp_path / "torn.jpg"),
        files.clip(tmp_path / "b.mp4"),
        files.animation(tmp_path / "c.gif"),
        files.animation(tmp_path / "still.gif"),
        files.document(tmp_path / "d.pdf", 4),
        files.sound(tmp_path / "e.wav"),
        tmp_path / "f.csv",
    ]
    made[-1].write_text("a,b\n1,2\n")
    scripts = [
        Script(["<think>", "Hm.", "</think>", "It is red."]),
        Script(["Blue", "."], "length"),
        Script(["Half"], "error", "The model failed."),
        Script(["On."]),
    ]

    async def answered():
        await until(lambda: not chat.answering)

    async def attach():
        draft = chat.composer
        draft.add_files(made)
        await until(lambda: not any(chip.state == "reading" for chip in draft.chips))
        ids = {chip.name: chip.id for chip in draft.chips}
        draft.take_damaged(ids["torn.jpg"])
        draft.take_stills(ids["still.gif"])
        await until(lambda: draft.can_send)
        draft.choose(ids["b.mp4"], Excerpt(fps=4.0, start=0.5, end=1.5))
        draft.choose(ids["c.gif"], Excerpt(start=1.0))
        draft.choose(ids["d.pdf"], Excerpt(first=2, last=3))

    async def go():
        await attach()
        scheduler.scripts += scripts
        ask(chat, "What is all this?")
        await answered()
        chat.retry(chat.turns[1].id)
        await answered()
        ask(chat, "Sure?")
        await answered()
        chat.edit(chat.turns[2].id, "Really?")
        await answered()
        ask(chat, "More?")
        await until(lambda: scheduler.live)
        scheduler.live[0].say("Some")
        await until(lambda: chat.turns[-1].text)
        chat.stop()
        await answered()
        chat.show_variant(chat.turns[2].id, -1)
        chat.rename("Everything")
        chat.instruct("Be brief.", Sampling(temperature=0.5, top_p=0.9, max_tokens=64, seed=7, thinking=True))
        library.file(chat.id, "House")
        library.pin(chat.id, True)
        await library._journal.flush()

    run(go())
    return chat


def without_ids(stored):
    """All that is kept of a chat, its turns as a tree; the ends of the names of our copies say nothing."""
    under = {}
    for turn in stored.turns:
        under.setdefault(turn.parent_id, []).append(turn)

    def tree(parent):
        return [
            (
                *(turn.role, turn.text, turn.reasoning, turn.state, turn.error, turn.facts, turn.created),
                turn.id == stored.record.active_leaf,
                [dataclasses.replace(item, id="", file="") for item in turn.attachments],
                tree(turn.id),
            )
            for turn in under.get(parent, [])
        ]

    return dataclasses.replace(stored.record, id="", active_leaf=""), tree(None)


def test_nothing_that_is_kept_is_lost_on_the_way_through_an_archive(run, do, library, rich, tmp_path):
    do(library.exchange.export, [rich.id], tmp_path / "k.braid")
    assert do(library.exchange.take, tmp_path / "k.braid") == "1 chat was imported."
    again = newest(library, {rich.id}).id
    before, after = (
        without_ids(run(library._database.run(functools.partial(rows.load_conversation, conversation_id=id))))
        for id in (rich.id, again)
    )
    assert [turn.state for turn in rich.turns] == ["done", "done", "done", "failed"]
    assert json.loads(before[1][0][9][0][5])["thinking_s"] > 0
    assert [item.kind for item in before[1][0][8]] == [
        *("image", "image", "video", "video", "image", "pdf", "audio", "text")
    ]
    assert after[0] == before[0]
    assert after[1][0][8] == before[1][0][8]
    assert after[1] == before[1]


def test_a_file_too_large_to_be_taken_stays_out_and_the_chat_comes(do, library, kitchen, tmp_path, monkeypatch):
    do(library.exchange.export, [kitchen.id], tmp_path / "k.braid")
    monkeypatch.setattr("app.state.archive._MAX_MEDIUM", 10)
    sentence = do(library.exchange.take, tmp_path / "k.braid")
    assert sentence == "1 chat was imported. 1 attachment was left out: it is not in the file, damaged or too large."


def test_all_chats_go_into_one_archive(run, do, library, kitchen, scheduler, until, tmp_path):
    async def second():
        library.new_chat()
        scheduler.scripts.append(Script(["two"]))
        ask(library.current, "one")
        await until(lambda: not library.current.answering)

    run(second())
    path = tmp_path / "all.braid"
    assert (
        do(library.exchange.export, [entry.id for entry in library.entries], path)
        == "2 chats were exported to all.braid."
    )
    assert do(library.exchange.take, path) == "2 chats were imported."
    assert len(library.entries) == 4


def test_markdown_holds_the_branch_that_is_shown_with_its_media_beside_it(do, library, kitchen, tmp_path):
    do(library.exchange.export, [kitchen.id], tmp_path / "Kitchen 1.md")
    assert (tmp_path / "Kitchen 1.md").read_text("utf-8").splitlines() == [
        "# Kitchen: a/b", "", "> Be brief.", "", "## You", "", "![oven.png](Kitchen%201%20media/1%20oven.png)", "",
        "What is [wrong]?", "", "## Answer", "", "fine", "", "## You", "", "Which side?", "", "## Answer", "", "left",
    ]  # fmt: skip
    assert (tmp_path / "Kitchen 1 media" / "1 oven.png").read_bytes() == png()


def test_a_lost_medium_is_named_and_stops_nothing(do, library, kitchen, tmp_path):
    kitchen.turns[0].attachments[0].path.unlink()
    do(library.exchange.export, [kitchen.id], tmp_path / "k.md")
    assert "*oven.png (the file is gone)*" in (tmp_path / "k.md").read_text("utf-8")
    do(library.exchange.export, [kitchen.id], tmp_path / "k.braid")
    sentence = do(library.exchange.take, tmp_path / "k.braid")
    assert sentence == "1 chat was imported. 1 attachment was left out: it is not in the file, damaged or too large."


def test_an_answer_that_is_being_written_is_exported_as_cut(run, until, do, library, scheduler, tmp_path):
    async def begin():
        ask(library.current, "one")
        await until(lambda: scheduler.live)
        scheduler.live[0].say("half")
        await until(lambda: library.current.turns[1].text)

    run(begin())
    known = {library.current.id}
    do(library.exchange.export, list(known), tmp_path / "k.braid")
    do(library.exchange.take, tmp_path / "k.braid")
    with zipfile.ZipFile(tmp_path / "k.braid") as archive:
        chat = json.loads(archive.read("chats/1.json"))
    assert [(turn["text"], turn["state"]) for turn in chat["turns"]] == [("one", "done"), ("half", "cut")]
    assert len(library.entries) == 2


def test_a_file_that_cannot_be_written_is_told_and_left_as_it_was(do, library, kitchen, tmp_path, records):
    records.expect("Exporting failed")
    for name in ("gone/k.braid", "gone/k.md"):
        assert do(library.exchange.export, [kitchen.id], tmp_path / name).startswith("The file could not be written.")
    assert do(library.exchange.export, [], tmp_path / "k.braid") == "There is nothing to export yet."
    assert not (tmp_path / "k.braid").exists()


# --- what others write


def node(id, parent, role="user", parts=("text",), kind="text", **message):
    content = {"content_type": kind, "parts": list(parts)}
    return id, {
        "id": id,
        "parent": parent,
        "children": [],
        "message": {"author": {"role": role}, "content": content, "create_time": 1700000000.5} | message,
    }


CHATGPT = {
    "title": "Oven",
    "create_time": 1700000000.0,
    "update_time": 1700000100.0,
    "current_node": "a2",
    "mapping": dict(
        [
            ("root", {"id": "root", "message": None, "parent": None, "children": ["s"]}),
            node("s", "root", "system", [""], metadata={"is_visually_hidden_from_conversation": True}),
            node("q", "s", parts=[{"asset_pointer": "file-service://file-AB1"}, "What is wrong?"],
                 kind="multimodal_text", metadata={"attachments": [{"id": "file-AB1", "name": "oven.png"}]}),
            node("t", "q", "assistant", [], kind="thoughts"),
            node("c", "t", "assistant", ["search"], recipient="browser"),
            node("r", "c", "tool", ["found"]),
            node("a1", "r", "assistant", ["Torn."]),
            node("a2", "a1", "assistant", ["Replace it."]),
            node("b", "q", "assistant", ["Another answer."]),
        ]
    ),
}  # fmt: skip
CHATGPT["mapping"]["t"]["message"]["content"]["thoughts"] = [{"summary": "Look", "content": "A dark line."}]

OPEN_WEBUI = {
    "id": "x",
    "title": "Oven",
    "created_at": 1700000000,
    "updated_at": 1700000200,
    "pinned": True,
    "chat": {
        "title": "Oven",
        "system": "Be brief.",
        "history": {
            "currentId": "a",
            "messages": {
                "q": {
                    "id": "q", "parentId": None, "role": "user", "content": "What is wrong?", "timestamp": 1700000001,
                    "files": [{"type": "image", "url": f"data:image/png;base64,{base64.b64encode(png()).decode()}"},
                              {"type": "image", "url": "/api/v1/files/1/content"}],
                },
                "b": {"id": "b", "parentId": "q", "role": "assistant", "content": "Other."},
                "a": {
                    "id": "a", "parentId": "q", "role": "assistant",
                    "content": '<details type="reasoning" done="true" duration="3">\n<summary>Thought for 3 seconds'
                               "</summary>\n> A dark\n> line.\n</details>\nTorn.",
                },
            },
        },
    },
}  # fmt: skip


def write(path, content):
    path.write_text(json.dumps(content), "utf-8")
    return path


def test_chatgpt_s_zip_brings_chats_with_pictures_variants_and_thoughts(do, opened, library, tmp_path):
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        archive.writestr("conversations.json", json.dumps([CHATGPT]))
        archive.writestr("file-AB1-oven.png", png())
        archive.writestr("chat.html", "<html>")
    assert do(library.exchange.take, tmp_path / "export.zip") == "1 chat was imported."
    [entry] = library.entries
    assert (entry.title, entry.folder, entry.updated) == ("Oven", "ChatGPT", 1700000100.0)
    chat = opened(entry.id)
    question, answer = chat.turns
    assert (question.text, [item.name for item in question.attachments]) == ("What is wrong?", ["oven.png"])
    assert (answer.text, answer.reasoning) == ("Torn.\n\nReplace it.", "A dark line.")
    assert chat.offers(answer.id).variants == 2


def test_chatgpt_s_list_alone_says_what_it_lacks(do, library, tmp_path):
    path = write(tmp_path / "conversations.json", [CHATGPT, CHATGPT | {"title": None}])
    assert (
        do(library.exchange.take, path)
        == "2 chats were imported. 2 attachments were left out: they are not in the file, damaged or too large."
    )
    assert {entry.title for entry in library.entries} == {"Oven", "What is wrong?"}


def test_open_webui_s_export_brings_chats_with_pictures_variants_and_thoughts(do, opened, library, tmp_path):
    path = write(tmp_path / "chat-export.json", [OPEN_WEBUI])
    assert (
        do(library.exchange.take, path)
        == "1 chat was imported. 1 attachment was left out: it is not in the file, damaged or too large."
    )
    [entry] = library.entries
    assert (entry.title, entry.folder, entry.pinned) == ("Oven", "Open WebUI", True)
    chat = opened(entry.id)
    question, answer = chat.turns
    assert [(item.name, item.width) for item in question.attachments] == [("picture.png", 12)]
    assert (answer.text, answer.reasoning) == ("Torn.", "A dark\nline.")
    assert chat.offers(answer.id).variants == 2
    assert chat.system_prompt == "Be brief."


def test_messages_that_run_in_a_circle_or_hang_nowhere_do_no_harm(do, opened, library, tmp_path):
    mapping = dict([node("q", "lost"), node("x", "y", parts=["x"]), node("y", "x", "assistant", ["y"])])
    path = write(tmp_path / "c.json", [{"mapping": mapping, "title": "Odd"}])
    assert do(library.exchange.take, path) == "1 chat was imported."
    assert words(opened(library.entries[0].id))[0] == "text"


# --- what cannot be taken


def archive_with(path, **members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "/").replace("_json", ".json"), content)
    return path


MANIFEST = json.dumps({"format": "braid chats", "version": 1, "chats": 1})
BAD = {
    "words.json": "just words",
    "number.json": "7",
    "cut.json": '[{"mapping": {',
    "strange.json": '[{"title": "a"}]',
    "half.json": json.dumps([CHATGPT, {"mapping": {"q": {"id": 7}}}]),
    "empty.json": "[]",
    "bytes.json": b"\xff\xfe\x00\x01",
    "deep.json": "[" * 100_000,
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_told_in_a_sentence_and_changes_nothing(do, library, tmp_path, name):
    content = BAD[name]
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    sentence = do(library.exchange.take, tmp_path / name)
    assert sentence.startswith(name)
    assert sentence.endswith(".")
    assert library.entries == ()


def test_a_damaged_or_newer_archive_is_told_and_changes_nothing(do, library, kitchen, tmp_path):
    before = library.entries
    whole = tmp_path / "k.braid"
    do(library.exchange.export, [kitchen.id], whole)
    files = {
        "cut.braid": whole.read_bytes()[:-60],
        "flipped.braid": whole.read_bytes().replace(b"PNG", b"XXX", 1),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    archive_with(tmp_path / "newer.braid", braid_json=MANIFEST.replace('"version": 1', '"version": 99'))
    archive_with(tmp_path / "lacks.braid", braid_json=MANIFEST)
    archive_with(tmp_path / "wrong.braid", braid_json=MANIFEST, chats__1_json='{"title": 7}')
    archive_with(tmp_path / "other.zip", readme="nothing")
    for name, said in {
        "cut.braid": "not an export of chats",
        "flipped.braid": "damaged",
        "newer.braid": "newer Braid",
        "lacks.braid": "damaged",
        "wrong.braid": "damaged",
        "other.zip": "not an export of chats",
        "gone.zip": "could not be read",
    }.items():
        sentence = do(library.exchange.take, tmp_path / name)
        assert said in sentence, sentence
        assert sentence.startswith(name)
    assert library.entries == before


def test_damage_inside_an_archive_is_told_wherever_it_is(do, library, kitchen, tmp_path):
    do(library.exchange.export, [kitchen.id], tmp_path / "k.braid")
    whole, dice, known = (tmp_path / "k.braid").read_bytes(), random.Random(0), len(library.entries)
    for number in range(40):
        data = bytearray(whole)
        for _ in range(12):
            data[dice.randrange(len(data))] = dice.randrange(256)
        (tmp_path / "torn.braid").write_bytes(data[: dice.randrange(1, len(data))] if number % 4 == 0 else data)
        sentence = do(library.exchange.take, tmp_path / "torn.braid")
        assert sentence.endswith(".")
        known += sentence.startswith("1 chat was imported")
        assert len(library.entries) == known


@pytest.mark.parametrize("facts", [{"completion_tokens": 1}, {"completion_tokens": "many"}])
def test_facts_that_cannot_be_are_damage(do, library, tmp_path, facts):
    said = {"id": "a", "role": "assistant", "text": "x", "created": 1.0, "facts": facts}
    with zipfile.ZipFile(tmp_path / "k.braid", "w") as archive:
        archive.writestr("braid.json", MANIFEST)
        archive.writestr("chats/1.json", json.dumps({"title": "x", "created": 1.0, "updated": 1.0, "turns": [said]}))
    assert "damaged" in do(library.exchange.take, tmp_path / "k.braid")
    assert library.entries == ()


def test_half_characters_and_impossible_times_of_other_programs_do_no_harm(do, opened, library, tmp_path):
    chat = copy.deepcopy(OPEN_WEBUI)
    chat["title"], chat["created_at"], chat["updated_at"] = "Cut \ud83d", -1e308, float("nan")
    chat["chat"]["history"]["messages"]["q"] |= {"content": "What \ud83d?", "timestamp": 1e10}
    before = time.time()
    do(library.exchange.take, write(tmp_path / "chats.json", [chat]))
    [entry] = library.entries
    assert (entry.title, before <= entry.updated <= time.time()) == ("Cut ?", True)
    question = opened(entry.id).turns[0]
    assert (question.text, before <= question.created <= time.time()) == ("What ??", True)


def test_attachments_that_are_no_list_are_none(do, opened, library, tmp_path):
    chat = copy.deepcopy(CHATGPT)
    for node in chat["mapping"].values():
        if node["message"]:
            node["message"]["metadata"] = {"attachments": True}
    do(library.exchange.take, write(tmp_path / "conversations.json", [chat]))
    assert opened(library.entries[0].id).turns


def test_a_name_inside_an_archive_reaches_nothing_outside_it(do, opened, library, tmp_path):
    """Media are taken from inside the zip by name; nothing is ever unpacked to a path that it says."""
    (tmp_path / "secret.png").write_bytes(png())
    chat = {"title": "x", "created": 1.0, "updated": 1.0, "leaf": "q", "turns": [
        {"id": "q", "role": "user", "text": "x", "created": 1.0,
         "media": [{"name": "../../evil.png", "file": "../secret.png"},
                                                 {"name": "../evil.png", "file": "a.png"}]}]}  # fmt: skip
    with zipfile.ZipFile(tmp_path / "k.braid", "w") as archive:
        archive.writestr("braid.json", MANIFEST)
        archive.writestr("chats/1.json", json.dumps(chat))
        archive.writestr("media/a.png", png())
    assert (
        do(library.exchange.take, tmp_path / "k.braid")
        == "1 chat was imported. 1 attachment was left out: it is not in the file, damaged or too large."
    )
    [item] = opened(library.entries[0].id).turns[0].attachments
    assert item.path.parent == library._media.folder


def test_a_disk_that_fills_up_leaves_no_half_import(do, library, tmp_path, monkeypatch):
    import sqlite3

    from app.state import exchange

    put, calls = exchange._put_all, []

    def full_the_second_time(connection, incoming):
        calls.append(len(incoming))
        if len(calls) > 1:
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error
        put(connection, incoming)

    monkeypatch.setattr(exchange, "_put_all", full_the_second_time)
    path = write(tmp_path / "conversations.json", [CHATGPT] * 30)
    assert "disk is full" in do(library.exchange.take, path)
    assert calls == [20, 10]
    assert library.entries == ()


def test_streams_go_on_while_a_large_export_is_taken(run, until, library, scheduler, told, tmp_path):
    path = write(tmp_path / "conversations.json", [CHATGPT] * 200)

    async def go():
        ask(library.current, "one")
        await until(lambda: scheduler.live)
        library.exchange.take(path)
        spoken = 0
        while not told:
            scheduler.live[0].say("word ")
            await until(lambda: scheduler.live[0].queue.empty())
            spoken += 1
        scheduler.live[0].end()
        await until(lambda: not library.current.answering)
        await library._journal.flush()
        return spoken

    assert run(go()) >= 2  # words that were heard before the import had ended
    assert len(library.entries) == 201
