"""Downloads from a loopback hub: what comes, what does not come twice, and what a person is told."""

from __future__ import annotations

import errno
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.models import download
from engine.models.download import Download, DownloadFailed, Progress, command, discard, repo_of
from engine.models.local import examine, find_models, repository_folder
from tests.hub import COMMIT, Hub, open_hub, tiny_model

REPO = "owner/Tiny-VL-4bit"
FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
NEEDED = {FIRST, SECOND, "config.json", "model.safetensors.index.json", "tokenizer.json"}
NEEDED |= {"preprocessor_config.json", "chat_template.jinja"}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_TOKEN_PATH", str(tmp_path / "none"))
    monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")
    monkeypatch.setattr("tqdm.tqdm.monitor_interval", 0)  # or a thread of it would outlive the test
    with open_hub() as hub:
        hub.models[REPO] = tiny_model()
        yield hub


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def fetch(hub: Hub, cache: Path, told: list[Progress] | None = None) -> Path:
    seen = told if told is not None else []
    return Download(REPO, cache, hub.endpoint, seen.append, pause_s=0.001).run()


def size(hub: Hub, name: str) -> int:
    return len(hub.models[REPO][name])


@pytest.mark.parametrize(
    "text",
    [
        "owner/name-4bit",
        " https://huggingface.co/owner/name-4bit ",
        "http://www.huggingface.co/owner/name-4bit/tree/main",
        "hf.co/owner/name-4bit?library=mlx",
        "https://huggingface.co/owner/name-4bit/blob/main/config.json#L3",
        "hf://owner/name-4bit",
    ],
)
def test_a_pasted_address_becomes_an_id(text: str) -> None:
    assert repo_of(text) == "owner/name-4bit"


@pytest.mark.parametrize(
    "text", ["", "name", "a/b/c", "../../etc", "owner/na me", "https://example.org/a/b", "o/a--b", "öwner/name", "-o/x"]
)
def test_anything_else_is_no_id(text: str) -> None:
    assert repo_of(text) is None


def test_only_needed_files_come_and_the_model_is_complete(hub: Hub, cache: Path) -> None:
    told: list[Progress] = []
    folder = fetch(hub, cache, told)
    assert {file.name for file in folder.iterdir()} == NEEDED
    for name in NEEDED:
        assert (folder / name).read_bytes() == hub.models[REPO][name]
    assert told[-1] == Progress(*[sum(size(hub, name) for name in NEEDED)] * 2, "Done")
    assert all(first.done <= second.done for first, second in itertools.pairwise(told))
    (model,) = find_models(cache, ())
    assert (model.repo, model.problem, model.folder) == (REPO, "", folder)


def test_the_hub_s_own_library_finds_it(hub: Hub, cache: Path) -> None:
    from huggingface_hub import scan_cache_dir, snapshot_download

    folder = fetch(hub, cache)
    assert Path(snapshot_download(REPO, cache_dir=cache, local_files_only=True)) == folder
    scanned = scan_cache_dir(cache)
    assert [repo.repo_id for repo in scanned.repos] == [REPO]
    assert not scanned.warnings


def test_a_second_run_transfers_nothing(hub: Hub, cache: Path) -> None:
    fetch(hub, cache)
    sent = hub.sent.copy()
    fetch(hub, cache)
    assert {name: hub.sent[name] for name in NEEDED} == {name: sent[name] for name in NEEDED}


def test_a_lost_connection_is_taken_up_again_without_a_byte_twice(hub: Hub, cache: Path) -> None:
    hub.cuts[SECOND] = [10_000, 20_000]
    folder = fetch(hub, cache)
    assert hub.sent[SECOND] == size(hub, SECOND)
    assert [start for method, name, start in hub.asked if (method, name) == ("GET", SECOND)] == [0, 10_000, 30_000]
    assert (folder / SECOND).read_bytes() == hub.models[REPO][SECOND]


