"""``packaging/dev bench [NAME …]``: measures, prints tables and writes ``.bench/NAME.json``."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from tests.benchmarks import limit, peers, workloads
from tests.benchmarks.table import Row, keep, show, spread


def bench_limit(options: argparse.Namespace) -> None:
    """Decode speed as a part of what a bare loop reaches."""
    rows = asyncio.run(limit.measure(options.model, [1, 4, 8, 16], 64, 64, options.rounds))
    show(f"Decode against its limit, {options.model}", [_limit_row(row) for row in rows])
    keep(f"limit-{options.model}", rows)


def _limit_row(row: Row) -> Row:
    names = ("rows", "limit_tok_s", "braid_tok_s", "ratio", "ratio_min", "ratio_max")
    return {name: row[name] for name in names}


def bench_chats(options: argparse.Namespace) -> None:
    """Eight chats, half of them with pictures, arriving one after another."""
    with tempfile.TemporaryDirectory() as folder:
        spec = workloads.eight_chats(Path(folder), options.model, options.tokens, 0.2)
        _compare("chats", "Eight chats", spec, options, _chats_row)


def _chats_row(rounds: list[list[dict[str, Any]]]) -> Row:
    firsts = [sorted(request["stamps"][0] - request["sent"] for request in found) for found in rounds]
    spans = [max(request["stamps"][-1] for request in found) for found in rounds]
    tokens = [sum(len(request["stamps"]) for request in found) for found in rounds]
    return {
        "makespan_s": spread(spans),
        "tok_s": spread([count / span for count, span in zip(tokens, spans, strict=True)]),
        "ttft_p50_s": median(first[len(first) // 2] for first in firsts),
        "ttft_p95_s": median(first[-1] for first in firsts),
    }


def bench_short(options: argparse.Namespace) -> None:
    """A short question that arrives while a long prompt is in prefill and three chats decode."""
    length, stream = (2_000, 400) if options.model == "pocket" else (16_000, 600)
    with tempfile.TemporaryDirectory() as folder:
        spec = workloads.short_behind_long(Path(folder), options.model, length, 1.0, stream)
        _compare("short", "A short question behind a long prompt", spec, options, _short_row)


def _short_row(rounds: list[list[dict[str, Any]]]) -> Row:
    firsts = [found[4]["stamps"][0] - found[4]["sent"] for found in rounds]
    gaps = [max(_longest_gap(request["stamps"]) for request in found[:3]) for found in rounds]
    long = [found[3]["stamps"][0] - found[3]["sent"] for found in rounds]
    return {"short_ttft_s": spread(firsts), "longest_gap_s": spread(gaps), "long_ttft_s": spread(long)}


def _longest_gap(stamps: list[float]) -> float:
    return max(after - before for before, after in pairwise(stamps))


def _compare(
    name: str,
    title: str,
    spec: workloads.Spec,
    options: argparse.Namespace,
    row: Callable[[list[list[dict[str, Any]]]], Row],
) -> None:
    """Replay on every engine in turn, ``rounds`` times over, and print one row per engine."""
    found: dict[str, list[list[dict[str, Any]]]] = {}
    failed: dict[str, str] = {}
    for _ in range(options.rounds):
        for engine in options.engines or peers.available():
            result = peers.replay(engine, spec)
            if "failed" in result:
                failed[engine] = result["failed"]
            else:
                found.setdefault(engine, []).extend(result["rounds"])
    rows = [{"engine": engine, **row(rounds)} for engine, rounds in found.items()]
    show(f"{title}, {options.model}", rows)
    for engine, why in failed.items():
        print(f"{engine}: {why}")
    keep(f"{name}-{options.model}", rows, failed=failed)


BENCHES = {"limit": bench_limit, "chats": bench_chats, "short": bench_short}


def main() -> None:
    """Run the benches named, or all."""
    parser = argparse.ArgumentParser(prog="packaging/dev bench", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *BENCHES], help="what to measure; nothing: everything")
    parser.add_argument("--model", default="pocket", choices=["pocket", "dense-2b", "hybrid-2b"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=128, help="answer tokens per chat")
    parser.add_argument("--engines", nargs="*", choices=peers.ENGINES, help="leave some out")
    options = parser.parse_args()
    for name in options.names or BENCHES:
        BENCHES[name](options)


if __name__ == "__main__":
    main()
