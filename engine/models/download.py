"""One model from the hub into the Hugging Face cache: only what is needed, resumable, verified.

Runs as a process of its own (`command`), because only a process can be ended in the middle of a transfer. It tells
its progress as JSON lines on its standard output, ends when its standard input closes, and leaves what it received:
the next run goes on from there.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
import threading
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from engine.errors import EngineError
from engine.models.catalog import FAMILIES
from engine.models.hub_failures import sentence, transient
from engine.models.local import repository_folder

T = TypeVar("T")

WORKER_FLAG = "--download-worker"
"""First argument that makes a frozen app this program."""
HUB = "https://huggingface.co"
_NEEDED = (".safetensors", ".json", ".jinja", ".txt", ".model")
_REPO = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
_HOSTS = re.compile(r"^(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/|^hf://(?:models/)?", re.IGNORECASE)
_BLOB = re.compile(r"[0-9a-f]{64}\.incomplete")
_NOTE = ".braid-download"
"""Lies in a repository's folder that our unfinished download has made: all of it may go when that is cancelled."""
_TRIES = 5
_CHECKS = 2
_TIMEOUT_S = 15.0
_REPORT_S = 0.25
_BLOCK = 1 << 20
_DISK_RESERVE = 500_000_000


class DownloadFailed(EngineError):
    """A download ended; the sentence says why and what to do."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file on the hub; `sha256` of large ones."""

    name: str
    size: int
    sha256: str | None

    @property
    def is_weights(self) -> bool:
        """Whether it holds weights, the bulk of a model."""
        return self.name.endswith(".safetensors")


@dataclass(frozen=True, slots=True)
class Progress:
    """Bytes on disk of all that are needed, and what is being done."""

    done: int
    total: int
    stage: str


Report = Callable[[Progress], None]


def repo_of(text: str) -> str | None:
    """The hub id in what a person typed or pasted: ``owner/name`` or the address of its page."""
    parts = _HOSTS.sub("", text.strip()).split("?")[0].split("#")[0].strip("/").split("/")
    repo = "/".join(parts[:2])
    pasted = len(parts) == 2 or bool(_HOSTS.match(text.strip()))
    return repo if pasted and _REPO.fullmatch(repo) and "--" not in repo and ".." not in repo else None


def command(repo: str, cache: Path, endpoint: str = "") -> list[str]:
    """The program and its arguments that download a model."""
    frozen = getattr(sys, "frozen", False)
    start = [sys.executable, WORKER_FLAG] if frozen else [sys.executable, "-m", __name__]
    return [*start, repo, "--cache", str(cache), *(["--endpoint", endpoint] if endpoint else [])]


def discard(cache: Path, repo: str) -> None:
    """Remove what an unfinished download left behind; what was there before it stays.

    Raises:
        OSError: the folder cannot be changed.
    """
    folder = repository_folder(cache, repo)
    if (folder / _NOTE).exists():
        shutil.rmtree(folder)
        shutil.rmtree(cache / ".locks" / folder.name, ignore_errors=True)
    for part in folder.glob("blobs/*.incomplete"):
        if _BLOB.fullmatch(part.name):
            part.unlink()


