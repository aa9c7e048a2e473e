"""The licences of everything in the bundle, in one folder with a list."""

from __future__ import annotations

import shutil
import sys
import sysconfig
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import contents

TEXTS = contents.ROOT / "packaging" / "licences"
_NAMES = ("licen", "copying", "notice", "authors")
_WITHOUT_FILES = {
    "latex2mathml": "MIT.txt",
    "pyside6-essentials": "LGPL-3.0.txt",
    "sentencepiece": "Apache-2.0.txt",
    "shiboken6": "LGPL-3.0.txt",
    "tokenizers": "Apache-2.0.txt",
}
"""Distributions whose wheels carry no text, and which of ours holds for them."""


class Unlicensed(Exception):
    """A distribution's licence is unknown; the message names it."""


def gather(folder: Path) -> Path:
    """Fill a folder with every licence of this environment and return it.

    Raises:
        Unlicensed: a distribution brings no licence text and none of ours is known to hold.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for text in sorted(TEXTS.iterdir()):
        shutil.copy(text, folder)
    shutil.copy(contents.ROOT / "LICENSE", folder / "Apache-2.0.txt")
    shutil.copy(_python_licence(), folder / "Python.txt")
    lines = [f"Python {sys.version.split()[0]}: Python Software Foundation License 2, Python.txt"]
    lines += [_keep(distribution, folder) for distribution in installed()]
    notice = (TEXTS / "NOTICE.txt").read_text(encoding="utf-8")
    (folder / "NOTICE.txt").write_text("\n".join([notice, *lines, "", *_ffmpeg()]) + "\n", encoding="utf-8")
    return folder


def installed() -> list[metadata.Distribution]:
    """Every distribution of this environment but Braid itself, by name."""
    found = {normal(item.name): item for item in metadata.distributions() if item.name}
    found.pop(normal(contents.NAME), None)
    return [found[name] for name in sorted(found)]


def normal(name: str) -> str:
    """A distribution's name as package indexes compare it."""
    return name.lower().replace("_", "-").replace(".", "-")


def _keep(distribution: metadata.Distribution, folder: Path) -> str:
    name = normal(distribution.name)
    about = f"{distribution.name} {distribution.version}: {_stated(distribution)}"
    files = list(_texts(distribution))
    if not files and name not in _WITHOUT_FILES:
        raise Unlicensed(
            f"{distribution.name} brings no licence text. Add one to packaging/licences and name it there."
        )
    for file in files:
        target = folder / name / "/".join(part for part in file.parts if not part.endswith(".dist-info"))
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(str(distribution.locate_file(str(file))), target)
    if files:
        return f"{about}, {name}/"
    author = distribution.metadata.get("Author") or distribution.metadata.get("Author-email") or "its authors"
    return f"{about}, by {author}, {_WITHOUT_FILES[name]}"


def _texts(distribution: metadata.Distribution) -> Iterator[metadata.PackagePath]:
    for file in distribution.files or ():
        inside = any(part.endswith(".dist-info") for part in file.parts)
        named = any(word in part.lower() for part in file.parts[1:] for word in _NAMES)
        if inside and named and file.suffix != ".py":
            yield file


def _stated(distribution: metadata.Distribution) -> str:
    said = distribution.metadata.get("License-Expression") or distribution.metadata.get("License") or ""
    first = said.strip().splitlines()[0] if said.strip() else ""
    kinds = [
        line.split(" :: ")[-1] for line in distribution.metadata.get_all("Classifier") or () if "License ::" in line
    ]
    return first or ", ".join(kinds) or "see its text"


def _python_licence() -> Path:
    """Where installers put it: beside the library on most systems, under share on Debian."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    places = [
        Path(sysconfig.get_path("stdlib")) / "LICENSE.txt",
        Path(sys.base_prefix) / "LICENSE.txt",
        Path("/usr/share/doc") / version / "copyright",
    ]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise Unlicensed("Python's own licence text was not found beside its library.")
    return found


def _ffmpeg() -> Iterator[str]:
    from av._core import library_meta

    for name, about in sorted(library_meta.items()):
        version = ".".join(map(str, about["version"]))
        options = " ".join(
            word for word in about["configuration"].split() if not word.startswith(("--prefix", "--lib"))
        )
        yield f"{name} {version}: {about['license']}; built with {options}"
