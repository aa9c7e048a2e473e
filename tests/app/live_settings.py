"""Changes settings in the real window while two tabs stream, and compares the panel with the engine: prints JSON.

python -m tests.app.live_settings
"""

from __future__ import annotations

import json
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget

from app.state.options import of_page, options
from app.views.numbers import figure, gigabytes, milliseconds, percent
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


def told_and_measured(program: Any) -> list[tuple[str, str, str]]:
    """Name, text in the panel and figure of the engine, from one and the same reading."""
    scheduler, panel = program.model.scheduler, program.window.vitals
    stats = scheduler.get_stats()
    scheduler.get_stats = lambda: stats
    program.vitals._sample()
    del scheduler.get_stats
    memory, stalls = panel._memory.values(), panel._loop.values()
    prefix, mtp = stats["memory_aware_cache"], stats["mtp"]
    return [
        ("Answering", panel._batch.values()["Answering"], str(stats["num_running"])),
        ("In use", memory["In use"], gigabytes(round(stats["metal_active_memory_gb"] * 1e9))),
        ("Peak", memory["Peak"], gigabytes(round(stats["metal_peak_memory_gb"] * 1e9))),
        ("Limit", memory["Limit"], gigabytes(round(stats["memory_budget_gb"] * 1e9))),
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
            (line._name.whole, line._speed.text(), figure(entry["tokens_per_second"]))
            for line, entry in zip(filter(QWidget.isVisible, panel._streams.lines), stats["requests"], strict=True)
        ),
    ]


async def drive(program: Any) -> dict[str, Any]:
    """The whole walk."""
    notes: list[str] = []
    program.library.current.composer.notice.connect(notes.append)
    await until(lambda: program.model.status in ("ready", "failed"))
    changed = await change_while_streaming(program)
    lone = ask(program.library, "Tell me a story.")
    stats = program.model.scheduler.get_stats
    await until(
        lambda: stats()["mtp"]["attempted"] > 4 and any(each["tokens_per_second"] for each in stats()["requests"])
    )
    figures = told_and_measured(program)
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
