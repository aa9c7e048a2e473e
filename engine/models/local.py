"""The models on this computer: where they lie, what each is, and why one cannot be used. No MLX, nothing loaded."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from engine.errors import ModelLoadError
from engine.models.catalog import ModelCard, describe
from engine.models.weights import Weights, read_weights

_DEPTH = 3
"""Folders below a chosen one that are searched: owner / model, as other programs keep theirs."""
_MOST_FOLDERS = 2000
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "tekken.json")
_PROCESSORS = ("preprocessor_config.json", "processor_config.json")


@dataclass(frozen=True, slots=True)
class LocalModel:
    """One model folder.

    Attributes:
        folder: what to load.
        home: the folder that goes when the model is removed; the whole repository in the Hugging Face cache.
        repo: its id on the hub, ``owner/name``; empty for other folders.
        name: fit for a person.
        card: what its config.json says; None if that is not there.
        weights: what its weight files hold.
        missing: names of files that it lacks.
        disk_bytes: all its files.
        problem: a sentence why it cannot be used; empty if it can.
        config: its config.json.
    """

    folder: Path
    home: Path
    repo: str
    name: str
    card: ModelCard | None = None
    weights: Weights = field(default_factory=Weights)
    missing: tuple[str, ...] = ()
    disk_bytes: int = 0
    problem: str = ""
    config: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def resumable(self) -> bool:
        """Whether downloading again would complete it."""
        return bool(self.repo and self.missing)


def hub_cache() -> Path:
    """Where the Hugging Face libraries keep what they download."""
    named = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    if named:
        return Path(named).expanduser()
    home = os.environ.get("HF_HOME") or f"{os.environ.get('XDG_CACHE_HOME') or '~/.cache'}/huggingface"
    return Path(home).expanduser() / "hub"


def name_of(folder: Path) -> str:
    """A model's name, by where it lies."""
    return _repository(folder)[1].rpartition("/")[2] or folder.name


def examine(folder: Path) -> LocalModel:
    """What a folder holds and whether it can be loaded; never raises for what is inside."""
    home, repo = _repository(folder)
    plain = LocalModel(folder, home, repo, name_of(folder))
    if not folder.is_dir():
        return replace(plain, problem=f"There is no model folder at “{folder}”. Check the path.")
    plain = replace(plain, disk_bytes=_disk_bytes(home))
    try:
        card = describe(folder)
    except ModelLoadError as error:
        if repo and not (folder / "config.json").exists():
            missing = ("config.json",)
            return replace(plain, missing=missing, problem=_incomplete(plain.name, missing))
        return replace(plain, problem=str(error))
    weights = read_weights(folder)
    config = json.loads((folder / "config.json").read_text("utf-8"))
    found = replace(plain, card=card, weights=weights, missing=_missing(folder, card, weights), config=config)
    if not card.supported:
        family = card.family or "unknown"
        return replace(found, problem=f"Braid cannot run models of the family “{family}” yet. Choose another model.")
    return replace(found, problem=_incomplete(found.name, found.missing)) if found.missing else found


def find_models(cache: Path | None, folders: Iterable[Path]) -> list[LocalModel]:
    """All models of the Hugging Face cache and the chosen folders, each folder once; others' folders are skipped."""
    found: dict[Path, LocalModel] = {}
    for folder in [
        *(_snapshots(cache) if cache else ()),
        *(inner for chosen in folders for inner in _model_folders(chosen)),
    ]:
        real = folder.resolve()
        if real not in found:
            found[real] = examine(folder)
    return [model for model in found.values() if model.card is None or model.card.family]


def snapshot(repository: Path) -> Path | None:
    """The snapshot that a cached repository's main branch points at, or else its newest."""
    snapshots = repository / "snapshots"
    try:
        named = snapshots / (repository / "refs" / "main").read_text("utf-8").strip()
        if named.is_dir():
            return named
    except OSError:
        pass  # no branch was noted; any snapshot will do
    try:
        return max(snapshots.iterdir(), key=lambda folder: folder.stat().st_mtime, default=None)
    except OSError:
        return None


def repository_folder(cache: Path, repo: str) -> Path:
    """Where the cache keeps a model of the hub."""
    return cache / f"models--{repo.replace('/', '--')}"


def _snapshots(cache: Path) -> Iterator[Path]:
    """The snapshots that look like a language model's: those of other kinds of models are nobody's business here."""
    for repository in sorted(cache.glob("models--*")):
        folder = snapshot(repository)
        if folder is not None and ((folder / "config.json").is_file() or any(repository.glob("blobs/*.incomplete"))):
            yield folder


def _model_folders(chosen: Path) -> Iterator[Path]:
    """The model folders in a chosen one; itself, if it is one."""
    level, seen = [chosen], 0
    for _ in range(_DEPTH):
        deeper: list[Path] = []
        for folder in level:
            seen += 1
            if (folder / "config.json").is_file():
                yield folder
            elif seen < _MOST_FOLDERS:
                deeper += _subfolders(folder)
        level = deeper


def _subfolders(folder: Path) -> list[Path]:
    try:
        return sorted(inner for inner in folder.iterdir() if inner.is_dir() and not inner.name.startswith("."))
    except OSError:
        return []  # not ours to read, or gone: nothing to list


def _repository(folder: Path) -> tuple[Path, str]:
    """The folder to remove, and the hub's id for a snapshot in its cache."""
    if folder.parent.name == "snapshots" and (home := folder.parents[1]).name.startswith("models--"):
        return home, home.name.removeprefix("models--").replace("--", "/")
    return folder, ""


def _missing(folder: Path, card: ModelCard, weights: Weights) -> tuple[str, ...]:
    """Files without which the model cannot be loaded."""
    missing = list(weights.missing)
    if not weights.missing and not weights.tensor_bytes:
        missing.append("model.safetensors")
    if not any((folder / name).exists() for name in _TOKENIZERS):
        missing.append(_TOKENIZERS[0])
    if card.takes and not any((folder / name).exists() for name in _PROCESSORS):
        missing.append(_PROCESSORS[0])
    return tuple(missing)


def _incomplete(name: str, missing: tuple[str, ...]) -> str:
    listed = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
    verb = "is" if len(missing) == 1 else "are"
    return f"“{name}” is not complete: {listed} {verb} missing. Download it again, or choose another model."


def _disk_bytes(folder: Path) -> int:
    """Bytes of all files below, each once: snapshots of the cache only link to them."""
    return sum(entry.stat(follow_symlinks=False).st_size for entry in _files(folder) if not entry.is_symlink())


def _files(folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    yield from _files(Path(entry.path))
                else:
                    yield entry
    except OSError:
        return  # gone meanwhile, or not ours to read
