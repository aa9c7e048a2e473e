"""The Mac app's Info.plist: the template, filled in."""

from __future__ import annotations

import plistlib
from string import Template
from typing import Any

import contents


def information() -> dict[str, Any]:
    """Every key of Info.plist, with the version of this tree."""
    template = Template((contents.ROOT / "packaging" / "Info.plist.in").read_text(encoding="utf-8"))
    filled = template.substitute(
        name=contents.NAME, identifier=contents.IDENTIFIER, version=contents.version(), macos=contents.MACOS
    )
    return dict(plistlib.loads(filled.encode()))
