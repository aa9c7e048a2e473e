"""The cold tier survives restarts, kills, damage, full disks and neighbours, within its size, and is never wrong."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import mlx.core as mx
import numpy as np
import pytest
from PIL import Image, ImageDraw

from engine import MLLMRequest, MLLMScheduler, MLLMSchedulerConfig, device, tensor_file
from engine.host_array import HostArray, of_numpy, to_device, to_host
from engine.prefix_key import prefix_key
from engine.ssd_cache import Piece, SsdCache
from engine.ssd_folder import FileName, SsdFolder
from engine.tensor_file import DamagedFile
from tests.engine import cold_tier, tiny

ROOT = Path(__file__).parents[2]
Message = dict[str, Any]
SYSTEM: Message = {"role": "system", "content": "You answer in full sentences, and you are careful with colours."}
QUESTION = "what is in the picture, and where in the picture is it, and which colour has it got?"
KB = 1000


def user(text: str, *pictures: tuple[int, int, int]) -> Message:
    parts = [{"type": "image", "image": tiny.picture(*picture)} for picture in pictures]
    return {"role": "user", "content": [*parts, {"type": "text", "text": text}]}


def ask(scheduler: MLLMScheduler, messages: list[Message], tokens: int = 6) -> MLLMRequest:
    request_id = scheduler.add_request(messages=messages, max_tokens=tokens, temperature=0.0)
    while scheduler.has_requests():
        scheduler.step()
    request = scheduler.get_request(request_id)
    assert request is not None
    assert request.error is None
    return request


def stats(scheduler: MLLMScheduler) -> dict[str, Any]:
    assert scheduler.caches.ssd is not None
    scheduler.caches.ssd.flush()
    assert scheduler.caches.ssd.ready
    return scheduler.get_stats()["ssd_cache"]


def on_disk(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.safetensors") if path.parent.name != "quarantine")


def used(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def model_folder(tmp_path: Path, tiny_model: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files that tell the tiny model from others."""
    cold_tier.identify(tiny_model[0], tmp_path / "model", monkeypatch)
    return tmp_path / "model"


@pytest.fixture
def restart(make: Any, tiny_model: Any, tmp_path: Path, model_folder: Path) -> Iterator[Any]:
    """Builds schedulers on one cache folder, the one before ended first."""
    made: list[MLLMScheduler] = []

    def build(**config: Any) -> MLLMScheduler:
        for scheduler in made:
            scheduler.caches.close()
        made.append(make(tiny_model, ssd_cache_dir=tmp_path / "ssd", **config))
        return made[-1]

    yield build
    for scheduler in made:
        scheduler.caches.close()


def cold(make: Any, tiny_model: Any, messages: list[Message], tokens: int = 6) -> list[int]:
    scheduler = make(tiny_model, enable_prefix_cache=False, enable_vision_cache=False)
    return ask(scheduler, messages, tokens).output_tokens


# -------------------------------------------------------------------- a scheduler on a folder


def test_after_a_restart_a_conversation_goes_on_from_disk(
    restart: Any, make: Any, tiny_model: Any, tmp_path: Path
) -> None:
    chat = [SYSTEM, user(QUESTION, (96, 128, 1))]
    first = restart()
    before = ask(first, chat)
    assert (before.cached_tokens, before.cache_hit_type) == (0, None)
    cold_tier.write(first)
    assert stats(first)["written"] == stats(first)["entry_count"] == len(on_disk(tmp_path / "ssd")) > 0
    second = restart()
    after = ask(second, chat)
    assert (after.cached_tokens, after.cache_hit_type) == (before.num_prompt_tokens - 1, "ssd")
    assert after.output_tokens == before.output_tokens == cold(make, tiny_model, chat)
    figures = stats(second)
    assert (figures["hits"], figures["tokens_saved"]) == (1, after.cached_tokens)
    assert second.get_stats()["memory_aware_cache"]["tokens_saved"] == 0
    # What came from disk is in memory now.
    again = ask(second, chat)
    assert (again.cache_hit_type, again.output_tokens) == ("memory", before.output_tokens)


def test_edits_forks_and_other_pictures_after_a_restart(restart: Any, make: Any, tiny_model: Any) -> None:
    first = restart()
    ask(first, [SYSTEM, user(QUESTION, (96, 128, 1))])
    cold_tier.write(first)
    second = restart()
    for question in (
        user("how many corners has it got?", (96, 128, 1)),
        user(QUESTION, (96, 128, 2)),
        user(QUESTION),
    ):
        messages = [SYSTEM, question]
        request = ask(second, messages)
        assert request.output_tokens == cold(make, tiny_model, messages)
        assert request.cached_tokens >= len(str(SYSTEM["content"]))
    assert stats(second)["hits"] >= 1


