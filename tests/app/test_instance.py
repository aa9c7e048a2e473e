"""One running app per profile: what later starts bring arrives, and nothing that goes wrong between them hurts."""

import asyncio
import json
import socket
import tempfile
import threading
from contextlib import closing
from pathlib import Path

import pytest

from app.instance import Instance, _socket_of

PATIENCE_S = 0.4
FILES = [Path("/a ü.png"), Path("/b\udcff.png")]
"""The second name is no UTF-8."""


class Start(threading.Thread):
    """A start of its own, as far as it concerns others; `role` once it has ended."""

    def __init__(self, profile, files=(), patience_s=10.0):
        super().__init__()
        self._instance, self._files = Instance(profile, patience_s), list(files)
        self.role = None
        self.start()

    def run(self):
        self.role = self._instance.settle(self._files)
        del self._instance  # a process that has ended holds no lock


@pytest.fixture
def first(run, tmp_path):
    instance = Instance(tmp_path, PATIENCE_S)
    assert instance.settle([]) == "first"
    yield instance
    run(instance.close())
    assert not _socket_of(tmp_path).exists()


async def ended(start, until):
    await until(lambda: not start.is_alive())
    return start.role


def test_the_first_gets_the_files_of_later_starts(run, until, first, tmp_path):
    async def go():
        taken = []
        await first.listen(taken.append)
        assert await ended(Start(tmp_path, FILES), until) == "later"
        assert await ended(Start(tmp_path), until) == "later"
        assert taken == [FILES, []]

    run(go())


def test_profiles_know_nothing_of_each_other(first, tmp_path):
    (tmp_path / "other").mkdir()
    assert Instance(tmp_path / "other", PATIENCE_S).settle([]) == "first"


def test_a_later_start_waits_for_the_first_to_come_up(run, until, first, tmp_path):
    async def go():
        taken = []
        later = Start(tmp_path, FILES)
        await asyncio.sleep(0.2)  # longer than one of its attempts
        assert later.is_alive()
        await first.listen(taken.append)
        assert await ended(later, until) == "later"
        assert taken == [FILES]

    run(go())


def test_a_start_that_waits_becomes_the_first_when_that_one_ends(tmp_path):
    ending = Instance(tmp_path)
    assert ending.settle([]) == "first"
    later = Start(tmp_path, FILES)
    del ending
    later.join()
    assert later.role == "first"


def test_one_that_hangs_is_waited_for_only_so_long(first, tmp_path):
    with closing(socket.socket(socket.AF_UNIX)) as hanging:
        hanging.bind(str(_socket_of(tmp_path)))
        hanging.listen()
        assert Instance(tmp_path, PATIENCE_S).settle(FILES) == "unanswered"
    _socket_of(tmp_path).unlink()


def test_what_a_crash_has_left_is_in_nobody_s_way(run, until, first, tmp_path):
    with closing(socket.socket(socket.AF_UNIX)) as crashed:
        crashed.bind(str(_socket_of(tmp_path)))

    async def go():
        taken = []
        await first.listen(taken.append)
        assert await ended(Start(tmp_path, FILES), until) == "later"
        assert taken == [FILES]

    run(go())


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"\n",
        b"\x00\xff\xfe\n",
        b"no end",
        b"x" * (9 << 20),
        b"[" * 100_000 + b"\n",
        b"[]\n",
        b'{"files": 3}\n',
        b'{"files": [3]}\n',
        b'{"files": "/a.png"}\n',
        b'{"files": ["a.png"]}\n',
        json.dumps({"files": ["/a\0.png"]}).encode() + b"\n",
    ],
    ids=lambda value: f"{len(value)} {value[:12]!r}",
)
def test_garbage_is_refused_and_the_next_one_is_heard(run, until, first, tmp_path, garbage):
    async def go():
        taken = []
        await first.listen(taken.append)
        reader, writer = await asyncio.open_unix_connection(_socket_of(tmp_path))
        writer.write(garbage)
        try:
            await writer.drain()
            assert await reader.read() == b""
        except ConnectionError:
            pass  # it was too much to be read to the end
        writer.close()
        assert taken == []
        assert await ended(Start(tmp_path, FILES), until) == "later"
        assert taken == [FILES]

    run(go())


def test_the_first_can_end_while_somebody_has_not_finished_the_message(run, until, first, tmp_path):
    async def go():
        await first.listen(lambda files: None)
        reader, writer = await asyncio.open_unix_connection(_socket_of(tmp_path))
        writer.write(b'{"files": ')
        await until(lambda: first._guests._running)
        await first.close()
        assert await reader.read() == b""
        writer.close()

    run(go())


def test_a_folder_that_others_may_open_is_not_used(run, records, first, tmp_path, monkeypatch):
    with tempfile.TemporaryDirectory() as shared:
        monkeypatch.setattr(tempfile, "tempdir", shared)
        folder = _socket_of(tmp_path).parent
        folder.chmod(0o777)
        records.expect("cannot be listened to")
        run(first.listen(lambda files: None))
        assert not list(folder.iterdir())
        assert Instance(tmp_path, PATIENCE_S).settle(FILES) == "unanswered"
        monkeypatch.undo()


def test_a_long_path_to_the_folder_for_temporary_files_is_no_obstacle(run, until, tmp_path, monkeypatch):
    long = tmp_path / ("ü" * 60)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    first = Instance(tmp_path, PATIENCE_S)
    assert first.settle([]) == "first"

    async def go():
        taken = []
        await first.listen(taken.append)
        assert await ended(Start(tmp_path, FILES), until) == "later"
        assert taken == [FILES]
        await first.close()

    run(go())
    assert not _socket_of(tmp_path).exists()


def test_a_profile_that_cannot_be_locked_is_told_as_such(tmp_path):
    with pytest.raises(PermissionError) as caught:
        Instance(tmp_path / "missing").settle([])
    assert caught.value.filename == str(tmp_path / "missing")
