"""Which part of an attachment is sent: fields in a row, and under them what they choose."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QDoubleSpinBox, QHBoxLayout, QLabel, QSpinBox, QVBoxLayout, QWidget

from app.state.attachment import Excerpt
from app.views.stills import Stills
from app.views.theme import set_font

Box = QSpinBox | QDoubleSpinBox


class PartView(QWidget):
    """What clips and documents have in common; subclasses say what the fields mean.

    Signals:
        chosen: another part is wanted.
    """

    chosen = Signal(Excerpt)

    def __init__(self, fields: Sequence[tuple[str, str, Box]], strip: Stills, parent: QWidget | None = None) -> None:
        """Take each field with the word before it and its name, and the strip of what is sent."""
        super().__init__(parent)
        self.strip = strip
        self._boxes = [box for _, _, box in fields]
        self._note = QLabel(self)
        self._note.setObjectName("muted")
        set_font(self._note, 12)
        row = QHBoxLayout()
        row.setSpacing(8)
        for word, name, box in fields:
            row.addWidget(self._label(word, box))
            row.addWidget(box)
            box.setAccessibleName(name)
            box.setAlignment(Qt.AlignmentFlag.AlignCenter)
            box.setKeyboardTracking(False)
            box.valueChanged.connect(self._choose)
        row.addStretch(1)
        row.addWidget(self._note)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(8)
        column.addLayout(row)
        column.addWidget(strip)

    def _label(self, word: str, box: Box) -> QLabel:
        label = QLabel(word, self)
        label.setObjectName("muted")
        label.setBuddy(box)
        return label

    def stops(self) -> list[QWidget]:
        """What Tab visits, in order."""
        return [*self._boxes, self.strip]

    def _choose(self) -> None:
        """A field was changed: emit `chosen`."""
        raise NotImplementedError
