"""Which frames of a clip are sent: range and rate, and exactly those frames in a strip."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QDoubleSpinBox, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app.state.attachment import Attachment, Excerpt
from app.views.stills import Stills
from app.views.theme import set_font

if TYPE_CHECKING:
    from app.state.preview import Look

_STRIP_PX = 72
_LEAST_S = 0.1


class ClipStrip(QWidget):
    """The strip of one clip.

    Signals:
        chosen: another part is wanted.
    """

    chosen = Signal(Excerpt)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.start = _seconds("From", self)
        self.end = _seconds("To", self)
        self.fps = _number("Frames per second", self, " frames/s")
        self.fps.setRange(0.05, 30.0)
        self.fps.setDecimals(2)
        self.fps.setSingleStep(0.5)
        self.strip = Stills("Frames that are sent", _STRIP_PX, self)
        self._note = QLabel(self)
        self._note.setObjectName("muted")
        set_font(self._note, 12)
        self._fps = 0.0
        self._seconds = 0.0
        self._lay_out()
        for box in (self.start, self.end, self.fps):
            box.valueChanged.connect(self._choose)

    def _lay_out(self) -> None:
        row = QHBoxLayout()
        row.setSpacing(8)
        for word, box in (("From", self.start), ("to", self.end), ("at", self.fps)):
            label = QLabel(word, self)
            label.setObjectName("muted")
            label.setBuddy(box)
            row.addWidget(label)
            row.addWidget(box)
        row.addStretch(1)
        row.addWidget(self._note)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(8)
        column.addLayout(row)
        column.addWidget(self.strip)

    def stops(self) -> list[QWidget]:
        """What Tab visits, in order."""
        return [self.start, self.end, self.fps, self.strip]

    def show_clip(self, item: Attachment, look: Look | None, usual_fps: float) -> None:
        """Show what is chosen of a clip, and its frames once they are read."""
        part = item.excerpt
        self._fps, self._seconds = usual_fps, item.seconds
        for box, value, least, most in (
            (self.start, part.start or 0.0, 0.0, max(item.seconds - _LEAST_S, 0.0)),
            (self.end, part.end or item.seconds, min(_LEAST_S, item.seconds), item.seconds),
            (self.fps, part.fps or usual_fps, self.fps.minimum(), self.fps.maximum()),
        ):
            with QSignalBlocker(box):
                box.setRange(least, most)
                if abs(box.value() - value) > 10 ** -box.decimals() / 2:
                    box.setValue(value)
        if look is not None:
            self.strip.show_stills(look.stills)
            self._note.setText(look.error or f"{len(look.stills)} frames are sent")
        elif not self._note.text():
            self._note.setText("Reading …")

    def _choose(self) -> None:
        start, end, fps = self.start.value(), self.end.value(), self.fps.value()
        if end - start < _LEAST_S / 2:
            moved = self.start if self.sender() is self.end else self.end
            with QSignalBlocker(moved):
                moved.setValue(end - _LEAST_S if moved is self.start else start + _LEAST_S)
            start, end = self.start.value(), self.end.value()
        self.chosen.emit(
            Excerpt(
                fps=None if abs(fps - self._fps) < 0.005 else fps,
                start=start or None,
                end=None if end >= self._seconds - 0.05 else end,
            )
        )


def _number(name: str, parent: QWidget, suffix: str) -> QDoubleSpinBox:
    box = QDoubleSpinBox(parent)
    box.setAccessibleName(name)
    box.setSuffix(suffix)
    box.setAlignment(Qt.AlignmentFlag.AlignCenter)
    box.setKeyboardTracking(False)
    return box


def _seconds(name: str, parent: QWidget) -> QDoubleSpinBox:
    box = _number(name, parent, " s")
    box.setDecimals(1)
    box.setSingleStep(0.5)
    return box
