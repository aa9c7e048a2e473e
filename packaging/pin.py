"""Narrows one entry of a lock file to one wheel: `python -m pin LOCK NAME WHEEL`."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path


def narrowed(lock: str, name: str, digest: str) -> str:
    """The lock file with `digest` (SHA-256, hexadecimal) as the only hash of `name`.

    Raises:
        ValueError: the wheel is none of those that the lock file allows.
    """
    before, found, rest = lock.partition(f"\n{name}==")
    entry, _, after = rest.partition("\n")
    while after.startswith("    --hash"):
        line, _, after = after.partition("\n")
        entry += line
    if not found or digest not in entry:
        raise ValueError(f"The lock file does not allow this wheel of {name}.")
    version = entry.split()[0]
    return f"{before}\n{name}=={version} \\\n    --hash=sha256:{digest}\n{after}"


def main() -> None:
    """Rewrite the lock file."""
    path, name, wheel = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    path.write_text(narrowed(path.read_text(encoding="utf-8"), name, digest), encoding="utf-8")


if __name__ == "__main__":
    main()
