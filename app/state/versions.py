"""What this copy of Braid consists of, and where it writes its log."""

from __future__ import annotations

import logging
import platform
from importlib.metadata import PackageNotFoundError, version
from logging.handlers import RotatingFileHandler
from pathlib import Path

import PySide6
from PySide6.QtCore import qVersion

from app import __version__

_LIBRARIES = (("MLX", "mlx"), ("mlx-vlm", "mlx-vlm"), ("Transformers", "transformers"), ("PyAV", "av"))


def versions() -> tuple[tuple[str, str], ...]:
    """Name and version of each part, Braid first."""
    libraries = ((name, _installed(package)) for name, package in _LIBRARIES)
    return (
        ("Braid", __version__),
        *((name, found) for name, found in libraries if found),
        ("Qt", f"{qVersion()} (PySide {PySide6.__version__})"),
        ("Python", platform.python_version()),
        ("System", _system()),
    )


def log_folder() -> Path | None:
    """The folder that the log is written to; None while there is none."""
    files = [handler for handler in logging.getLogger().handlers if isinstance(handler, RotatingFileHandler)]
    return Path(files[0].baseFilename).parent if files else None


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _system() -> str:
    mac = platform.mac_ver()[0]
    name = f"macOS {mac}" if mac else f"{platform.system()} {platform.release()}"
    return f"{name} ({platform.machine()})"
