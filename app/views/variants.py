"""Which of several variants of a message is shown, and the way to the others: ‹ 2/3 ›."""

from __future__ import annotations

from PySide6.QtCore import QSize, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QWidget

from app.views.buttons import IconButton
from app.views.theme import set_font


class Variants(QWidget):
    """Two arrows around "2/3"; not there while there is only one variant.

    Signals:
        stepped: show the next (1) or the previous (-1) one.
    """

    stepped = Signal(int)

    def __init__(self, noun: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._noun = noun
        self.back = IconButton("left", f"Previous {noun}", self)
        self.on = IconButton("right", f"Next {noun}", self)
        self._label = QLabel(self)
        self._label.setObjectName("muted")
        set_font(self._label, 12)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)
        for part in (self.back, self._label, self.on):
            row.addWidget(part)
        for button, by in ((self.back, -1), (self.on, 1)):
            button.setIconSize(QSize(12, 12))
            button.setFixedSize(QSize(22, 24))
            button.clicked.connect(lambda _=False, by=by: self.stepped.emit(by))
        self.hide()

    def say(self, position: int, count: int, *, switch: bool) -> None:
        """Show that it is the variant at a position, from 1, of so many; ``switch`` lets another one be shown."""
        self._label.setText(f"{position}/{count}")
        self._label.setAccessibleName(f"{self._noun} {position} of {count}")
        self.back.setEnabled(switch and position > 1)
        self.on.setEnabled(switch and position < count)
        self.setVisible(count > 1)
