"""Checks a finished bundle without starting it: `python packaging/verify_bundle.py FOLDER`."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import Distribution
from pathlib import Path

import contents
import licences
import macho

MAX_MB = 600
_ONCE = ("libmlx.", "libavcodec", "libQt6Core", "libpdfium")


def problems(bundle: Path, lock: str) -> Iterator[str]:
    """A sentence for everything that is wrong with the bundle; `lock` is the lock file it was built from."""
    found = files(bundle)
    yield from _copies(found)
    yield from _left_out(bundle, found)
    yield from _resources(found)
    yield from _versions(found, lock)
    yield from _licences(found)
    for path in found:
        if macho.is_code(path):
            yield from _code(path)
    size = megabytes(found)
    if size > MAX_MB:
        yield f"The bundle has {size} MB; {MAX_MB} MB are the most."


def files(bundle: Path) -> list[Path]:
    """Every file but links, which a Mac's bundle has many of."""
    return sorted(path for path in bundle.rglob("*") if path.is_file() and not path.is_symlink())


def megabytes(found: list[Path]) -> int:
    """Size in MB of 10^6 bytes."""
    return round(sum(path.stat().st_size for path in found) / 1e6)


def made_of(bundle: Path, found: list[Path]) -> list[tuple[str, float]]:
    """(part, MB) from the largest down; a part is the first folder below the one that holds all."""
    sizes: Counter[str] = Counter()
    for path in found:
        inside = [part for part in path.relative_to(bundle).parts if part not in _FRAMES]
        sizes[inside[0].removesuffix(".libs") if len(inside) > 1 else "single libraries and the program"] += (
            path.stat().st_size
        )
    return [(name, size / 1e6) for name, size in sizes.most_common()]


_FRAMES = {"_internal", "Contents", "Frameworks", "Resources", "MacOS"}


def _copies(found: list[Path]) -> Iterator[str]:
    for stem in _ONCE:
        copies = [path for path in found if path.name.startswith(stem)]
        if len(copies) > 1 or (stem == "libmlx." and not copies):
            yield f"There are {len(copies)} copies of {stem}: {', '.join(map(str, copies))}."
    for path in found:
        if path.name.startswith("libmlx."):
            if path.parts[-3:-1] != ("mlx", "lib"):
                yield f"{path.name} lies in {path.parent}, not in mlx/lib."
            if path.suffix == ".dylib" and not _beside(path, "mlx.metallib"):
                yield "The Metal library is not beside libmlx.dylib."


def _beside(path: Path, name: str) -> bool:
    return path.with_name(name).exists()  # on a Mac a link into Contents/Resources


def _left_out(bundle: Path, found: list[Path]) -> Iterator[str]:
    tops = {part for path in found for part in path.relative_to(bundle).parts[:-1]}
    for name in contents.LEFT_OUT:
        if name in tops:
            yield f"{name} is in the bundle and should not be."


def _resources(found: list[Path]) -> Iterator[str]:
    there = {tuple(path.parts[path.parts.index("resources") :]): path for path in found if "resources" in path.parts}
    for source in contents.resources():
        parts = source.relative_to(contents.ROOT).parts
        if parts not in there:
            yield f"{'/'.join(parts)} is missing."
        elif there[parts].read_bytes() != source.read_bytes():
            yield f"{'/'.join(parts)} is not the one of this tree."


def _versions(found: list[Path], lock: str) -> Iterator[str]:
    pinned = {licences.normal(name): version for name, version in re.findall(r"^([\w.-]+)==(\S+)", lock, re.MULTILINE)}
    seen = {}
    for path in found:
        if path.name == "METADATA" and path.parent.suffix == ".dist-info":
            distribution = Distribution.at(path.parent)
            seen[licences.normal(distribution.name)] = distribution.version
    for name in contents.METADATA:
        if licences.normal(name) not in seen:
            yield f"The version of {name} cannot be read in the bundle."
    for name, version in seen.items():
        if pinned.get(name) != version:
            yield f"{name} is {version}, the lock file says {pinned.get(name)}."


def _licences(found: list[Path]) -> Iterator[str]:
    names = {path.name for path in found if "licences" in path.parts}
    for name in ("NOTICE.txt", "Apache-2.0.txt", "LGPL-3.0.txt", "GPL-2.0.txt", "Python.txt"):
        if name not in names:
            yield f"The licence {name} is missing."


def _code(path: Path) -> Iterator[str]:
    """What keeps code from running on the oldest supported macOS on Apple silicon."""
    with path.open("rb") as file:
        parts = list(macho.slices(file))
    arm = [part for part in parts if part.is_arm64]
    if parts and not arm:
        yield f"{path.name} has no code for Apple silicon."
    newest = tuple(int(part) for part in contents.MACOS.split("."))
    newest = max([newest, *(limit for package, limit in contents.MARKED_NEWER.items() if package in path.parts)])
    for part in arm:
        if part.minimum is not None and part.minimum > newest:
            yield f"{path.name} needs macOS {part.minimum[0]}.{part.minimum[1]}."


def main() -> int:
    """Tell what the bundle is made of and what is wrong with it."""
    bundle = Path(sys.argv[1]).resolve()
    target = "mac" if bundle.suffix == ".app" else "linux"
    lock = (contents.ROOT / "packaging" / f"requirements-{target}.lock").read_text(encoding="utf-8")
    found = files(bundle)
    print(f"{bundle.name}: {megabytes(found)} MB in {len(found)} files")
    for name, size in made_of(bundle, found)[:14]:
        print(f"{size:8.1f} MB  {name}")
    wrong = list(problems(bundle, lock))
    for sentence in wrong:
        print(sentence, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
