"""``packaging/dev bench [NAME …]``: measures, prints tables and writes ``.bench/NAME-MODEL.json``."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from tests.benchmarks import images, limit, peers, rows, startup, turns, workloads
from tests.benchmarks.table import Row, keep, show, spread


def bench_limit(options: argparse.Namespace) -> None:
    """Decode speed as a part of what a bare loop reaches."""
    found = asyncio.run(limit.measure(options.model, options.rows, 64, 64, options.rounds))
    show(f"Decode against its limit, {options.model}", [_limit_row(row) for row in found])
    keep(f"limit-{options.model}", found)


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
    length, stream, per_word = (2_000, 400, 2.2) if options.model == "pocket" else (16_000, 600, 5.5)
    with tempfile.TemporaryDirectory() as folder:
        spec = workloads.short_behind_long(Path(folder), options.model, int(length / per_word), 1.0, stream)
        _compare("short", "A short question behind a long prompt", spec, options, _short_row)


def _short_row(rounds: list[list[dict[str, Any]]]) -> Row:
    firsts = [found[4]["stamps"][0] - found[4]["sent"] for found in rounds]
    gaps = [max(_longest_gap(request["stamps"]) for request in found[:3]) for found in rounds]
    long = [found[3]["stamps"][0] - found[3]["sent"] for found in rounds]
    return {"short_ttft_s": spread(firsts), "longest_gap_s": spread(gaps), "long_ttft_s": spread(long)}


def _longest_gap(stamps: list[float]) -> float:
    return max(after - before for before, after in pairwise(stamps))


def bench_turns(options: argparse.Namespace) -> None:
    """Follow-ups, warm against cold."""
    found = asyncio.run(turns.measure(options.model, options.rounds))
    show(f"First token of a follow-up, warm against cold, {options.model}", found)
    keep(f"turns-{options.model}", found)


def bench_ragged(options: argparse.Namespace) -> None:
    """One long row with three short ones."""
    found = asyncio.run(rows.ragged(options.model, options.rounds))
    show(f"A long row beside short ones, against the sum of each alone, {options.model}", found)
    keep(f"ragged-{options.model}", found)


def bench_mtp(options: argparse.Namespace) -> None:
    """The prediction head off, always and auto; only a trained model has something to accept."""
    found = asyncio.run(rows.prediction("pocket", options.rounds))
    show("Multi-token prediction, pocket", found)
    keep("mtp-pocket", found)


def bench_scale(options: argparse.Namespace) -> None:
    """Rows and context."""
    large = options.model != "pocket"
    counts, contexts = ([1, 2, 4, 8, 16, 32, 64], [1_024, 8_192, 32_768]) if large else ([1, 4, 8], [1_024])
    found = asyncio.run(rows.scale(options.model, counts, contexts))
    show(f"Rows and context, {options.model}", found)
    keep(f"scale-{options.model}", found)


def bench_images(options: argparse.Namespace) -> None:
    """Twelve-megapixel photos, and a picture beside streaming chats."""
    found = images.measure(options.model)
    show(f"Preparing 12-megapixel photos, {options.model}", found)
    keep(f"images-{options.model}", found)
    found = asyncio.run(images.overlap(options.model, options.rounds))
    show(f"A picture and streaming chats, alone and beside each other, {options.model}", found)
    keep(f"overlap-{options.model}", found)


def bench_window(options: argparse.Namespace) -> None:
    """How soon the window is painted, and how smooth it is then; on a screen or offscreen."""
    from tests.benchmarks import window  # needs Qt, which a machine without a screen may lack

    starts = startup.measure()
    figures = {name: spread([start[name] for start in starts]) for name in starts[0]}
    show(f"Start to painted window, median of {len(starts)}", [figures])
    found = window.measure(options.rounds)
    show("Lateness of a 10 ms timer in the window, panel open, by tabs that answer", window.lateness(found))
    show("From a key to its painting in the composer while tabs answer, ms", window.keys(found))
    show("One more output in an answer that is already long, ms", found["outputs"])
    keep("window-pocket", found["rounds"], start=figures, loading=found["loading"], outputs=found["outputs"])


def _compare(
    name: str,
    title: str,
    spec: workloads.Spec,
    options: argparse.Namespace,
    row: Callable[[list[list[dict[str, Any]]]], Row],
) -> None:
    """Replay on every engine in turn, ``rounds`` times over, and print one row per engine."""
    if options.replays:
        spec["rounds"] = options.replays + 1
    found: dict[str, list[list[dict[str, Any]]]] = {}
    failed: dict[str, str] = {}
    for _ in range(options.rounds):
        for engine in options.engines or peers.available():
            result = peers.replay(engine, spec)
            if "failed" in result:
                failed[engine] = result["failed"]
            else:
                found.setdefault(engine, []).extend(result["rounds"][1 if options.replays else 0 :])
    table = [{"engine": engine, **row(rounds)} for engine, rounds in found.items()]
    show(f"{title}, {options.model}", table)
    for engine, why in failed.items():
        print(f"{engine}: {why}")
    keep(f"{name}-{options.model}", table, failed=failed)


BENCHES = {
    "limit": bench_limit,
    "chats": bench_chats,
    "short": bench_short,
    "turns": bench_turns,
    "ragged": bench_ragged,
    "mtp": bench_mtp,
    "scale": bench_scale,
    "images": bench_images,
    "window": bench_window,
}


def main() -> None:
    """Run the benches named, or all."""
    parser = argparse.ArgumentParser(prog="packaging/dev bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHES)}; nothing: everything")
    parser.add_argument("--model", default="pocket", choices=["pocket", "dense-2b", "hybrid-2b"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, nargs="*", default=[1, 4, 8, 16], help="rows of the limit")
    parser.add_argument("--tokens", type=int, default=128, help="answer tokens per chat")
    parser.add_argument(
        "--replays", type=int, default=0, help="replay so often in each process, after a first time that is not counted"
    )
    parser.add_argument("--engines", nargs="*", choices=peers.ENGINES, help="leave some out")
    options = parser.parse_args()
    if unknown := sorted(set(options.names) - set(BENCHES)):
        parser.error(f"there is no {unknown[0]}: choose of {', '.join(BENCHES)}")
    for name in options.names or BENCHES:
        BENCHES[name](options)


if __name__ == "__main__":
    main()
