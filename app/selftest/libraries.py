"""Which versions and which native libraries this process really uses."""

from __future__ import annotations

import ctypes
import platform
import sys
from importlib import metadata
from pathlib import Path

from PySide6.QtCore import qVersion

from app import __version__
from app.selftest.report import Failed

PACKAGES = ("mlx", "mlx-vlm", "transformers", "PySide6-Essentials", "av", "pillow", "numpy")
"""Distributions whose versions are told; the bundle carries their metadata."""

_SINGLE = ("mlx.", "avcodec", "QtCore", "Qt6Core", "pdfium", "heif")
"""Libraries of which a second copy in one process breaks things."""


def versions() -> str:
    """Every version that matters for a fault report.

    Raises:
        Failed: Qt's library is another version than its Python part.
    """
    found = {name: metadata.version(name) for name in PACKAGES}
    if found["PySide6-Essentials"] != qVersion():
        raise Failed(f"PySide6 {found['PySide6-Essentials']} runs on Qt {qVersion()}.")
    kind = "bundle" if bundle() else "source tree"
    python = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    return f"Braid {__version__} as {kind}, {python}, " + ", ".join(f"{key} {value}" for key, value in found.items())


def bundle() -> Path | None:
    """The folder of the bundle that runs, or None in a source tree."""
    folder = getattr(sys, "_MEIPASS", None)
    return Path(folder).resolve() if folder else None


def loaded() -> str:
    """Which copies of the libraries that matter are in use.

    Raises:
        Failed: one is there twice, or comes from outside the bundle.
    """
    inside, found, told = bundle(), images(), []
    for stem in _SINGLE:
        copies = [path for path in found if path.name.removeprefix("lib").startswith(stem)]
        if len(copies) > 1:
            raise Failed(f"There are {len(copies)} copies of one library: {', '.join(map(str, copies))}.")
        told += [str(path.relative_to(inside) if inside and path.is_relative_to(inside) else path) for path in copies]
        if inside and not all(path.is_relative_to(inside) for path in copies):
            raise Failed(f"{copies[0]} comes from outside the bundle.")
    return ", ".join(told)


def images() -> list[Path]:
    """The native libraries that are loaded now."""
    if sys.platform == "darwin":
        return _dyld_images()
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    return sorted({Path(line.split(maxsplit=5)[5]).resolve() for line in lines if line.count("/") and ".so" in line})


def _dyld_images() -> list[Path]:
    system = ctypes.CDLL(None)
    system._dyld_get_image_name.restype = ctypes.c_char_p  # noqa: SLF001 - the system's own name for it
    system._dyld_get_image_name.argtypes = [ctypes.c_uint32]  # noqa: SLF001
    count: int = system._dyld_image_count()  # noqa: SLF001
    names = [system._dyld_get_image_name(index) for index in range(count)]  # noqa: SLF001
    return sorted({Path(name.decode()).resolve() for name in names if name})