def test_a_connection_that_stays_lost_is_told_and_the_next_run_goes_on(hub: Hub, cache: Path) -> None:
    hub.cuts[SECOND] = [10_000, 0, 0, 0, 0, 0]
    with pytest.raises(DownloadFailed, match="connection was lost"):
        fetch(hub, cache)
    hub.cuts.clear()
    (unfinished,) = find_models(cache, ())
    assert unfinished.missing == (SECOND,)
    assert unfinished.resumable
    folder = fetch(hub, cache)
    assert hub.sent[SECOND] == size(hub, SECOND)
    assert hub.sent[FIRST] == size(hub, FIRST)
    assert (folder / SECOND).read_bytes() == hub.models[REPO][SECOND]


def test_a_hub_that_knows_no_ranges_starts_the_file_again(hub: Hub, cache: Path) -> None:
    hub.ranges = False
    hub.cuts[SECOND] = [10_000]
    folder = fetch(hub, cache)
    assert hub.sent[SECOND] == size(hub, SECOND) + 10_000
    assert (folder / SECOND).read_bytes() == hub.models[REPO][SECOND]


def test_a_short_trouble_of_the_hub_goes_unnoticed(hub: Hub, cache: Path) -> None:
    hub.refusals = [503, 500, 429]
    assert fetch(hub, cache).is_dir()


def test_a_long_trouble_is_told_with_what_to_do(hub: Hub, cache: Path) -> None:
    hub.refusals = [503] * 5
    with pytest.raises(DownloadFailed, match=r"problem right now \(503\). Try again"):
        fetch(hub, cache)
    assert not hub.refusals


def test_damage_is_noticed_and_repaired_once(hub: Hub, cache: Path) -> None:
    fetch(hub, cache)
    good = (cache / "models--owner--Tiny-VL-4bit/snapshots" / COMMIT / FIRST).read_bytes()
    shutil.rmtree(cache)
    part = repository_folder(cache, REPO) / "blobs" / f"{hub.checksum(REPO, FIRST)}.incomplete"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"\0" * 5000)  # as many bytes as an earlier run might have left, but others
    folder = fetch(hub, cache)
    assert (folder / FIRST).read_bytes() == good


def test_a_wrong_checksum_ends_it_and_keeps_nothing_of_the_file(hub: Hub, cache: Path) -> None:
    hub.lies.add(FIRST)
    with pytest.raises(DownloadFailed, match=f"{FIRST} arrived damaged twice"):
        fetch(hub, cache)
    assert hub.sent[FIRST] == 2 * size(hub, FIRST)
    assert not list(cache.glob("*/blobs/*.incomplete"))
    assert not any(file.name == FIRST for file in cache.rglob("*"))


@pytest.mark.parametrize(
    ("status", "code", "said"),
    [
        (401, "RepoNotFound", "There is no model “owner/Tiny-VL-4bit” on the hub"),
        (404, "RepoNotFound", "There is no model"),
        (403, "GatedRepo", "accept the terms, log in"),
        (401, "GatedRepo", "accept the terms, log in"),
        (403, "", "refuses “owner/Tiny-VL-4bit” with this login"),
    ],
)
def test_what_the_hub_refuses_is_told_in_a_sentence(hub: Hub, cache: Path, status: int, code: str, said: str) -> None:
    hub.denied[REPO] = (status, code)
    with pytest.raises(DownloadFailed, match=said):
        fetch(hub, cache)


def test_no_network_is_told(cache: Path) -> None:
    with pytest.raises(DownloadFailed, match="hub cannot be reached"):
        Download(REPO, cache, "http://127.0.0.1:9", lambda _: None, pause_s=0.001).run()


def test_a_family_that_cannot_run_is_refused_before_its_weights_come(hub: Hub, cache: Path) -> None:
    hub.models[REPO] = tiny_model(family="odd_vl")
    with pytest.raises(DownloadFailed, match="family “odd_vl”"):
        fetch(hub, cache)
    assert hub.sent[FIRST] == 0


def test_a_repository_without_safetensors_is_refused(hub: Hub, cache: Path) -> None:
    hub.models[REPO] = {"config.json": b"{}", "model.gguf": b"GGUF"}
    with pytest.raises(DownloadFailed, match="no weights that Braid can read"):
        fetch(hub, cache)


