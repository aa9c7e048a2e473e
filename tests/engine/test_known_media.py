"""Media of earlier turns are not decoded again, unless their pixels are needed after all."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine import MLLMScheduler, known_media, reader
from engine.errors import MediaError
from engine.known_media import KnownMedia
from engine.models.families import open_port
from engine.reader import Reader
from tests.engine import families, tiny
from tests.engine.clips import VIDEO, blobs, clip
from tests.engine.conftest import Make, Run
from tests.engine.documents import pdf
from tests.engine.test_audio_requests import tone

NO_CACHES = {"enable_prefix_cache": False, "enable_vision_cache": False}


class Counted:
    """A reading function that counts its calls, and waits for leave where that is asked of it."""

    def __init__(self, real: Callable[..., Any]) -> None:
        self._real = real
        self.calls = 0
        self.leave = threading.Event()
        self.leave.set()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        assert self.leave.wait(20)
        return self._real(*args, **kwargs)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> Counted:
    counted = Counted(reader.read_image)
    monkeypatch.setattr(reader, "read_image", counted)
    return counted


def photo(folder: Path, seed: int = 1, name: str = "photo.png") -> Path:
    tiny.picture(64, 64, seed).save(folder / name)
    return folder / name


def ask(scheduler: MLLMScheduler, text: str, *images: Any) -> str:
    return scheduler.add_request(tiny.chat(text, len(images)), images, max_tokens=6, temperature=0.0)


def tokens(scheduler: MLLMScheduler, *request_ids: str) -> list[list[int]]:
    while scheduler.has_requests():
        scheduler.step()
    requests = [scheduler.get_request(request_id) for request_id in request_ids]
    assert [request.error for request in requests if request is not None] == [None] * len(request_ids)
    return [list(request.output_tokens) for request in requests if request is not None]


def test_a_follow_up_decodes_only_what_is_new(tmp_path: Path, make: Make, decoded: Counted) -> None:
    scheduler = make(tiny.dense())
    first, second = photo(tmp_path), photo(tmp_path, 2, "second.png")
    tokens(scheduler, ask(scheduler, "What is it?", first))
    tokens(scheduler, ask(scheduler, "What else?", first))
    assert decoded.calls == 1
    tokens(scheduler, ask(scheduler, "And these?", first, second))
    assert decoded.calls == 2


@pytest.mark.parametrize("caches", [{}, {"enable_prefix_cache": False}, {"enable_vision_cache": False}, NO_CACHES])
def test_answers_are_the_same_whichever_caches_there_are(
    tmp_path: Path, make: Make, decoded: Counted, caches: dict[str, bool], tiny_model: Any
) -> None:
    scheduler = make(tiny_model, **caches)
    pair = photo(tmp_path), photo(tmp_path, 2, "second.png")
    (fresh,) = tokens(scheduler, ask(scheduler, "Compare them.", *pair))
    (again,) = tokens(scheduler, ask(scheduler, "Compare them.", *pair))
    assert again == fresh
    assert decoded.calls == (4 if caches == NO_CACHES else 2)
    together = [ask(scheduler, "Compare them.", *pair) for _ in range(2)]
    assert tokens(scheduler, *together) == [fresh, fresh]


def test_bytes_and_data_urls_are_known_by_what_they_hold(tmp_path: Path, make: Make, decoded: Counted) -> None:
    scheduler = make(tiny.dense())
    data = photo(tmp_path).read_bytes()
    for _ in range(2):
        tokens(scheduler, ask(scheduler, "What is it?", bytes(data)))
    assert decoded.calls == 1


def test_a_file_that_was_changed_is_read_anew(tmp_path: Path, make: Make, decoded: Counted) -> None:
    scheduler = make(tiny.dense())
    file = photo(tmp_path)
    stamp = file.stat()
    tokens(scheduler, ask(scheduler, "What is it?", file))
    photo(tmp_path, 2)
    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    (changed,) = tokens(scheduler, ask(scheduler, "What is it?", file))
    assert decoded.calls == 2
    fresh = make(tiny.dense())
    assert tokens(fresh, ask(fresh, "What is it?", file)) == [changed]


def test_a_link_that_is_turned_while_it_is_read_is_not_taken_for_what_it_was(
    tmp_path: Path, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler, link = make(tiny.dense()), tmp_path / "latest.png"
    first, second = photo(tmp_path), photo(tmp_path, 2, "second.png")
    link.symlink_to(first)
    read = reader.read_image

    def turned(*args: Any, **options: Any) -> Any:
        turn(link, second)
        return read(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(reader, "read_image", turned)
        tokens(scheduler, ask(scheduler, "What is it?", link))
    turn(link, first)
    (again,) = tokens(scheduler, ask(scheduler, "What is it?", link))
    fresh = make(tiny.dense())
    assert tokens(fresh, ask(fresh, "What is it?", first)) == [again]


def turn(link: Path, target: Path) -> None:
    link.unlink()
    link.symlink_to(target)


def test_a_change_that_the_files_times_did_not_tell_is_found_out_once(
    tmp_path: Path, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "identity", lambda _: b"the same size, within one tick of the clock")
    scheduler = make(tiny.dense(), **NO_CACHES)
    file = photo(tmp_path)
    tokens(scheduler, ask(scheduler, "What is it?", file))
    photo(tmp_path, 2)
    failed = ask(scheduler, "What is it?", file)
    while scheduler.has_requests():
        scheduler.step()
    request = scheduler.get_request(failed)
    assert request is not None
    assert "Send the question again" in (request.error or "")
    (again,) = tokens(scheduler, ask(scheduler, "What is it?", file))
    fresh = make(tiny.dense())
    assert tokens(fresh, ask(fresh, "What is it?", file)) == [again]


@pytest.mark.parametrize("gone", [True, False])
def test_a_file_that_goes_or_changes_at_the_last_moment_ends_its_own_request(
    tmp_path: Path, make: Make, caplog: pytest.LogCaptureFixture, gone: bool
) -> None:
    scheduler = make(tiny.dense(), **NO_CACHES)
    file = photo(tmp_path)
    tokens(scheduler, ask(scheduler, "What is it?", file))
    lost, other = ask(scheduler, "And now?", file), ask(scheduler, "Hello.")
    while lost in scheduler.intake._jobs and not scheduler.intake._jobs[lost].done():
        scheduler.intake.wait()
    if gone:
        file.unlink()
    else:
        photo(tmp_path, 2)
    while scheduler.has_requests():
        scheduler.step()
    failed, fine = scheduler.get_request(lost), scheduler.get_request(other)
    assert failed is not None
    assert fine is not None
    assert failed.error is not None
    assert ("could not be found" if gone else "has just been changed") in failed.error
    assert len(fine.output_tokens) == 6
    assert not caplog.records  # nothing that failed here


def test_chats_that_need_the_same_picture_at_once_read_it_once(tmp_path: Path, make: Make, decoded: Counted) -> None:
    scheduler = make(tiny.dense(), enable_prefix_cache=False, prefill_batch_size=4)
    file = photo(tmp_path)
    (fresh,) = tokens(scheduler, ask(scheduler, "What is it?", file))
    scheduler.caches.vision.clear()
    assert tokens(scheduler, *(ask(scheduler, "What is it?", file) for _ in range(4))) == [fresh] * 4
    assert decoded.calls == 2


def test_two_that_read_the_same_picture_do_not_wait_for_each_other(
    tmp_path: Path, make: Make, decoded: Counted
) -> None:
    scheduler = make(tiny.dense(), prefill_batch_size=4, **NO_CACHES)
    file = photo(tmp_path)
    (fresh,) = tokens(scheduler, ask(scheduler, "What is it?", file))
    decoded.leave.clear()
    pair = [ask(scheduler, "What is it?", file) for _ in range(2)]
    while decoded.calls < 3:
        scheduler._begin()
    scheduler.apply_config(replace(scheduler.config, enable_vision_cache=True))
    decoded.leave.set()
    assert tokens(scheduler, *pair) == [fresh] * 2


def test_others_go_on_while_a_picture_is_read_again(tmp_path: Path, make: Make, run: Run, decoded: Counted) -> None:
    scheduler = make(tiny.dense(), **NO_CACHES)
    scheduler.port.stop_ids = frozenset()
    file = photo(tmp_path)

    async def talk() -> tuple[str | None, int]:
        await scheduler.start()
        await scheduler.generate(tiny.chat("What is it?", 1), [file], max_tokens=2)
        decoded.leave.clear()
        waiting = await scheduler.add_request_async(tiny.chat("And now?", 1), [file], max_tokens=2)
        other = await scheduler.generate(tiny.chat("Hello."), max_tokens=20, temperature=0.0)
        assert scheduler.get_request(waiting) is not None
        decoded.leave.set()
        outputs = [output async for output in scheduler.stream_outputs(waiting)]
        await scheduler.stop()
        return outputs[-1].error, other.completion_tokens

    assert run(talk()) == (None, 20)
    assert decoded.calls == 2


def test_stop_while_a_picture_is_read_again(tmp_path: Path, make: Make, run: Run, decoded: Counted) -> None:
    scheduler = make(tiny.dense(), **NO_CACHES)
    file = photo(tmp_path)

    async def talk() -> str | None:
        await scheduler.start()
        await scheduler.generate(tiny.chat("What is it?", 1), [file], max_tokens=2)
        decoded.leave.clear()
        stopped = await scheduler.add_request_async(tiny.chat("And now?", 1), [file], max_tokens=2)
        await scheduler.generate(tiny.chat("Hello."), max_tokens=2)
        scheduler.abort_request(stopped)
        outputs = [output async for output in scheduler.stream_outputs(stopped)]
        decoded.leave.set()
        await scheduler.stop()
        return outputs[-1].finish_reason

    assert run(talk()) == "abort"


@pytest.mark.parametrize("caches", [{}, NO_CACHES])
def test_patches_go_once_they_are_encoded_and_are_read_again_after_a_failed_step(
    tmp_path: Path, make: Make, decoded: Counted, monkeypatch: pytest.MonkeyPatch, caches: dict[str, bool]
) -> None:
    scheduler = make(tiny.dense(), **caches)
    file = photo(tmp_path)
    (expected,) = tokens(scheduler, ask(scheduler, "What is it?", file))
    scheduler.reset()
    scheduler.intake._known = KnownMedia()
    asked = ask(scheduler, "What is it?", file)
    while not (request := scheduler.get_request(asked)) or not request.output_tokens:
        scheduler.step()
    (row,) = scheduler.batch.rows
    assert [item.patches.nbytes for item in row.prompt.media] == [0]
    with monkeypatch.context() as patch:
        patch.setattr(scheduler.port, "decode", _broken)
        scheduler.step()
    assert tokens(scheduler, asked) == [expected]
    assert decoded.calls == (3 if caches else 2)


def _broken(*_: Any) -> Any:
    raise RuntimeError("the device is on fire")


def reads(monkeypatch: pytest.MonkeyPatch, name: str) -> Counted:
    counted = Counted(getattr(reader, name))
    monkeypatch.setattr(reader, name, counted)
    return counted


def test_the_pages_of_a_document_are_drawn_once(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn, scheduler, document = reads(monkeypatch, "read_pdf"), make(tiny.dense()), pdf(3)
    for question in ("What is it?", "And how long?"):
        content = [{"type": "pdf", "pdf": document}, {"type": "text", "text": question}]
        tokens(scheduler, scheduler.add_request(messages=[{"role": "user", "content": content}], max_tokens=3))
    assert drawn.calls == 3


def test_a_clip_is_decoded_once(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded, scheduler, frames = reads(monkeypatch, "read_video"), make(tiny.dense()), clip(blobs(12))
    for question in ("What is it?", "And how long?"):
        tokens(scheduler, scheduler.add_request(tiny.chat(VIDEO + question), videos=[frames], max_tokens=3))
    assert decoded.calls == 1


def test_a_sound_is_decoded_once(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded, scheduler = reads(monkeypatch, "read_audio"), make(families.gemma_4())
    for question in ("what is it?", "and how long?"):
        tokens(scheduler, scheduler.add_request(families.chat(question, "<audio>"), audio=[tone(1.0)], max_tokens=3))
    assert decoded.calls == 1


def test_what_decides_the_layout_is_part_of_the_name() -> None:
    port, known = open_port(*tiny.dense()), KnownMedia()
    source = reader.MediaSource("video", clip(blobs(24)))
    layouts = [Reader(fps, known=known).place(port, source).layout.runs for fps in (2.0, 8.0, 2.0)]
    assert layouts[0] == layouts[2] != layouts[1]
    part = reader.MediaSource("video", source.source, start=0.5)
    assert Reader(known=known).place(port, part).key != Reader(known=known).place(port, source).key


def test_what_cannot_be_read_is_not_known(tmp_path: Path) -> None:
    port, known = open_port(*tiny.dense()), KnownMedia()
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nnothing")
    for _ in range(2):
        with pytest.raises(MediaError, match="damaged"):
            Reader(known=known).place(port, reader.MediaSource("image", tmp_path / "broken.png"))


def test_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_media, "_MOST", 2)
    known, found = KnownMedia(), (reader.Layout("", (1,), 1), "key")
    for name in "ab":
        known.put(name, found)
    known.get("a")
    known.put("c", found)
    assert [known.get(name) is not None for name in "abc"] == [True, False, True]


def test_unread_media_hold_no_pixels() -> None:
    port, known = open_port(*tiny.dense()), KnownMedia()
    source = reader.MediaSource("image", _png())
    first, second = (Reader(known=known).place(port, source) for _ in range(2))
    assert (second.key, second.layout, second.patches.size) == (first.key, first.layout, 0)
    assert second.read is not None
    np.testing.assert_array_equal(second.read().patches, first.patches)


def _png() -> bytes:
    stream = io.BytesIO()
    tiny.picture(64, 64, 1).save(stream, "PNG")
    return stream.getvalue()