class Download:
    """One model on its way.

    Args:
        repo: its id on the hub.
        cache: the Hugging Face cache.
        endpoint: of the hub.
        report: called with each progress, a few times a second.
        pause_s: wait after the first failure in a row; it doubles with each further one.
    """

    def __init__(self, repo: str, cache: Path, endpoint: str, report: Report, *, pause_s: float = 1.0) -> None:
        self._repo, self._cache, self._endpoint, self._report = repo, cache, endpoint, report
        self._pause_s = pause_s
        self._folder = repository_folder(cache, repo)
        self._commit = ""
        self._done = self._total = 0
        self._told = 0.0

    def run(self) -> Path:
        """Fetch what is missing and return the snapshot's folder.

        Raises:
            DownloadFailed: with a sentence; what was received stays for the next run.
        """
        try:
            return self._run()
        except DownloadFailed:
            raise
        except Exception as error:
            said = sentence(error, self._repo, self._cache, begun=self._done > 0)
            if said is None:
                raise
            raise DownloadFailed(said) from error

    def _run(self) -> Path:
        files = self._list()
        self._total = sum(file.size for file in files)
        self._begin_folder()
        for file in files:
            if not file.is_weights:
                self._get(file)
        self._refuse_foreign()
        weights = self._needed_weights(files)
        self._total = sum(file.size for file in files if not file.is_weights) + sum(file.size for file in weights)
        self._refuse_without_room(weights)
        for file in weights:
            self._get(file)
        return self._finish_folder()

    # ---------------------------------------------------------------- what is needed

    def _list(self) -> list[RemoteFile]:
        """The needed files of the newest commit, small ones first."""
        from huggingface_hub import HfApi

        self._tell("Asking the hub", at_once=True)
        api = HfApi(endpoint=self._endpoint)
        info = self._patiently(lambda: api.model_info(self._repo, files_metadata=True, timeout=_TIMEOUT_S))
        self._commit = str(info.sha)
        files = [
            RemoteFile(each.rfilename, each.size or 0, each.lfs.sha256 if each.lfs else None)
            for each in info.siblings or ()
            if "/" not in each.rfilename and each.rfilename.endswith(_NEEDED)
        ]
        if not any(file.is_weights for file in files):
            raise DownloadFailed(
                f"“{self._repo}” holds no weights that Braid can read (*.safetensors). Look for its MLX version."
            )
        return sorted(files, key=lambda file: (file.is_weights, file.size))

    def _needed_weights(self, files: Iterable[RemoteFile]) -> list[RemoteFile]:
        """Those that the index names; some repositories hold the same weights twice."""
        weights = [file for file in files if file.is_weights]
        index = self._snapshot / "model.safetensors.index.json"
        if not index.is_file():
            return weights
        named = set(json.loads(index.read_text("utf-8"))["weight_map"].values())
        return [file for file in weights if file.name in named]

    def _refuse_foreign(self) -> None:
        """End early for models that could not be run anyway."""
        config = self._snapshot / "config.json"
        family = json.loads(config.read_text("utf-8")).get("model_type") if config.is_file() else None
        if family not in FAMILIES:
            raise DownloadFailed(
                f"Braid cannot run models of the family “{family or 'unknown'}” yet. Choose another model."
            )

    def _refuse_without_room(self, weights: Iterable[RemoteFile]) -> None:
        missing = sum(file.size - self._received(file) for file in weights)
        free = shutil.disk_usage(self._folder).free
        if missing + _DISK_RESERVE > free:
            raise DownloadFailed(
                f"“{self._repo}” needs {_gb(missing)} more on the disk, but only {_gb(free)} are free. "
                "Make room, then resume."
            )

    # ---------------------------------------------------------------- the cache's layout

    @property
    def _snapshot(self) -> Path:
        return self._folder / "snapshots" / self._commit

    def _begin_folder(self) -> None:
        if not self._folder.exists():
            self._folder.mkdir(parents=True)
            (self._folder / _NOTE).touch()
        (self._folder / "blobs").mkdir(exist_ok=True)

    def _finish_folder(self) -> Path:
        """Make the snapshot the main branch, as the hub's own tools do, so that they find it too."""
        branch = self._folder / "refs" / "main"
        branch.parent.mkdir(exist_ok=True)
        branch.write_text(self._commit, "utf-8")
        (self._folder / _NOTE).unlink(missing_ok=True)
        self._tell("Done", at_once=True)
        return self._snapshot

    def _blob(self, file: RemoteFile) -> Path:
        return self._folder / "blobs" / str(file.sha256)

    def _received(self, file: RemoteFile) -> int:
        """Bytes of a file that are on disk already."""
        if (self._snapshot / file.name).exists() or self._blob(file).exists():
            return file.size
        part = _part(self._blob(file))
        return part.stat().st_size if part.exists() else 0

    # ---------------------------------------------------------------- one file

    def _get(self, file: RemoteFile) -> None:
        """Bring one file into the snapshot."""
        from huggingface_hub import hf_hub_download
        from huggingface_hub.utils import WeakFileLock

        before = self._done
        if file.sha256 is not None and not (self._snapshot / file.name).exists():
            lock = self._cache / ".locks" / self._folder.name / f"{file.sha256}.lock"
            lock.parent.mkdir(parents=True, exist_ok=True)
            with WeakFileLock(lock):
                self._fetch(file)
        self._patiently(
            lambda: hf_hub_download(
                self._repo, file.name, revision=self._commit, cache_dir=self._cache, endpoint=self._endpoint
            )
        )
        self._done = before + file.size
        self._tell("Downloading")

    def _fetch(self, file: RemoteFile) -> None:
        """Receive a large file and put it among the blobs once its checksum is right."""
        blob, before = self._blob(file), self._done
        part = _part(blob)
        for _ in range(_CHECKS):
            if blob.exists():
                return
            self._receive(file, part, before)
            self._tell("Checking", at_once=True)
            if _sha256(part) == file.sha256:
                part.replace(blob)
            else:
                part.unlink()
        if not blob.exists():
            raise DownloadFailed(f"{file.name} arrived damaged twice and was thrown away. Try again later.")

    def _receive(self, file: RemoteFile, part: Path, before: int) -> None:
        """Append to the partial file until it is whole; a lost connection is taken up again a few times."""
        failures = 0
        while (have := _size(part)) < file.size:
            try:
                self._stream(file, part, have, before)
            except Exception as error:
                failures = 1 if _size(part) > have else failures + 1
                if failures >= _TRIES or not transient(error):
                    raise
                time.sleep(self._pause_s * 2 ** (failures - 1))

    def _stream(self, file: RemoteFile, part: Path, have: int, before: int) -> None:
        from huggingface_hub import hf_hub_url
        from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status

        url = hf_hub_url(self._repo, file.name, revision=self._commit, endpoint=self._endpoint)
        headers = build_hf_headers() | {"Accept-Encoding": "identity"}
        if have:
            headers["Range"] = f"bytes={have}-"
        with get_session().stream("GET", url, headers=headers, timeout=_TIMEOUT_S) as response:
            hf_raise_for_status(response)
            again = response.status_code != 206  # the server does not know ranges: from the start
            with part.open("wb" if again else "ab", buffering=0) as out:
                have = 0 if again else have
                for piece in response.iter_bytes():
                    have += out.write(piece)
                    self._done = before + have
                    self._tell("Downloading")
        if have < file.size:
            raise ConnectionResetError("the body was shorter than announced")

    # ---------------------------------------------------------------- patience and progress

    def _patiently(self, call: Callable[[], T]) -> T:
        """Call, again after a pause while the failure looks temporary."""
        for attempt in range(_TRIES - 1):
            try:
                return call()
            except Exception as error:
                if not transient(error):
                    raise
                time.sleep(self._pause_s * 2**attempt)
        return call()

    def _tell(self, stage: str, *, at_once: bool = False) -> None:
        now = time.monotonic()
        if at_once or now - self._told >= _REPORT_S:
            self._told = now
            self._report(Progress(self._done, self._total, stage))


