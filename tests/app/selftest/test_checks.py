"""Each check fails when what it checks is broken."""

import asyncio
import json
import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.selftest import answers, libraries, media, profile
from app.selftest.report import Failed
from engine.errors import RequestRejected

LONG = tuple(range(201))


@dataclass(frozen=True)
class Config:
    lend_stream: bool = True
    ssd_cache_dir: str = ""


class Engine:
    """A scheduler that gives the answers it was made with."""

    stop_tokens = frozenset({1})

    def __init__(self, *outputs, lending=True, reads=True, folder=""):
        self.outputs, self.lending, self.config, self.lent = list(outputs), lending, Config(ssd_cache_dir=folder), []
        self.reads, self.starts = reads, 0

    def apply_config(self, config):
        self.config = config

    async def start(self):
        self.starts += 1

    async def stop(self):
        (Path(self.config.ssd_cache_dir) / "piece").write_bytes(b"x" * 200_000)

    def remove_finished_request(self, name):
        return SimpleNamespace(cache_hit_type="ssd" if self.reads and self.starts else None)

    async def generate(self, **options):
        self.lent.append(self.config.lend_stream)
        output = self.outputs.pop(0)
        if isinstance(output, Exception):
            raise output
        return output


def long(tokens=LONG, reason="length", error=None):
    return SimpleNamespace(output_token_ids=tokens, finish_reason=reason, error=error, cached_tokens=14)


def lent(*outputs, **options):
    engine = Engine(*outputs, **options)
    return asyncio.run(answers.check_lent_stream(engine)), engine


def test_equal_tokens_pass_and_lending_is_on_again():
    told, engine = lent(long(), long())
    assert told.startswith("200 units lent")
    assert engine.lent == [True, False]
    assert engine.config.lend_stream


@pytest.mark.parametrize(
    ("outputs", "options", "sentence"),
    [
        ((long(), long((*LONG[:5], 0, *LONG[6:]))), {}, "From token 5 on"),
        ((long(),), {"lending": False}, "cannot be lent"),
        ((long((1, 2), "stop"),), {}, "ended early: stop"),
        ((long((), "error", "No room."),), {}, "ended early: No room."),
    ],
)
def test_a_lent_stream_that_is_not_as_good_fails(outputs, options, sentence):
    with pytest.raises(Failed, match=sentence):
        lent(*outputs, **options)


def test_what_is_read_back_from_disk_passes(tmp_path):
    engine = Engine(long(), long(), folder=str(tmp_path))
    assert asyncio.run(answers.check_cold_cache(engine)) == "0.2 MB written, 14 tokens read back"


@pytest.mark.parametrize(
    ("outputs", "options", "sentence"),
    [
        ((long(), long()), {"reads": False}, r"Nothing of 0\.2 MB on disk was read back"),
        ((long(), long((1,))), {}, "another answer"),
        ((long((), "error", "No room."),), {}, "not answered: No room."),
    ],
)
def test_a_cold_cache_that_is_not_as_good_fails(outputs, options, sentence, tmp_path):
    with pytest.raises(Failed, match=sentence):
        asyncio.run(answers.check_cold_cache(Engine(*outputs, folder=str(tmp_path), **options)))


REFUSAL = "This model cannot hear sound. Remove it, or choose a model that takes audio."


@pytest.mark.parametrize("output", [RequestRejected(REFUSAL), SimpleNamespace(error=REFUSAL)])
def test_a_refused_sound_passes_however_it_is_refused(output):
    assert asyncio.run(answers.check_sound_refused(Engine(output))) == REFUSAL


@pytest.mark.parametrize("output", [SimpleNamespace(error=None), SimpleNamespace(error="Something went wrong.")])
def test_a_sound_that_is_answered_or_fails_otherwise_does_not(output):
    with pytest.raises(Failed, match="not refused"):
        asyncio.run(answers.check_sound_refused(Engine(output)))


