"""What was copied, when the app ends."""

from __future__ import annotations

from PySide6.QtGui import QClipboard, QGuiApplication
from shiboken6 import Shiboken


def let_go() -> None:
    """Leave copied text as Qt's own: what Python has made is freed after Python has ended, and crashes the process."""
    clipboard = QGuiApplication.clipboard()
    for mode in (QClipboard.Mode.Clipboard, QClipboard.Mode.Selection):
        copied = clipboard.mimeData(mode)
        if copied is not None and Shiboken.createdByPython(copied):
            clipboard.setText(copied.text(), mode)