def test_too_little_room_is_told_before_the_weights_come(
    hub: Hub, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Usage = namedtuple("Usage", "total used free")
    monkeypatch.setattr(download.shutil, "disk_usage", lambda _: Usage(10**9, 10**9 - 20_000, 20_000))
    with pytest.raises(DownloadFailed, match=r"needs 0.1 MB more on the disk, but only 0.02 MB are free"):
        fetch(hub, cache)
    assert hub.sent[FIRST] == 0


@pytest.mark.parametrize(
    ("number", "said"), [(errno.ENOSPC, "disk is full"), (errno.EACCES, "may not write to"), (errno.EDQUOT, "disk is")]
)
def test_a_disk_that_refuses_is_told(
    hub: Hub, cache: Path, monkeypatch: pytest.MonkeyPatch, number: int, said: str
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Download, "_stream", refuse)
    with pytest.raises(DownloadFailed, match=said):
        fetch(hub, cache)


def test_discarding_removes_what_our_download_made(hub: Hub, cache: Path) -> None:
    hub.cuts[SECOND] = [10_000, 0, 0, 0, 0, 0]
    with pytest.raises(DownloadFailed):
        fetch(hub, cache)
    discard(cache, REPO)
    assert not repository_folder(cache, REPO).exists()
    discard(cache, REPO)  # a second time finds nothing


def test_discarding_leaves_what_others_have_put_there(hub: Hub, cache: Path) -> None:
    theirs = repository_folder(cache, REPO) / "snapshots" / COMMIT / "pytorch_model.bin"
    theirs.parent.mkdir(parents=True)
    theirs.write_bytes(b"weights for another program")
    hub.cuts[FIRST] = [10_000, 0, 0, 0, 0, 0]
    with pytest.raises(DownloadFailed):
        fetch(hub, cache)
    discard(cache, REPO)
    assert theirs.exists()
    assert not list(cache.glob("*/blobs/*.incomplete"))


def test_a_finished_download_is_not_discarded(hub: Hub, cache: Path) -> None:
    folder = fetch(hub, cache)
    discard(cache, REPO)
    assert not examine(folder).problem


# -------------------------------------------------------------------- the process


def start(hub: Hub, cache: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(REPO, cache, hub.endpoint),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )


def test_the_process_tells_its_progress_and_where_the_model_is(hub: Hub, cache: Path) -> None:
    with start(hub, cache) as process:
        lines = [json.loads(line) for line in process.stdout or ()]
        assert process.wait() == 0, process.stderr and process.stderr.read()
        assert lines[0] == {"done": 0, "total": 0, "stage": "Asking the hub"}
        assert Path(lines[-1]["folder"]).is_dir()


def test_a_killed_process_leaves_its_bytes_and_the_next_goes_on(hub: Hub, cache: Path) -> None:
    hub.models[REPO] = tiny_model(2_000_000)
    hub.rate = 400_000
    part = repository_folder(cache, REPO) / "blobs" / f"{hub.checksum(REPO, FIRST)}.incomplete"
    with start(hub, cache) as process:
        while not part.exists() or part.stat().st_size < 200_000:
            time.sleep(0.01)
            assert process.poll() is None
        process.kill()
    kept = part.stat().st_size
    assert kept >= 200_000
    hub.rate = 0
    fetch(hub, cache)
    assert [start for method, name, start in hub.asked if (method, name) == ("GET", FIRST)] == [0, kept]


def test_the_process_ends_with_whoever_started_it(hub: Hub, cache: Path) -> None:
    hub.rate = 50_000
    with start(hub, cache) as process:
        assert process.stdout
        process.stdout.readline()
        assert process.stdin
        process.stdin.close()
        assert process.wait(10) == 2


def test_a_failure_is_one_line(hub: Hub, cache: Path) -> None:
    hub.denied[REPO] = (403, "GatedRepo")
    with start(hub, cache) as process:
        lines = [json.loads(line) for line in process.stdout or ()]
        assert process.wait() == 1
        assert "accept the terms" in lines[-1]["error"]


def test_a_frozen_app_starts_itself(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert command(REPO, cache)[:3] == [sys.executable, "--download-worker", REPO]