@pytest.fixture
def swapped(monkeypatch, tmp_path):
    """Files of every kind, but the pictures show the wrong colours."""
    from PIL import Image, ImageOps

    for suffix in ("png", "pdf"):
        ImageOps.mirror(Image.open(media.FOLDER / "halves.png")).save(tmp_path / f"halves.{suffix}")
    shutil.copy(tmp_path / "halves.png", tmp_path / "halves.mp4")
    monkeypatch.setattr(media, "FOLDER", tmp_path)
    return tmp_path


@pytest.mark.parametrize("read", [lambda: media.read_picture("png"), media.read_document])
def test_wrong_colours_are_noticed(swapped, read):
    with pytest.raises(Failed, match="was read as"):
        read()


def test_a_wrong_pitch_is_noticed(monkeypatch):
    monkeypatch.setattr(media, "_TONE_HZ", 523)
    with pytest.raises(Failed, match="523 Hz was read as 440 Hz"):
        media.read_tone()


def test_the_real_files_are_read():
    for check in media.CHECKS.values():
        assert asyncio.run(check())


@pytest.fixture
def session(tmp_path):
    """What a good session leaves."""
    (tmp_path / "settings.json").write_text(json.dumps({"schema_version": 1}))
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "braid.log").write_text("2026-11-30 21:00:00,000 INFO MainThread app: ERROR is only a word\n")
    (tmp_path / "media").mkdir()
    (tmp_path / "media" / "picture.png").touch()
    with closing(sqlite3.connect(tmp_path / "library.sqlite")) as connection:
        connection.execute("CREATE TABLE turns (state TEXT)")
        connection.executemany("INSERT INTO turns VALUES (?)", [("done",), ("done",)])
        connection.commit()
    return tmp_path


def test_a_good_session_passes(session):
    assert profile.check(session).startswith("2 turns, 1 media files")


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda folder: (folder / "settings.json").write_text("{}"), "settings were not written"),
        (lambda folder: (folder / "media" / "picture.png").unlink(), "was not kept"),
        (lambda folder: (folder / "logs" / "braid.log").write_text("d t ERROR T app: Lost\n"), "tells of an error"),
        (lambda folder: (folder / "library.sqlite").unlink(), "no such table|holds 0 turns"),
    ],
)
def test_what_a_session_must_leave_is_missed(session, spoil, sentence):
    spoil(session)
    with pytest.raises((Failed, sqlite3.OperationalError), match=sentence):
        profile.check(session)


def test_versions_of_two_qts_are_noticed(monkeypatch, qapp):
    monkeypatch.setattr(libraries, "qVersion", lambda: "6.0.0")
    with pytest.raises(Failed, match=r"runs on Qt 6\.0\.0"):
        libraries.versions()


def test_a_second_copy_of_a_library_is_noticed(monkeypatch):
    monkeypatch.setattr(libraries, "images", lambda: [Path("/a/libmlx.so"), Path("/b/libmlx.so")])
    with pytest.raises(Failed, match=r"2 copies of one library: /a/libmlx\.so, /b/libmlx\.so"):
        libraries.loaded()


def test_a_bundle_s_libraries_come_from_the_bundle(monkeypatch, tmp_path):
    inside = tmp_path / "mlx" / "lib" / "libmlx.dylib"
    monkeypatch.setattr(libraries, "bundle", lambda: tmp_path)
    monkeypatch.setattr(libraries, "images", lambda: [inside, Path("/usr/lib/libSystem.B.dylib")])
    assert libraries.loaded() == "mlx/lib/libmlx.dylib"
    monkeypatch.setattr(libraries, "images", lambda: [Path("/opt/lib/libavcodec.62.dylib")])
    with pytest.raises(Failed, match="comes from outside the bundle"):
        libraries.loaded()


def test_the_running_process_s_libraries_are_seen(qapp):
    assert any(path.name.startswith("libQt6Core") for path in libraries.images())
