"""What in an app is signed, one path a line, inside out: a signature seals everything that lies below it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from macho import is_code
from verify_bundle import files


def order(app: Path) -> Iterator[Path]:
    """Code files from the deepest up, then frameworks from the deepest up; the app itself is not among them.

    The app's own program is sealed with the app. Data needs no signature of its own.
    """
    program = app / "Contents" / "MacOS"
    code = [path for path in files(app) if path.parent != program and is_code(path)]
    frameworks = [path for path in app.rglob("*.framework") if path.is_dir() and not path.is_symlink()]
    for paths in (code, frameworks):
        yield from sorted(paths, key=lambda path: (-len(path.parts), path))


if __name__ == "__main__":
    for signed in order(Path(sys.argv[1])):
        print(signed)
