"""Keys pressed while the window works, and how long each takes to be seen."""

from __future__ import annotations

import threading
from time import perf_counter
from typing import Any

from PySide6.QtCore import QCoreApplication, QEvent, QObject, Qt
from PySide6.QtGui import QKeyEvent

_EVERY_S = 0.15
_KEYS = "and what else is there to be seen "


class Typist(QObject):
    """Types into a text field from a thread of its own, as a keyboard would, and watches the field being painted.

    Attributes:
        took: milliseconds from each key to the next painting of the field.
    """

    def __init__(self, field: Any) -> None:
        super().__init__()
        self.took: list[float] = []
        self._field = field
        self._pressed: list[float] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._type, daemon=True)
        field.viewport().installEventFilter(self)
        self._thread.start()

    def end(self) -> list[float]:
        """Type no more; returns what was measured."""
        self._over.set()
        self._thread.join()
        self._field.viewport().removeEventFilter(self)
        return self.took

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Paint:
            now, field = perf_counter(), self._field
            # Painted for another reason: a key that has not arrived in the text is not seen yet.
            arrived = len(field.toPlainText()) - len(self.took)
            seen, self._pressed = self._pressed[: max(arrived, 0)], self._pressed[max(arrived, 0) :]
            self.took += [(now - at) * 1e3 for at in seen]
        return False

    def _type(self) -> None:
        number = 0
        while not self._over.wait(_EVERY_S):
            sign = _KEYS[number % len(_KEYS)]
            key = QKeyEvent(QEvent.Type.KeyPress, Qt.Key.Key_A, Qt.KeyboardModifier.NoModifier, sign)
            self._pressed.append(perf_counter())
            QCoreApplication.postEvent(self._field, key)
            number += 1
