"""Writes the Homebrew cask of a disk image: `python packaging/cask.py IMAGE CASK`."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from string import Template

import contents

HOMEPAGE = "BRAID_HOMEPAGE"


def cask(image: Path, homepage: str) -> str:
    """The cask for an image that is published among the home page's releases."""
    version = contents.version()
    template = Template((contents.ROOT / "packaging" / "homebrew" / "braid.rb.in").read_text(encoding="utf-8"))
    return template.substitute(
        version=version,
        sha256=hashlib.sha256(image.read_bytes()).hexdigest(),
        url=f"{homepage}/releases/download/v{version}/{image.name}",
        homepage=homepage,
        identifier=contents.IDENTIFIER,
    )


def main() -> None:
    """Write the cask."""
    homepage = os.environ.get(HOMEPAGE, "").rstrip("/")
    if not homepage.startswith("https://"):
        sys.exit(f"Name the project's home page in the variable {HOMEPAGE}.")
    Path(sys.argv[2]).write_text(cask(Path(sys.argv[1]), homepage), encoding="utf-8")


if __name__ == "__main__":
    main()
