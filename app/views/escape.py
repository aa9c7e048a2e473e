"""Escape for a field that is left with it."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QKeyEvent


def claims_escape(event: QEvent) -> bool:
    """Take Escape before the window's shortcut does; for a field's `event`."""
    override = event.type() == QEvent.Type.ShortcutOverride
    if override and isinstance(event, QKeyEvent) and event.key() == Qt.Key.Key_Escape:
        event.accept()
        return True
    return False
