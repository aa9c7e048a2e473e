"""A screenshot by the platform's own tool, on its way into a draft."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, QProcess, QTemporaryDir

from app.state.composer import Composer

_TOOLS: tuple[tuple[str, ...], ...] = (
    (("screencapture", "-i", "-x"),)
    if sys.platform == "darwin"
    else (
        ("gnome-screenshot", "-a", "-f"),
        ("spectacle", "--region", "--background", "--nonotify", "--output"),
        ("scrot", "--select", "--overwrite"),
        ("import",),
    )
)
"""Each lets the person choose a part of the screen and writes the file named last."""
_NO_TOOL = (
    "There is no program here that takes screenshots. Install gnome-screenshot, Spectacle or scrot, "
    "or copy a picture and paste it."
)


class Screenshot(QObject):
    """Takes one at a time; one that the person gives up leaves nothing."""

    def __init__(self, parent: QObject | None = None, *, find: Callable[[str], str | None] = shutil.which) -> None:
        super().__init__(parent)
        self._find = find
        self._folder = QTemporaryDir()
        self._process: QProcess | None = None

    def take(self, draft: Composer) -> None:
        """Let the person choose a part of the screen; the draft gets the picture, or the reason why there is none."""
        if self._process is not None:
            return
        tool = next((tool for tool in _TOOLS if self._find(tool[0])), None)
        if tool is None:
            draft.notice.emit(_NO_TOOL)
            return
        path = Path(self._folder.filePath(time.strftime("Screenshot %H.%M.%S.png")))
        self._process = process = QProcess(self)
        process.finished.connect(lambda: self._done(draft, path))
        process.errorOccurred.connect(lambda error: self._failed(draft, tool[0], error))
        process.start(tool[0], [*tool[1:], str(path)])

    def _done(self, draft: Composer, path: Path) -> None:
        self._forget()
        if path.exists():
            draft.add_files([path])

    def _failed(self, draft: Composer, tool: str, error: QProcess.ProcessError) -> None:
        if error is QProcess.ProcessError.FailedToStart:
            self._forget()
            draft.notice.emit(f"{tool} could not be started. Take a screenshot yourself and paste it.")

    def _forget(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.deleteLater()
