import os
import threading

import pytest

from app.storage.media import MediaStore


@pytest.fixture
def store(tmp_path):
    return MediaStore(tmp_path / "media")


def age(path):
    os.utime(path, (1, 1))


def test_bytes_are_kept_under_their_digest_with_suffix(store):
    path = store.add("abc", ".heic", b"original")
    assert (path.name, path.read_bytes()) == ("abc.heic", b"original")


def test_adding_again_changes_nothing_but_its_age(store):
    path = store.add("abc", ".png", b"first")
    age(path)
    assert store.add("abc", ".png", b"second") == path
    assert path.read_bytes() == b"first"
    assert path.stat().st_mtime > 1000


def test_a_failed_write_leaves_no_half_file(store, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        store.add("abc", ".png", b"data")
    assert list(store.folder.iterdir()) == []


def test_two_threads_adding_the_same_picture_both_succeed(store):
    threads = [threading.Thread(target=store.add, args=("abc", ".png", b"x" * 100_000)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [path.name for path in store.folder.iterdir()] == ["abc.png"]


def test_a_lost_thumbnail_is_empty_not_an_error(store):
    store.add_thumbnail("abc", b"png")
    assert store.thumbnail("abc") == b"png"
    assert store.thumbnail("other") == b""


def test_collecting_keeps_what_is_used_and_what_is_young(store):
    assert store.collect(set()) == 0
    for digest in ("used", "unused", "young"):
        store.add(digest, ".png", b"x")
        store.add_thumbnail(digest, b"x")
    left_over = store.folder / "crash.part"
    left_over.write_bytes(b"half")
    for path in store.folder.iterdir():
        if not path.name.startswith("young"):
            age(path)
    assert store.collect({"used"}) == 3
    assert sorted(path.name for path in store.folder.iterdir()) == [
        "used.png", "used.thumb.png", "young.png", "young.thumb.png",
    ]  # fmt: skip
