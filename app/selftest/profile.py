"""What a session left on disk."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

from app.selftest.report import Failed


def check(folder: Path) -> str:
    """Settings, library, media and log of the session that has just ended.

    Raises:
        Failed: something is missing or damaged, or the log tells of an error.
    """
    settings = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    with closing(sqlite3.connect(folder / "library.sqlite")) as connection:
        (state,) = connection.execute("PRAGMA integrity_check").fetchone()
        (turns,) = connection.execute("SELECT count(*) FROM turns WHERE state = 'done'").fetchone()
    media = [path for path in (folder / "media").rglob("*") if path.is_file()]
    log = (folder / "logs" / "braid.log").read_text(encoding="utf-8")
    errors = [line for line in log.splitlines() if re.match(r"\S+ \S+ (ERROR|CRITICAL) ", line)]
    if "schema_version" not in settings:
        raise Failed("The settings were not written.")
    if state != "ok" or turns < 2:
        raise Failed(f"The library holds {turns} turns and its check says: {state}.")
    if not media:
        raise Failed("The dropped picture was not kept.")
    if errors:
        raise Failed(f"The log tells of an error: {errors[0]}")
    return f"{turns} turns, {len(media)} media files, settings and a log without errors"
