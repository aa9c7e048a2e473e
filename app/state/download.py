"""One model on its way from the hub: a process that can be paused, resumed and ended at any moment."""

from __future__ import annotations

import json
import logging
import time
from collections import deque
from pathlib import Path
from typing import Any, Literal

from PySide6.QtCore import QObject, QProcess, QProcessEnvironment, Signal

from engine.models import download as worker

_log = logging.getLogger(__name__)
_SPEED_SAMPLES = 16
_KILL_MS = 2000
_ROOT = Path(__file__).parents[2]
State = Literal["running", "paused", "failed", "done"]
_FAULT = "The download ended for an unknown reason; the log file says more. Resume to go on where it stopped."


class Download(QObject):
    """A download; what was received stays on disk until it is discarded.

    Signals:
        changed: anything below changed, a few times a second at most.

    Attributes:
        repo: the model's id on the hub.
        done: bytes on disk of all that are needed.
        total: bytes needed; 0: not known yet.
        stage: what is being done.
        error: why it failed, in a sentence.
    """

    changed = Signal()

    def __init__(self, repo: str, cache: Path, endpoint: str = "", parent: QObject | None = None) -> None:
        """Start at once."""
        super().__init__(parent)
        self.repo = repo
        self.state: State = "paused"
        self.done = self.total = 0
        self.stage = ""
        self.error: str | None = None
        self._command = worker.command(repo, cache, endpoint)
        self._speed: deque[tuple[float, int]] = deque(maxlen=_SPEED_SAMPLES)
        self._rest = b""
        self._process = QProcess(self)
        self._process.setProcessEnvironment(_environment())
        self._process.readyReadStandardOutput.connect(self._read)
        self._process.finished.connect(self._ended)
        self._process.errorOccurred.connect(self._failed_to_start)
        self.resume()

    @property
    def rate(self) -> float | None:
        """Bytes per second over the last seconds; None before two readings."""
        if len(self._speed) < 2:
            return None
        (since, before), (now, after) = self._speed[0], self._speed[-1]
        return max(0, after - before) / (now - since) if now > since else None

    @property
    def remaining_s(self) -> float | None:
        """Seconds that are left at this speed; None if nothing is known about it."""
        rate = self.rate
        return (self.total - self.done) / rate if rate and self.total else None

    def pause(self) -> None:
        """End the transfer; what was received stays."""
        if self.state == "running":
            self._settle("paused")
            self._end()

    def resume(self) -> None:
        """Go on where it stopped."""
        if self.state == "running":
            return
        self._end()  # one that has told its failure may still be on its way out
        self._rest = b""
        self._settle("running")
        self._process.start(self._command[0], self._command[1:])

    def close(self) -> None:
        """End the transfer for good; it can be resumed by another download."""
        if self.state == "running":
            self.state = "paused"
        self._end()

    def _end(self) -> None:
        if self._process.state() is QProcess.ProcessState.NotRunning:
            return
        self._process.kill()
        self._process.waitForFinished(_KILL_MS)  # a killed process is gone within a millisecond

    def _read(self) -> None:
        *lines, self._rest = (self._rest + self._process.readAllStandardOutput().data()).split(b"\n")
        for line in lines:
            try:
                message = json.loads(line)
            except ValueError:
                _log.warning("The download of %s printed %r", self.repo, line)
            else:
                self._take(message)

    def _take(self, message: dict[str, Any]) -> None:
        if self.state != "running":
            return
        if "error" in message:
            self._settle("failed", message["error"])
        elif "folder" in message:
            self._settle("done")
        else:
            self.done, self.total, self.stage = message["done"], message["total"], message["stage"]
            if self.stage == "Downloading":
                self._speed.append((time.monotonic(), self.done))
            self.changed.emit()

    def _ended(self) -> None:
        self._read()
        if self.state == "running":
            said = bytes(self._process.readAllStandardError().data()).decode(errors="replace")
            _log.error("The download of %s ended: %s", self.repo, said)
            self._settle("failed", _FAULT)

    def _failed_to_start(self, error: QProcess.ProcessError) -> None:
        if error is QProcess.ProcessError.FailedToStart and self.state == "running":
            _log.error("The download of %s cannot start: %s", self.repo, self._process.errorString())
            self._settle("failed", _FAULT)

    def _settle(self, state: State, error: str | None = None) -> None:
        self.state, self.error, self.stage = state, error, ""
        self._speed.clear()
        self.changed.emit()


def _environment() -> QProcessEnvironment:
    """Ours, with the folder of our packages, wherever the app was started from."""
    environment = QProcessEnvironment.systemEnvironment()
    before = environment.value("PYTHONPATH")
    environment.insert("PYTHONPATH", f"{_ROOT}:{before}" if before else str(_ROOT))
    return environment
