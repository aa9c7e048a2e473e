"""Whether the person wants less movement: chosen in the settings, or asked of the system."""

from __future__ import annotations

from functools import cache

from PySide6.QtWidgets import QApplication

from app import mac

_chosen = False


def choose(less: bool) -> None:
    """Keep still whatever the system says, or follow the system."""
    global _chosen
    _chosen = less


def reduced() -> bool:
    """Whether nothing should move that need not."""
    # Elsewhere than on a Mac no system setting reaches Qt but this one: a caret that must not blink.
    return _chosen or (_mac_asks() if mac.MAC else QApplication.cursorFlashTime() == 0)


@cache
def _mac_asks() -> bool:
    return mac.reduces_motion()
