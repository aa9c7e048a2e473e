"""Makes a process of the source tree see what the bundle will: none of the modules that are left out."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def hide() -> None:
    """Hide them from everything that is imported from now on."""
    sys.path.append(str(ROOT / "packaging"))
    import contents

    origin = find_spec("transformers").origin  # type: ignore[union-attr] - it is installed
    names = set(contents.excluded(Path(str(origin)).parent))

    class Remaining(PathFinder):
        """The usual finder, but for those names and what lies in them."""

        @classmethod
        def find_spec(cls, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
            parts = fullname.split(".")
            if any(".".join(parts[:end]) in names for end in range(1, len(parts) + 1)):
                return None
            return super().find_spec(fullname, path, target)

    sys.meta_path[sys.meta_path.index(PathFinder)] = Remaining
