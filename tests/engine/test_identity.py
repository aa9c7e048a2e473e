"""The main oracle: greedy tokens are the same alone or in a batch, in any chunks, cold or warm, drafted or not."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest

from engine import MLLMScheduler
from tests.engine import cold_tier, families, tiny
from tests.engine.clips import VIDEO, blobs, clip
from tests.engine.conftest import Make

FACTORS: dict[str, tuple[Any, ...]] = {
    "family": ("hybrid", "dense", "sliding", "sharing"),
    "rows": ("alone", "batch"),
    "chunk": (16, 17, 64, 0),
    "cache": ("cold", "memory", "ssd"),
    "drafts": (0, 1, 3),
    "bits": (0, 8, 4),
}
"""``bits`` of what is stored, 0 as it is: fewer may change the answers that go on from it, and no others."""
_GEMMAS = {"sliding": families.gemma_3, "sharing": families.gemma_4}
"""Windows of 24 tokens; in the second, layers share their caches."""
Cell = tuple[Any, ...]
_TOKENS = 10
_LONG = "and take your time, look twice, and answer in one full sentence about colours and places. "
"""Shorter prompts are not worth a place on the disk."""


def possible(cell: Cell) -> bool:
    """Only the hybrid has a head; drafting is for a row by itself; what is not stored is not packed."""
    family, rows, _, kept, drafts, bits = cell
    return (not drafts or (family == "hybrid" and rows == "alone")) and not (bits and kept == "cold")


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
    if family in _GEMMAS:
        return _GEMMAS[family]()
    return tiny.headed() if drafts else getattr(tiny, family)()


@cache
def asks(family: str) -> tuple[dict[str, Any], ...]:
    """Words, a picture, two pictures of different sizes, and a clip; Gemma 3 takes none: a picture among words."""
    one, two = tiny.picture(96, 64, 1), tiny.picture(64, 128, 2)
    moving = clip(blobs(4, seed=3))
    if family in _GEMMAS:
        say, image = families.chat, "<img>" if family == "sliding" else "<image>"
        among: dict[str, Any] = {"prompt": say(f"look {image} and tell me about the hills. {_LONG}"), "images": [two]}
        return (
            {"prompt": say("tell me about the sea " + _LONG)},
            {"prompt": say("what is it? " + _LONG, image), "images": [one]},
            {"prompt": say("compare " + _LONG, image + "and" + image), "images": [one, two]},
            among if family == "sliding" else {"prompt": say("what moves? " + _LONG, "<video>"), "videos": [moving]},
        )
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
        assert_running_exactly(scheduler)
    requests = [scheduler.get_request(request_id) for request_id in ids]
    assert [request.error for request in requests if request] == [None] * len(ids)
    return [list(request.output_tokens) for request in requests if request]


def assert_running_exactly(scheduler: MLLMScheduler) -> None:
    """However prefixes are stored, no row runs on packed arrays."""
    for group in scheduler.batch._groups:
        for layer in group._cache:
            assert not hasattr(layer, "bits"), type(layer)


_expected: dict[str, list[list[int]]] = {}


def expected(family: str, make: Make) -> list[list[int]]:
    """Each alone, its prompt in one piece, nothing kept: equality of this with mlx-vlm is proven elsewhere."""
    if family not in _expected:
        plain = make(load(family, 0), prefill_step_size=4096, chunked_prefill_tokens=4096, enable_prefix_cache=False)
        _expected[family] = answers(plain, family, "alone")
        assert len({tuple(tokens) for tokens in _expected[family]}) == len(asks(family))
    return _expected[family]


def check(cell: Cell, make: Make, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    family, rows, chunk, kept, drafts, bits = cell
    wanted = expected(family, make)
    loaded = load(family, drafts)
    config = configured(chunk, kept, drafts, bits)
    if kept == "ssd":
        config["ssd_cache_dir"] = folder / "ssd"
        cold_tier.identify(loaded[0], folder / "model", monkeypatch)
    scheduler = make(loaded, **config)
    assert answers(scheduler, family, rows) == wanted
    if kept == "cold":
        return
    if kept == "ssd":
        cold_tier.write(scheduler)
        scheduler.caches.close()
        scheduler = make(loaded, **config)
    again, stats = answers(scheduler, family, rows), scheduler.get_stats()
    packed = {run.codec.bits for run in stored_runs(scheduler)}
    scheduler.caches.close()
    tier = "ssd_cache" if kept == "ssd" else "memory_aware_cache"
    assert stats[tier]["tokens_saved"] > 0
    assert packed == {bits}
    assert again == wanted if not bits else all(again)


def configured(chunk: int, kept: str, drafts: int, bits: int) -> dict[str, Any]:
    """The configuration of a cell."""
    config: dict[str, Any] = {"enable_prefix_cache": kept != "cold", "enable_vision_cache": kept != "cold"}
    config |= {"kv_cache_quantization": bool(bits), "kv_cache_quantization_group_size": 32}
    if bits:
        config["kv_cache_quantization_bits"] = bits
    if chunk:
        config |= {"prefill_step_size": chunk, "chunked_prefill_tokens": chunk}
    if drafts:
        config |= {"enable_mtp": True, "mtp_policy": "always", "mtp_num_draft_tokens": drafts}
    return config


def stored_runs(scheduler: MLLMScheduler) -> list[Any]:
    """What the prefix cache holds of attention."""
    return [entry.data for node, entry in scheduler.caches.prefix.tree.entries() if entry is node.attention]


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
