import asyncio
import os
import sqlite3
import threading

import pytest

from app.storage.database import Database, StorageError
from app.storage.schema import MIGRATIONS, Version


def in_database(path, *works):
    """Open the file, run the works, close it; their results."""

    async def go():
        database = Database(path)
        try:
            await database.open()
            return [await database.run(work) for work in works]
        finally:
            await database.close()

    return asyncio.run(go())


def test_a_new_file_has_the_current_version_and_survives_crashes_without_waiting_for_the_disk(tmp_path):
    path = tmp_path / "deep" / "library.sqlite"

    def pragmas(connection):
        return [
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous", "user_version")
        ]

    assert in_database(path, pragmas) == [["wal", 1, MIGRATIONS[-1][0].packed]]


def test_opening_again_keeps_what_was_written(tmp_path):
    path = tmp_path / "library.sqlite"
    in_database(path, lambda c: c.execute("INSERT INTO conversations (id, created, updated) VALUES ('a', 1, 2)"))
    assert in_database(path, lambda c: c.execute("SELECT id FROM conversations").fetchall()) == [[("a",)]]


def test_all_sql_runs_on_one_thread_that_ends(tmp_path):
    names = in_database(tmp_path / "x", *[lambda _: threading.current_thread().name] * 3)
    assert names == ["storage_0"] * 3
    assert "storage_0" not in {thread.name for thread in threading.enumerate()}


def test_work_runs_in_call_order_even_when_awaited_backwards(tmp_path):
    seen = []

    async def go():
        database = Database(tmp_path / "x")
        await database.open()
        futures = [database.run(lambda _, i=i: seen.append(i)) for i in range(20)]
        for future in reversed(futures):
            await future
        await database.close()

    asyncio.run(go())
    assert seen == list(range(20))


def test_a_failing_work_leaves_nothing_behind_and_the_next_one_works(tmp_path):
    def half(connection):
        connection.execute("INSERT INTO conversations (id, created, updated) VALUES ('a', 1, 2)")
        raise ZeroDivisionError

    async def go():
        database = Database(tmp_path / "x")
        await database.open()
        with pytest.raises(ZeroDivisionError):
            await database.run(half)
        count = await database.run(lambda c: c.execute("SELECT count(*) FROM conversations").fetchone()[0])
        await database.close()
        return count

    assert asyncio.run(go()) == 0


def test_a_file_of_a_newer_major_version_is_refused_untouched(tmp_path):
    path = tmp_path / "library.sqlite"
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {Version(99, 0).packed}")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StorageError, match=r"newer Braid.*update Braid"):
        in_database(path)
    assert path.read_bytes() == before


def test_a_file_of_a_newer_minor_version_opens(tmp_path):
    path = tmp_path / "library.sqlite"
    in_database(path)
    newer = Version(MIGRATIONS[-1][0].major, 7)
    in_database(path, lambda c: c.execute(f"PRAGMA user_version = {newer.packed}"))
    assert in_database(path, lambda c: c.execute("PRAGMA user_version").fetchone()[0]) == [newer.packed]


@pytest.mark.parametrize("content", [b"not a database, only some text that is long enough to be read " * 40, b"SQLite"])
def test_a_damaged_file_is_told_in_a_sentence(tmp_path, content):
    path = tmp_path / "library.sqlite"
    path.write_bytes(content)
    with pytest.raises(StorageError, match=r"is damaged\. Move it away"):
        in_database(path)
    assert path.read_bytes() == content


def test_a_full_disk_is_told_and_passes(tmp_path):
    def limit_pages(connection):
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")

    def fill(connection):
        connection.execute(
            "INSERT INTO conversations (id, title, created, updated) VALUES ('a', ?, 1, 2)", ("x" * 100_000,)
        )

    async def go():
        database = Database(tmp_path / "x")
        await database.open()
        await database.run(limit_pages)
        with pytest.raises(StorageError, match="disk is full"):
            await database.run(fill)
        await database.run(lambda c: c.execute("PRAGMA max_page_count = 100000").fetchone())
        await database.run(fill)
        await database.close()

    asyncio.run(go())


def test_a_library_that_another_program_holds_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr("app.storage.database._BUSY_MS", 10)
    path = tmp_path / "library.sqlite"
    in_database(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StorageError, match="Another program"):
        in_database(path, lambda c: c.execute("DELETE FROM tabs"))
    other.close()


def test_a_place_that_is_no_folder_is_told(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="permissions"):
        in_database(tmp_path / "file" / "library.sqlite")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_file_is_told(tmp_path):
    path = tmp_path / "library.sqlite"
    in_database(path)
    path.chmod(0o400)
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(StorageError, match="permissions"):
            in_database(path, lambda c: c.execute("DELETE FROM tabs"))
    finally:
        tmp_path.chmod(0o700)


def test_a_mistake_in_our_own_sql_is_not_dressed_up(tmp_path):
    with pytest.raises(sqlite3.OperationalError, match="syntax"):
        in_database(tmp_path / "x", lambda c: c.execute("SELEKT 1"))


def test_work_before_open_and_a_second_close_are_harmless(tmp_path):
    async def go():
        database = Database(tmp_path / "x")
        with pytest.raises(StorageError, match="not open"):
            await database.run(lambda _: None)
        await database.close()
        await database.close()

    asyncio.run(go())
