"""Plays one sound at a time with the platform's own player."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, QProcess, Signal

_PLAYERS: dict[str, tuple[str, ...]] = (
    {"afplay": (".wav", ".mp3", ".m4a", ".aac", ".flac", ".aif", ".aiff", ".caf")}
    if sys.platform == "darwin"
    else {"pw-play": (".wav", ".flac", ".ogg", ".oga"), "paplay": (".wav", ".flac", ".ogg", ".oga"), "aplay": (".wav",)}
)
"""Each with the kinds of files that it plays; given others, some of them make noise."""


class Player(QObject):
    """Plays sounds.

    Signals:
        changed: `playing` is another one.

    Attributes:
        playing: the file that is heard now.
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None, *, find: Callable[[str], str | None] = shutil.which) -> None:
        super().__init__(parent)
        self.playing: Path | None = None
        self._find = find
        self._process: QProcess | None = None

    def play(self, path: Path) -> bool:
        """Play a file from its begin; False where no player here can."""
        self.stop()
        suffix = path.suffix.lower()
        tool = next((tool for tool, plays in _PLAYERS.items() if suffix in plays and self._find(tool)), None)
        if tool is None:
            return False
        self._process = process = QProcess(self)
        process.finished.connect(self._ended)
        process.errorOccurred.connect(self._ended)
        self.playing = path
        process.start(tool, [str(path)])
        self.changed.emit()
        return True

    def stop(self) -> None:
        """Be quiet."""
        process, self._process = self._process, None
        if process is None:
            return
        process.blockSignals(True)
        process.kill()
        process.waitForFinished(500)
        process.deleteLater()
        self.playing = None
        self.changed.emit()

    def _ended(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.deleteLater()
            self.playing = None
            self.changed.emit()