def test_stopping_writes_what_is_not_on_disk_yet(
    make: Any, run: Any, tiny_model: Any, model_folder: Path, tmp_path: Path
) -> None:
    chat = [SYSTEM, user(QUESTION)]
    found = []

    async def work() -> None:
        scheduler = make(tiny_model, ssd_cache_dir=tmp_path / "ssd")
        for _ in range(2):
            await scheduler.start()
            found.append(await scheduler.generate(messages=chat, max_tokens=4, temperature=0.0))
            await scheduler.stop()
            assert not [thread for thread in threading.enumerate() if "ssd" in thread.name]

    run(work())
    assert found[0].output_token_ids == found[1].output_token_ids
    assert found[1].cached_tokens == found[0].prompt_tokens - 1


def test_reading_from_disk_holds_up_only_who_needs_it(restart: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    chat = [SYSTEM, user(QUESTION)]
    first = restart()
    ask(first, chat)
    cold_tier.write(first)
    second = restart()
    gate = threading.Event()
    read = tensor_file.read

    def slow(path: Path) -> Any:
        assert gate.wait(30)
        return read(path)

    monkeypatch.setattr(tensor_file, "read", slow)
    needs = second.add_request(messages=chat, max_tokens=4, temperature=0.0)
    second.intake.wait()
    second.caches.ssd.wait()
    second._begin()
    other = second.add_request(messages=[user("something else altogether, with nothing in common")], max_tokens=3)
    second.intake.wait()
    while not second.get_request(other).status.finished:
        second.step()
    assert second.get_request(needs).num_output_tokens == 0
    gate.set()
    while second.has_requests():
        second.step()
    assert second.get_request(needs).cache_hit_type == "ssd"


def test_a_request_aborted_while_it_is_read_for_leaves_nothing(restart: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    first = restart()
    ask(first, [SYSTEM, user(QUESTION)])
    cold_tier.write(first)
    second = restart()
    request_id = second.add_request(messages=[SYSTEM, user(QUESTION)], max_tokens=4)
    second.intake.wait()
    second.caches.ssd.wait()
    second._begin()
    assert second.caches._promotion._jobs
    assert second.abort_request(request_id)
    while second.has_requests():
        second.step()
    assert second.caches._promotion._jobs == second.caches._promotion._found == {}


def damage_middle(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) * 3 // 4] ^= 1
    path.write_bytes(data)


def damage_header(path: Path) -> None:
    path.write_bytes(b"\xff" * 40)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def swap(path: Path) -> None:
    """Another run's contents under this name, whole and with a valid checksum."""
    arrays, meta = tensor_file.read(path)
    key = arrays["key"].data.copy()
    key[0, 0] += 1
    arrays["key"] = of_numpy(key)
    with path.open("wb") as file:
        tensor_file.write(file, arrays, meta)


@pytest.mark.parametrize("damage", [damage_middle, damage_header, cut, empty, swap, Path.unlink])
def test_what_is_damaged_is_computed_again(
    restart: Any, make: Any, tiny_model: Any, tmp_path: Path, damage: Any
) -> None:
    chat = [SYSTEM, user(QUESTION, (96, 128, 1))]
    first = restart()
    ask(first, chat)
    cold_tier.write(first)
    second = restart()
    assert second.caches.ssd is None  # before the first request nothing is read
    hurt = on_disk(tmp_path / "ssd")
    for path in hurt:
        damage(path)
    request = ask(second, chat)
    assert request.output_tokens == cold(make, tiny_model, chat)
    assert request.cache_hit_type is None
    figures = stats(second)
    if damage is not Path.unlink:
        aside = list((tmp_path / "ssd").rglob("quarantine/*"))
        assert 0 < len(aside) <= 4
        assert figures["quarantined"] > 0
    cold_tier.write(second)
    third = restart()
    assert ask(third, chat).cache_hit_type == "ssd"


def test_damage_found_while_reading_leaves_what_is_before_it(
    restart: Any, make: Any, tiny_model: Any, tmp_path: Path
) -> None:
    chat = [SYSTEM, user(QUESTION, (96, 128, 1))]
    first = restart()
    reply = ask(first, chat)
    cold_tier.write(first)
    second = restart()
    ask(second, [user("hello")], 2)
    second.caches.wait()
    assert second.caches.ssd is not None
    assert second.caches.ssd.ready
    longer = [*chat, {"role": "assistant", "content": reply.output_text}, user("and?")]
    second.intake.history = first.intake.history
    last = max(second.caches.ssd._nodes.values(), key=lambda node: node.end)
    damage_middle(second.caches.ssd._folder.path(last.attention.data))
    request = ask(second, longer)
    cold_one = make(tiny_model, enable_prefix_cache=False)
    cold_one.intake.history = first.intake.history
    assert request.output_tokens == ask(cold_one, longer).output_tokens
    assert request.cache_hit_type == "ssd"
    assert len(str(SYSTEM["content"])) <= request.cached_tokens < last.end
    assert stats(second)["quarantined"] == 1


def test_other_weights_or_settings_never_meet(restart: Any, model_folder: Path) -> None:
    chat = [SYSTEM, user(QUESTION)]
    first = restart()
    ask(first, chat)
    cold_tier.write(first)
    packed = {"kv_cache_quantization": True, "kv_cache_quantization_group_size": 32}
    assert ask(restart(**packed), chat).cached_tokens == 0
    with (model_folder / "model.safetensors").open("wb") as file:
        tensor_file.write(file, {"weight": of_numpy(np.zeros(4, np.float32))}, {})
    assert ask(restart(), chat).cached_tokens == 0
    (model_folder / "preprocessor_config.json").write_text('{"min_pixels": 1}')
    changed = restart()
    assert ask(changed, chat).cached_tokens == 0
    cold_tier.write(changed)
    assert ask(restart(), chat).cached_tokens > 0


@pytest.mark.parametrize("bits", [8, 4])
def test_quantised_prefixes_are_stored_as_they_are(restart: Any, tmp_path: Path, bits: int) -> None:
    packed = {
        "kv_cache_quantization": True,
        "kv_cache_quantization_bits": bits,
        "kv_cache_quantization_group_size": 32,
    }
    chat = [SYSTEM, user(QUESTION)]
    first = restart(**packed)
    ask(first, chat)
    in_memory = ask(first, chat)
    cold_tier.write(first)
    from_disk = ask(restart(**packed), chat)
    assert (from_disk.cache_hit_type, from_disk.cached_tokens) == ("ssd", in_memory.cached_tokens)
    assert from_disk.output_tokens == in_memory.output_tokens
    runs = [tensor_file.read(path) for path in on_disk(tmp_path / "ssd") if ".kv." in path.name]
    assert all(meta["bits"] == str(bits) for _, meta in runs)
    assert any(name.endswith(".packed") for arrays, _ in runs for name in arrays)


def test_what_memory_lets_go_is_on_disk(restart: Any, make: Any, tiny_model: Any) -> None:
    scheduler = restart(prefix_cache_memory_mb=1)
    chats = [[user(f"{number} " * 100)] for number in range(8)]
    expected = [ask(scheduler, chat, 2).output_tokens for chat in chats]
    cold_tier.write(scheduler)
    found = [ask(scheduler, chat, 2) for chat in chats]
    assert [request.output_tokens for request in found] == expected
    assert all(request.cached_tokens == request.num_prompt_tokens - 1 for request in found)
    assert "ssd" in {request.cache_hit_type for request in found}


def test_a_model_without_a_folder_runs_without_the_disk(make: Any, tmp_path: Path) -> None:
    scheduler = make(tiny.dense(), ssd_cache_dir=tmp_path / "ssd")
    ask(scheduler, [user("hello")])
    assert "loaded from a folder" in stats(scheduler)["problem"]
    scheduler.caches.close()
    assert used(tmp_path) == 0


def test_clearing_the_disk_is_asked_for_by_name(restart: Any, tmp_path: Path) -> None:
    scheduler = restart()
    ask(scheduler, [SYSTEM, user(QUESTION)])
    cold_tier.write(scheduler)
    scheduler.clear_runtime_caches()
    scheduler.caches.flush()
    assert on_disk(tmp_path / "ssd")
    scheduler.clear_runtime_caches(ssd=True)
    scheduler.caches.flush()
    assert not on_disk(tmp_path / "ssd")
    assert (stats(scheduler)["entry_count"], stats(scheduler)["current_memory_mb"]) == (0, 0.0)
    assert ask(scheduler, [SYSTEM, user(QUESTION)]).cached_tokens == 0


def test_a_smaller_limit_holds_at_once(restart: Any, tmp_path: Path) -> None:
    scheduler = restart()
    for number in range(3):
        ask(scheduler, [SYSTEM, user(f"{number} {QUESTION}")])
    cold_tier.write(scheduler)
    before = used(tmp_path / "ssd")
    limit = before / 2 / 1e9
    assert scheduler.apply_config(MLLMSchedulerConfig(ssd_cache_dir=tmp_path / "ssd", ssd_cache_max_gb=limit)) == set()
    assert stats(scheduler)["max_memory_mb"] == pytest.approx(before / 2e6, abs=0.01)
    assert 0 < used(tmp_path / "ssd") <= before / 2


# -------------------------------------------------------------------- the folder itself


def piece(ids: list[int], parent: str = "", start: int = 0, size: int = 10 * KB) -> Piece:
    values = np.full(size // 4, ids[0], np.float32)
    return Piece("kv", parent, prefix_key(ids), start, {"0.k": of_numpy(values)}, {"bits": "0"})


@pytest.fixture
def open_cache(tmp_path: Path) -> Iterator[Any]:
    made: list[SsdCache] = []

    def build(name: str = "model", max_bytes: int = 1000 * KB) -> SsdCache:
        cache = SsdCache(tmp_path, lambda: name, max_bytes, stateful=False, on_change=lambda: None)
        made.append(cache)
        cache.wait()
        assert cache.ready
        return cache

    yield build
    for cache in made:
        cache.end()
        cache.join()


def close(cache: SsdCache) -> None:
    cache.end()
    cache.join()


def test_the_limit_holds_over_models_and_restarts_and_the_oldest_go_first(open_cache: Any, tmp_path: Path) -> None:
    limit = 100 * KB
    for name in ("a", "b"):
        cache = open_cache(name, limit)
        for number in range(12):
            assert cache.submit(piece([number]))
            cache.flush()
            assert used(tmp_path) <= limit
            time.sleep(0.002)  # file times must differ
        close(cache)
    left = {path.parent.name for path in on_disk(tmp_path)}
    assert left == {"b"}
    again = open_cache("b", limit)
    assert again.find(prefix_key([11])) is not None
    assert again.find(prefix_key([0])) is None
    assert open_cache("a", limit).find(prefix_key([11])) is None


def test_what_was_read_lately_stays(open_cache: Any) -> None:
    cache = open_cache("a", 45 * KB)
    for number in range(3):
        cache.submit(piece([number]))
        cache.flush()
        time.sleep(0.01)
    assert cache.fetch(cache.find(prefix_key([0]))).result() is not None
    time.sleep(0.01)
    for number in range(3, 5):
        cache.submit(piece([number]))
        cache.flush()
    assert cache.find(prefix_key([0])) is not None
    assert cache.find(prefix_key([1])) is None


def test_a_run_goes_after_what_continues_it(open_cache: Any) -> None:
    cache = open_cache("a", 45 * KB)
    first = piece([1])
    second = piece([2], first.name.id, 1)
    for one in (first, second, piece([5]), piece([6]), piece([7])):
        cache.submit(one)
        cache.flush()
        time.sleep(0.01)
    whole = prefix_key([1, 2])
    assert cache.find(whole).length == 1  # the oldest file is still there, its continuation is not
    assert cache.find(prefix_key([7])) is not None


def test_a_chain_longer_than_the_limit_keeps_its_beginning(open_cache: Any, tmp_path: Path) -> None:
    cache = open_cache("a", 35 * KB)
    parent, ids = "", list(range(1, 8))
    for start, one in enumerate(ids):
        link = piece([one], parent, start)
        cache.submit(link)
        parent = link.name.id
    cache.flush()
    assert cache.find(prefix_key(ids)).length == 3
    assert used(tmp_path) <= 35 * KB


def test_one_piece_larger_than_the_limit_is_not_written(open_cache: Any, tmp_path: Path) -> None:
    cache = open_cache("a", 20 * KB)
    cache.submit(piece([1], size=50 * KB))
    cache.flush()
    assert (cache.find(prefix_key([1])), used(tmp_path), cache.snapshot()["write_errors"]) == (None, 0, 0)


def test_a_slow_disk_bounds_the_queue_and_drops_nothing_silently(
    open_cache: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.ssd_cache._QUEUE_BYTES", 25 * KB)
    cache = open_cache()
    gate = threading.Event()
    cache._jobs.put(gate.wait)
    taken = [cache.submit(piece([number])) for number in range(5)]
    assert taken == [True, True, False, False, False]
    assert cache.snapshot()["dropped"] == 3
    assert cache.snapshot()["queued_mb"] == pytest.approx(0.02)
    assert not cache.has(piece([4]).name)
    gate.set()
    cache.flush()
    assert cache.ready
    assert cache.room == 25 * KB
    assert cache.submit(piece([4]))


@pytest.mark.parametrize(
    ("code", "sentence"), [(errno.ENOSPC, "is full. Free some space"), (errno.EIO, "cannot be used")]
)
def test_a_disk_that_fails_is_told_once_and_nothing_half_written_stays(
    open_cache: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
    code: int,
    sentence: str,
) -> None:
    cache = open_cache()
    write = tensor_file.write

    def broken(file: BinaryIO, *_: Any) -> None:
        file.write(b"half")
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(tensor_file, "write", broken)
    for number in range(3):
        cache.submit(piece([number]))
    cache.flush()
    assert cache.ready
    assert sentence in cache.snapshot()["problem"]
    assert cache.snapshot()["write_errors"] == 3
    assert len([record for record in caplog.records if sentence in record.message]) == 1
    assert used(tmp_path) == 0
    monkeypatch.setattr(tensor_file, "write", write)
    cache.submit(piece([9]))
    cache.flush()
    assert cache.find(prefix_key([9])) is not None
    assert cache.snapshot()["problem"] == ""


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = SsdCache(tmp_path / "file", lambda: "a", 1000, stateful=False, on_change=lambda: None)
    cache.submit(piece([1]))
    close(cache)
    assert "cannot be used" in cache.snapshot()["problem"]
    assert cache.find(prefix_key([1])) is None


def test_parts_left_by_a_dead_process_go_at_the_next_start(open_cache: Any, tmp_path: Path) -> None:
    close(open_cache())
    part = tmp_path / "braid-prefixes" / "model" / "root.abc.kv.safetensors.part"
    part.write_bytes(b"x" * 1000)
    foreign = tmp_path / "notes.txt"
    foreign.write_text("mine")
    open_cache()
    assert not part.exists()
    assert foreign.read_text() == "mine"


_WRITER = """
import sys
from pathlib import Path
from tests.engine.test_ssd_cache import KB, piece
from engine.ssd_cache import SsdCache
cache = SsdCache(Path(sys.argv[1]), lambda: sys.argv[2], 150 * KB, stateful=False, on_change=lambda: None)
cache.wait()
print("ready", flush=True)
for number in range(int(sys.argv[3])):
    while not cache.submit(piece([number])):
        cache.flush()
        cache.ready
cache.end()
cache.join()
"""


def writer(folder: Path, name: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", textwrap.dedent(_WRITER), str(folder), name, str(count)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def test_two_processes_share_a_folder_and_one_limit(tmp_path: Path, open_cache: Any) -> None:
    processes = [writer(tmp_path, name, 60) for name in ("a", "a")]
    most = 0
    while any(process.poll() is None for process in processes):
        most = max(most, sum(_size(path) for path in tmp_path.rglob("*.safetensors*")))
        time.sleep(0.005)
    for process in processes:
        assert process.stdout is not None
        process.stdout.close()
        assert process.returncode == 0
    assert 0 < most <= 150 * KB
    cache = open_cache("a")
    assert cache.snapshot()["entry_count"] == len(on_disk(tmp_path)) > 5
    for number in range(60):
        if (match := cache.find(prefix_key([number]))) is not None:
            assert cache.fetch(match).result() is not None
    assert cache.snapshot()["quarantined"] == 0


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def test_killed_at_any_moment_every_file_is_whole(tmp_path: Path, open_cache: Any) -> None:
    for delay in (0.0, 0.01, 0.03):
        process = writer(tmp_path, "a", 100_000)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        for path in on_disk(tmp_path):
            tensor_file.read(path)
    cache = open_cache("a", 150 * KB)
    assert cache.snapshot()["quarantined"] == 0
    assert used(tmp_path) <= 150 * KB
    assert cache.submit(piece([1]))
    cache.flush()
    assert cache.find(prefix_key([1])) is not None


# -------------------------------------------------------------------- files and arrays


def test_files_come_back_bit_by_bit_and_others_can_read_them(tmp_path: Path) -> None:
    def run() -> tuple[Any, Any]:
        arrays = {
            "half": mx.array([1.5, -2.0, 3e38], mx.bfloat16),
            "float": mx.array([[1.0, float("nan")]]),
            "packed": mx.array([1 << 31], mx.uint32),
            "empty": mx.zeros((0, 4)),
        }
        host = to_host(arrays)
        with (tmp_path / "x.safetensors").open("wb") as file:
            tensor_file.write(file, host, {"note": "ü"})
        read, meta = tensor_file.read(tmp_path / "x.safetensors")
        assert meta == {"note": "ü"}
        loaded = mx.load(str(tmp_path / "x.safetensors"))
        for name, array in to_device(read).items():
            assert array.dtype == arrays[name].dtype == loaded[name].dtype
            assert array.shape == arrays[name].shape
            assert read[name].data.tobytes() == host[name].data.tobytes()
        return host, read

    host, _ = device.home().run_here(run)
    assert (tmp_path / "x.safetensors").stat().st_size <= tensor_file.size(host, {"note": "ü"})


def test_every_flipped_bit_is_found(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    with path.open("wb") as file:
        tensor_file.write(file, {"a": of_numpy(np.arange(3, dtype=np.uint16))}, {"start": "0"})
    whole = path.read_bytes()
    tensor_file.read(path)
    for place in range(len(whole)):
        spoilt = bytearray(whole)
        spoilt[place] ^= 1 << place % 8
        path.write_bytes(spoilt)
        try:
            arrays, meta = tensor_file.read(path)
        except DamagedFile:
            continue
        # Blanks between header and data mean nothing.
        assert (arrays["a"].data.tolist(), meta) == ([0, 1, 2], {"start": "0"})


@pytest.mark.parametrize(
    "header",
    [
        [],
        {"a": 1},
        {"__metadata__": {}, "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}},
        {"__metadata__": {}, "a": {"dtype": "X9", "shape": [1], "data_offsets": [0, 4]}},
        {"__metadata__": {}, "a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, -4]}},
        {"__metadata__": {"x": 1}},
        {"a": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}},
        {"__metadata__": {}},
    ],
)
def test_headers_that_make_no_sense_are_damage(tmp_path: Path, header: Any) -> None:
    text = json.dumps(header).encode()
    path = tmp_path / "x.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text)
    with pytest.raises(DamagedFile):
        tensor_file.read_first(path)
    with pytest.raises(DamagedFile):
        tensor_file.read(path)


def test_names_say_what_a_file_continues(tmp_path: Path) -> None:
    for name in (FileName("", "ab", "kv"), FileName("ab", "cd", "state")):
        assert FileName.parse(str(name)) == name
    for other in ("x.safetensors", "a.b.kv.safetensors.part", "a.b.c.safetensors", "a.b.kv.txt"):
        assert FileName.parse(other) is None
    folder = SsdFolder(tmp_path, "a")
    with folder.locked():
        folder.add(FileName("", "ab", "kv"), lambda file: None)
    assert folder.names() == [FileName("", "ab", "kv")]
    assert HostArray("F32", np.zeros(2, np.float32)).nbytes == 8


# -------------------------------------------------------------------- the embedded model


def test_the_embedded_model_starts_from_disk_in_two_fifths_of_the_time(make: Any, pocket: Any, tmp_path: Path) -> None:
    picture = Image.new("RGB", (448, 448), (252, 252, 252))
    ImageDraw.Draw(picture).ellipse((60, 100, 240, 280), fill=(220, 30, 30))
    question: Message = {
        "role": "user",
        "content": [{"type": "image", "image": picture}, {"type": "text", "text": "Hi"}],
    }
    first = make(pocket, ssd_cache_dir=tmp_path)
    reply = ask(first, [question], 4)
    cold_tier.write(first)
    first.caches.close()
    chat = [question, {"role": "assistant", "content": reply.output_text}, user("What colour is the circle?")]
    again, cold_one = make(pocket, ssd_cache_dir=tmp_path), make(pocket, enable_prefix_cache=False)
    warm, expected = ask(again, chat, 4), ask(cold_one, chat, 4)
    again.caches.close()
    assert warm.cache_hit_type == "ssd"
    assert warm.output_tokens == expected.output_tokens
    assert warm.first_token_time is not None
    assert expected.first_token_time is not None
    ratio = (warm.first_token_time - warm.arrival_time) / (expected.first_token_time - expected.arrival_time)
    assert ratio <= 0.4
