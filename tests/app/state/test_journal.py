import sqlite3

import pytest

from app.state import journal as module
from app.state.journal import Journal
from app.storage.database import Database, StorageError


@pytest.fixture
def database(run, tmp_path):
    database = Database(tmp_path / "x")
    run(database.open())
    run(as_coroutine(database.run(lambda c: c.execute("CREATE TABLE seen (value TEXT)"))))
    yield database
    run(database.close())


async def as_coroutine(awaitable):
    return await awaitable


@pytest.fixture
def journal(database):
    journal = Journal(database)
    journal.told = []
    journal.failed.connect(journal.told.append)
    return journal


def note(value):
    return lambda connection: connection.execute("INSERT INTO seen VALUES (?)", (value,))


def seen(run, database):
    return [row[0] for row in run(as_coroutine(database.run(lambda c: c.execute("SELECT value FROM seen").fetchall())))]


def test_writes_are_committed_in_order_without_being_asked(run, journal, database, until):
    async def go():
        journal.begin()
        for value in "abc":
            journal.write(note(value))
        await until(lambda: not journal._ordered and not journal._lock.locked())

    run(go())
    assert seen(run, database) == ["a", "b", "c"]


def test_later_work_under_a_key_replaces_earlier_and_waits_for_its_second(run, journal, database, until, monkeypatch):
    monkeypatch.setattr(module, "_SOON_MS", 60)

    async def go():
        journal.begin()
        for value in "abc":
            journal.write_soon("key", note(value))
        journal.write_soon("other", note("d"))
        first = await database.run(lambda c: c.execute("SELECT count(*) FROM seen").fetchone()[0])
        await until(lambda: not journal._latest)
        await journal.flush()
        return first

    assert run(go()) == 0
    assert seen(run, database) == ["c", "d"]


def test_ordered_work_never_overtakes_what_was_handed_in_before(run, journal, database):
    async def go():
        journal.begin()
        journal.write_soon("key", note("a"))
        journal.write(note("b"))
        journal.write_soon("key", note("c"))
        await journal.flush()

    run(go())
    assert seen(run, database) == ["a", "b", "c"]


def test_a_passing_fault_is_told_once_and_loses_nothing(run, journal, database, until, monkeypatch, records):
    records.expect("The library cannot be written")
    monkeypatch.setattr(module, "_RETRY_MS", 20)
    faults = [3]

    def flaky(connection):
        if faults[0]:
            faults[0] -= 1
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error
        note("a")(connection)

    async def go():
        journal.begin()
        journal.write(flaky)
        await until(lambda: journal.told)
        journal.write(note("b"))
        await until(lambda: not journal._ordered and not journal._failing)

    run(go())
    assert faults == [0]
    assert len(journal.told) == 1
    assert "disk is full" in journal.told[0]
    assert seen(run, database) == ["a", "b"]


def test_flush_raises_what_cannot_be_written_and_keeps_it(run, journal, database):
    def full(connection):
        error = sqlite3.OperationalError("full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    async def go():
        journal.begin()
        journal.write(full)
        journal.write(note("b"))
        with pytest.raises(StorageError):
            await journal.flush()
        journal._ordered.pop(0)
        await journal.flush()

    run(go())
    assert seen(run, database) == ["b"]


def test_one_wrong_write_does_not_take_its_neighbours_along(run, journal, database, records):
    records.expect("A write to the library was dropped")

    async def go():
        journal.begin()
        for work in (note("a"), lambda c: c.execute("SELEKT"), note("b")):
            journal.write(work)
        await journal.flush()

    run(go())
    assert seen(run, database) == ["a", "b"]


def test_an_abandoned_journal_takes_nothing(run, journal, database):
    async def go():
        journal.begin()
        journal.write(note("a"))
        journal.abandon()
        journal.write(note("b"))
        journal.write_soon("key", note("c"))
        await journal.flush()

    run(go())
    assert seen(run, database) == []


def test_nothing_is_committed_before_the_last_run_was_read(run, database, until):
    journal = Journal(database)

    async def go():
        journal.write(note("a"))
        journal.write_soon("key", note("b"))
        assert not journal._timer.isActive()
        journal.begin()
        await until(lambda: not journal._ordered and not journal._lock.locked())

    run(go())
    assert seen(run, database) == ["a", "b"]
