"""Changes settings in the real window while two tabs stream, and compares the panel with the engine: prints JSON.

python -m tests.app.live_settings
"""

from __future__ import annotations

import json
from time import monotonic
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget

from app.state.options import of_page, options
from app.views.numbers import figure, gigabytes, milliseconds, of_gigabytes, percent
from tests.app.driving import run, until

CACHE_MB = 64


class Hands:
    """Uses the settings dialog as a person does."""

    def __init__(self, program: Any) -> None:
        self.window = program.window
        QTest.keyClick(self.window, Qt.Key.Key_Comma, Qt.KeyboardModifier.ControlModifier)
        self.dialog = self.window._dialog

    async def row(self, key: str) -> Any:
        page = options()[key].page
        self.dialog.show_page(page)
        rows = self.dialog.pages[page].rows
        await until(lambda: len(rows) == len(of_page(page)))
        return next(row for row in rows if row.option.key == key)

    async def type(self, key: str, text: str) -> None:
        field = (await self.row(key)).field
        field.setFocus()
        field.selectAll()
        QTest.keyClicks(field, text)
        QTest.keyClick(field, Qt.Key.Key_Return)


def ask(library: Any, text: str) -> Any:
    chat = library.new_chat()
    chat.composer.set_text(text)
    chat.composer.send()
    return chat


def budget_mb(stats: dict[str, Any]) -> float:
    """Most that both caches together may hold."""
    return float(stats["vision_embedding_cache"]["max_memory_mb"] + stats["memory_aware_cache"]["max_memory_mb"])


async def change_while_streaming(program: Any) -> dict[str, Any]:
    """Cache size and MTP, changed between the words of two answers."""
    chats = [ask(program.library, text) for text in ("Count to 30.", "Tell me a story.")]
    scheduler = program.model.scheduler
    await until(lambda: scheduler.get_stats()["num_decoding"] == 2)
    before = scheduler.get_stats()
    hands = Hands(program)
    await hands.type("engine.cache_memory_mb", str(CACHE_MB))
    QTest.mouseClick((await hands.row("engine.enable_mtp")).control, Qt.MouseButton.LeftButton)
    always = (await hands.row("engine.mtp_policy")).control._buttons["always"]
    QTest.mouseClick(always, Qt.MouseButton.LeftButton)
    await until(lambda: scheduler.get_stats()["mtp"]["enabled"])
    after = scheduler.get_stats()
    streaming = [chat.answering for chat in chats]
    await until(lambda: not any(chat.answering for chat in chats))
    return {
        "streaming": streaming,
        "ended": [chat.turns[-1].state for chat in chats],
        "budget_mb": [budget_mb(before), budget_mb(after)],
        "mtp": [before["mtp"]["enabled"], after["mtp"]["enabled"]],
    }


class Log:
    """Notes when the panel reads the engine, and what it is told."""

    def __init__(self, scheduler: Any) -> None:
        self._scheduler, self.get_stats = scheduler, scheduler.get_stats
        self.read: list[tuple[float, dict[str, Any]]] = []
        scheduler.get_stats = self._note

    def _note(self) -> dict[str, Any]:
        stats: dict[str, Any] = self.get_stats()
        self.read.append((monotonic(), stats))
        return stats

    def end(self) -> None:
        del self._scheduler.get_stats

    def speed(self, request_id: str | None = None) -> float:
        """Tokens per second over the last second, of one request or of all, by this log."""
        (since, before), (now, after) = self.read[max(0, len(self.read) - 5)], self.read[-1]
        return (tokens(after, request_id) - tokens(before, request_id)) / (now - since)


def tokens(stats: dict[str, Any], request_id: str | None) -> int:
    """How many one request has been given, or all have."""
    if request_id is None:
        return int(stats["batch_generator"]["generation_tokens"])
    return sum(each["completion_tokens"] for each in stats["requests"] if each["request_id"] == request_id)


def speed_told(told: str, measured: float) -> tuple[str, str]:
    """The text and what it should be; both clocks were read a moment apart."""
    return told, told if abs(float(told) - measured) <= 0.05 + 0.02 * measured else figure(measured)


def told_and_measured(program: Any, log: Log) -> list[tuple[str, str, str]]:
    """Name, text in the panel and figure of the engine, from one and the same reading."""
    panel = program.window.vitals
    program.vitals._sample()
    stats = log.read[-1][1]
    stalls = panel._loop.values()
    prefix, mtp = stats["memory_aware_cache"], stats["mtp"]

    def in_bytes(name: str) -> int:
        return round(stats[name] * 1e9)

    return [
        ("Speed", *speed_told(panel._speed.text(), log.speed())),
        ("Answering", panel._batch.values()["Answering"], str(stats["num_running"])),
        ("In use", panel._used.text(), of_gigabytes(in_bytes("metal_active_memory_gb"), in_bytes("memory_budget_gb"))),
        (
            "Peak",
            panel._more.text(),
            f"Peak {gigabytes(in_bytes('metal_peak_memory_gb'))} · "
            f"{gigabytes(in_bytes('metal_cache_memory_gb'))} reusable",
        ),
        ("Worst in 100", stalls["Worst in 100"], milliseconds(stats["loop_stall_ms"]["p99"])),
        (
            "Earlier turns",
            panel._caches["prefix"]._size.text(),
            f"{prefix['current_memory_mb']:.0f} of {prefix['max_memory_mb']:.0f} MB",
        ),
        ("Hits", panel._caches["prefix"].facts.split(" · ")[0], f"{percent(prefix['hit_rate'])} hits"),
        ("Accepted", panel._drafts.values()["Accepted"], percent(mtp["acceptance_rate"])),
        ("Tokens per step", panel._drafts.values()["Tokens per step"], f"{mtp['tokens_per_round']:.2f}"),
        *(
            (line._name.whole, *speed_told(line._speed.text(), log.speed(entry["request_id"])))
            for line, entry in zip(filter(QWidget.isVisible, panel._streams.lines), stats["requests"], strict=True)
        ),
    ]


async def drive(program: Any) -> dict[str, Any]:
    """The whole walk."""
    notes: list[str] = []
    program.library.current.composer.notice.connect(notes.append)
    await until(lambda: program.model.status in ("ready", "failed"))
    changed = await change_while_streaming(program)
    program.vitals.watch(False)
    log = Log(program.model.scheduler)
    program.vitals.watch(True)
    lone = ask(program.library, "Tell me a story.")
    stats = log.get_stats
    await until(
        lambda: stats()["mtp"]["attempted"] > 4 and any(each["tokens_per_second"] for each in stats()["requests"])
    )
    figures = told_and_measured(program, log)
    log.end()
    await until(lambda: not lone.answering)
    kept = program.preferences._path
    await until(lambda: json.loads(kept.read_text())["engine"].get("mtp_policy") == "always")
    saved = json.loads(kept.read_text())["engine"]
    program.vitals.clear("prefix")
    await until(lambda: stats()["memory_aware_cache"]["current_memory_mb"] == 0.0)
    return {
        **changed,
        "figures": figures,
        "lone": [lone.turns[-1].state, lone.turns[-1].facts.completion_tokens],
        "saved": [saved["cache_memory_mb"], saved["enable_mtp"], saved["max_num_seqs"]],
        "notes": notes,
        "entries": stats()["memory_aware_cache"]["entry_count"],
    }


if __name__ == "__main__":
    print(json.dumps(run(drive, engine={"max_num_seqs": 0, "prefill_step_size": 512})))
