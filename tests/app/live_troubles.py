"""Starts or ends the real program at a bad moment: prints JSON.

python -m tests.app.live_troubles newer|busy
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import tempfile
import time
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil

from app.storage.schema import Version
from tests.app.driving import run, until
from tests.hub import open_hub, tiny_model

_REPO = "owner/Tiny-VL-4bit"


def newer() -> dict[str, Any]:
    """A library that a newer Braid has written."""
    before: list[bytes] = []

    def fill(profile: Path) -> None:
        with closing(sqlite3.connect(profile / "library.sqlite")) as connection:
            connection.execute("CREATE TABLE unheard_of (text TEXT)")
            connection.execute(f"PRAGMA user_version = {Version(99, 0).packed}")
        before.append((profile / "library.sqlite").read_bytes())

    async def drive(program: Any) -> dict[str, Any]:
        notice, chat = program.window.page.composer.notice, program.library.current
        await until(notice.isVisible)
        told = notice.accessibleName()
        chat.composer.set_text("How many shapes are there?")
        chat.composer.send()
        await until(lambda: not chat.answering)
        return {"told": told, "states": [turn.state for turn in chat.turns]}

    def look(profile: Path) -> dict[str, Any]:
        left = sorted(path.name for path in profile.glob("library*"))
        return {"untouched": (profile / "library.sqlite").read_bytes() == before[0], "left": left}

    return run(drive, fill=fill, look=look)


def busy() -> dict[str, Any]:
    """Quitting while a model is downloaded, an export is written and an answer streams."""
    with open_hub() as hub, tempfile.TemporaryDirectory() as folder:
        os.environ |= {"HF_HOME": folder, "HF_HUB_CACHE": f"{folder}/hub", "HF_TOKEN_PATH": f"{folder}/none"}
        hub.models[_REPO] = tiny_model(4_000_000)
        hub.rate = 400_000
        exported = Path(folder, "chats.braid")
        replace, replacing, began = os.replace, [], []

        def replace_slowly(source: Any, target: Any) -> None:
            if Path(target) == exported:
                replacing.append(target)
                time.sleep(0.5)
            replace(source, target)

        async def drive(program: Any) -> dict[str, Any]:
            program.models._endpoint = hub.endpoint
            chat = program.library.current
            chat.composer.set_text("Tell me a long story.")
            chat.composer.send()
            program.models.download(_REPO)
            [download] = program.models.downloads
            await until(lambda: download.done > 100_000 and chat.turns[-1].role == "assistant" and chat.turns[-1].text)
            os.replace = replace_slowly
            program.library.exchange.export([chat.id], exported)
            await until(lambda: replacing)
            began.append(time.monotonic())
            return {"worker": download._process.processId(), "streaming": chat.answering}

        def look(profile: Path) -> dict[str, Any]:
            with closing(sqlite3.connect(profile / "library.sqlite")) as connection:
                turns = connection.execute("SELECT state, length(text) > 0 FROM turns ORDER BY seq").fetchall()
            return {"took_s": time.monotonic() - began[0], "turns": turns}

        found = run(drive, look=look)
        with zipfile.ZipFile(exported) as archive:
            damaged = archive.testzip()
        parts = [path for path in Path(folder).rglob("*.incomplete") if path.stat().st_size]
        return found | {
            "worker_lives": psutil.pid_exists(found["worker"]),
            "exported": damaged is None and not list(Path(folder).glob("*.part")),
            "received": bool(parts) or any(Path(folder).rglob("*.safetensors")),
        }


if __name__ == "__main__":
    print(json.dumps({"newer": newer, "busy": busy}[sys.argv[1]]()))