def _part(blob: Path) -> Path:
    return blob.with_name(f"{blob.name}.incomplete")


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _sha256(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _gb(size: float) -> str:
    return f"{size / 1e9:.3g} GB" if size >= 1e9 else f"{size / 1e6:.3g} MB"


def main(arguments: Sequence[str] | None = None) -> int:
    """Download one model, telling progress on standard output."""
    parser = ArgumentParser()
    parser.add_argument("repo")
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--endpoint", default=os.environ.get("HF_ENDPOINT") or HUB)
    options = parser.parse_args(arguments)
    # Ranges of plain HTTP can be taken up again, Xet's chunks cannot; both settings are read at import.
    os.environ |= {"HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    threading.Thread(target=_end_with_parent, daemon=True).start()
    download = Download(options.repo, options.cache, options.endpoint, _print_progress)
    try:
        folder = download.run()
    except DownloadFailed as error:
        _print({"error": str(error)})
        return 1
    _print({"folder": str(folder)})
    return 0


def _print_progress(progress: Progress) -> None:
    _print({"done": progress.done, "total": progress.total, "stage": progress.stage})


def _print(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def _end_with_parent() -> None:
    """Whoever started us holds our standard input open; when it is gone, so are we."""
    while os.read(0, 1):  # not sys.stdin, whose lock a waiting thread would hold at exit
        pass
    os._exit(2)


if __name__ == "__main__":
    sys.exit(main())
