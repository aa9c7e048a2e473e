from pathlib import Path

import pytest

from app.state.attachment import Attachment, Excerpt, kind_of_name
from app.storage.media import MediaStore
from app.storage.schema import MIGRATIONS


def made(kind, **facts):
    facts = {"width": 0, "height": 0, "note": None, "thumbnail": b"", **facts}
    return Attachment("a", kind, f"x.{kind}", Path("/media/d.bin"), digest="d", **facts)


def test_each_kind_becomes_the_part_that_the_engine_reads():
    def part(kind, **facts):
        part = made(kind, **facts).part()
        assert (part.pop("type"), part.pop(kind), part.pop("name")) == (kind, "/media/d.bin", f"x.{kind}")
        return part

    assert part("image") == {}
    assert part("audio", seconds=1.5) == {"seconds": 1.5}
    assert part("video") == {}
    assert part("video", excerpt=Excerpt(fps=1.0, start=2.0, end=4.5)) == {"fps": 1.0, "start": 2.0, "end": 4.5}
    assert part("pdf", pages=3) == {}
    assert part("pdf", pages=9, excerpt=Excerpt(first=2, last=4)) == {"pages": [2, 4]}


def test_a_text_is_read_from_our_copy(tmp_path):
    (tmp_path / "d.txt").write_text("Ünï ☆", "utf-8")
    item = Attachment("a", "text", "note.md", tmp_path / "d.txt", 0, 0, None, b"")
    assert item.part() == {"type": "text", "text": "note.md:\nÜnï ☆\n\n"}


@pytest.mark.parametrize(
    "facts",
    [{}, {"seconds": 12.5, "excerpt": Excerpt(fps=0.5, end=3.0)}, {"pages": 45, "excerpt": Excerpt(first=1, last=20)}],
)
def test_a_kept_one_comes_back_as_it_was(tmp_path, facts):
    media = MediaStore(tmp_path)
    media.add_thumbnail("d", b"png")
    item = Attachment("a", "video", "x.mp4", tmp_path / "d.mp4", 4, 3, "note", b"png", digest="d", size=7, **facts)
    assert Attachment.restore(item.record(), media) == item


@pytest.mark.parametrize(
    ("name", "kind"),
    [("A.HEIC", "image"), ("b.Mov", "video"), ("c.m4a", "audio"), ("d.PDF", "pdf"), ("e.md", "text"), ("f", None)],
)
def test_names_tell_what_a_file_usually_is(name, kind):
    assert kind_of_name(name) == kind


def test_attachments_of_an_older_library_have_no_details(tmp_path):
    import sqlite3

    with sqlite3.connect(":memory:") as connection:
        first, *later = (script for _, script in MIGRATIONS)
        connection.executescript(first)
        connection.execute("INSERT INTO conversations (id, created, updated) VALUES ('c', 1, 1)")
        connection.execute(
            "INSERT INTO turns (id, conversation_id, role, text, state, created) "
            "VALUES ('t', 'c', 'user', '', 'done', 1)"
        )
        connection.execute(
            "INSERT INTO attachments (turn_id, position, id, kind, name, digest, file, size, width, height) "
            "VALUES ('t', 0, 'a', 'image', 'x.png', 'd', 'd.png', 1, 4, 3)"
        )
        for script in later:
            connection.executescript(script)
        assert connection.execute("SELECT details FROM attachments").fetchall() == [("{}",)]
    connection.close()
