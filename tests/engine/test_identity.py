"""The main oracle: greedy tokens are the same alone or in a batch, in any chunks, cold or warm, drafted or not."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine import MLLMScheduler
from tests.engine import families, tiny
from tests.engine.clips import VIDEO, blobs, clip
from tests.engine.conftest import Make

FACTORS: dict[str, tuple[Any, ...]] = {
    "family": ("hybrid", "dense", "sliding"),
    "rows": ("alone", "batch"),
    "chunk": (16, 17, 64, 0),
    "cache": ("cold", "memory", "ssd"),
    "drafts": (0, 1, 3),
}
Cell = tuple[Any, ...]
_TOKENS = 10
_LONG = "and take your time, look twice, and answer in one full sentence about colours and places. "
"""Shorter prompts are not worth a place on the disk."""


def possible(cell: Cell) -> bool:
    """Only the hybrid has a head; drafting is for a row by itself."""
    family, rows, _, _, drafts = cell
    return not drafts or (family == "hybrid" and rows == "alone")


EVERY = [cell for cell in product(*FACTORS.values()) if possible(cell)]


def pairwise(cells: Sequence[Cell]) -> list[Cell]:
    """Cells in which every possible pair of factor values occurs, chosen greedily."""

    def pairs(cell: Cell) -> set[Any]:
        return set(combinations(enumerate(cell), 2))

    missing = set().union(*map(pairs, cells))
    chosen = []
    while missing:
        best = max(cells, key=lambda cell: len(pairs(cell) & missing))
        chosen.append(best)
        missing -= pairs(best)
    return chosen


def load(family: str, drafts: int) -> tuple[Any, Any]:
    if family == "sliding":
        return families.gemma_3()
    return tiny.headed() if drafts else getattr(tiny, family)()


@cache
def asks(family: str) -> tuple[dict[str, Any], ...]:
    """Words, a picture, two pictures of different sizes, and where the family takes it a clip."""
    one, two = tiny.picture(96, 64, 1), tiny.picture(64, 128, 2)
    if family == "sliding":
        say, image = families.chat, "<img>"
        found = [{"prompt": say("what is it? " + _LONG, image), "images": [one]}]
        found.append({"prompt": say("compare " + _LONG, image + "and" + image), "images": [one, two]})
        return ({"prompt": say("tell me about the sea " + _LONG)}, *found)
    moving = clip(blobs(4, seed=3))
    return (
        {"prompt": tiny.chat("tell me about the sea " + _LONG)},
        {"prompt": tiny.chat("what is it? " + _LONG, 1), "images": [one]},
        {"prompt": tiny.chat("compare them " + _LONG, 2), "images": [one, two]},
        {
            "prompt": f"<|im_start|>user\n{VIDEO}what moves? {_LONG}<|im_end|>\n<|im_start|>assistant\n",
            "videos": [moving],
        },
    )


def answers(scheduler: MLLMScheduler, family: str, rows: str) -> list[list[int]]:
    """Ask everything, one after another or each a step after the one before it."""
    ids = []
    for ask in asks(family):
        ids.append(scheduler.add_request(**ask, max_tokens=_TOKENS, temperature=0.0))
        while rows == "alone" and scheduler.has_requests():
            scheduler.step()
        scheduler.step()
    while scheduler.has_requests():
        scheduler.step()
    requests = [scheduler.get_request(request_id) for request_id in ids]
    assert [request.error for request in requests if request] == [None] * len(ids)
    return [list(request.output_tokens) for request in requests if request]


_expected: dict[str, list[list[int]]] = {}


def expected(family: str, make: Make) -> list[list[int]]:
    """Each alone, its prompt in one piece, nothing kept: equality of this with mlx-vlm is proven elsewhere."""
    if family not in _expected:
        plain = make(load(family, 0), prefill_step_size=4096, chunked_prefill_tokens=4096, enable_prefix_cache=False)
        _expected[family] = answers(plain, family, "alone")
        assert len({tuple(tokens) for tokens in _expected[family]}) == len(asks(family))
    return _expected[family]


def check(cell: Cell, make: Make, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    family, rows, chunk, kept, drafts = cell
    wanted = expected(family, make)
    loaded = load(family, drafts)
    config: dict[str, Any] = {"enable_prefix_cache": kept != "cold", "enable_vision_cache": kept != "cold"}
    if chunk:
        config |= {"prefill_step_size": chunk, "chunked_prefill_tokens": chunk}
    if drafts:
        config |= {"enable_mtp": True, "mtp_policy": "always", "mtp_num_draft_tokens": drafts}
    if kept == "ssd":
        config["ssd_cache_dir"] = folder / "ssd"
        _identify(loaded[0], folder / "model", monkeypatch)
    scheduler = make(loaded, **config)
    assert answers(scheduler, family, rows) == wanted
    if kept == "cold":
        return
    if kept == "ssd":
        _let_it_write(scheduler)
        scheduler = make(loaded, **config)
    again, stats = answers(scheduler, family, rows), scheduler.get_stats()
    scheduler.caches.close()
    assert again == wanted
    tier = "ssd_cache" if kept == "ssd" else "memory_aware_cache"
    assert stats[tier]["tokens_saved"] > 0


def _identify(model: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a model without files a folder that tells it from others."""
    import mlx.core as mx

    folder.mkdir()
    (folder / "config.json").write_text("{}")
    mx.save_safetensors(str(folder / "model.safetensors"), {"weight": mx.array(np.zeros(3, np.float32))})
    monkeypatch.setattr(model, "model_path", str(folder), raising=False)


def _let_it_write(scheduler: MLLMScheduler) -> None:
    scheduler.caches.wait()
    while scheduler.step().has_work or scheduler.caches.unsaved:
        scheduler.caches.flush()
    scheduler.caches.close()


@pytest.mark.parametrize("cell", pairwise(EVERY), ids=lambda cell: "-".join(map(str, cell)))
def test_tokens_are_the_same_in_every_pair_of_circumstances(
    cell: Cell, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(cell, make, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("cell", EVERY, ids=lambda cell: "-".join(map(str, cell)))
def test_tokens_are_the_same_in_all_circumstances(
    cell: Cell, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(cell, make, tmp_path, monkeypatch)
