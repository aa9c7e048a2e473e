"""Which frames of a clip are sent: range and rate, and exactly those frames in a strip."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QSignalBlocker
from PySide6.QtWidgets import QDoubleSpinBox, QWidget

from app.state.attachment import Attachment, Excerpt
from app.views.part import PartView
from app.views.stills import Stills

if TYPE_CHECKING:
    from app.state.preview import Look

_STRIP_PX = 72
_LEAST_S = 0.1


class ClipStrip(PartView):
    """The strip of one clip."""

    def __init__(self, parent: QWidget | None = None) -> None:
        self.start, self.end = _number(" s", 1), _number(" s", 1)
        self.fps = _number(" frames/s", 2)
        self.fps.setRange(0.05, 30.0)
        fields = (("From", "From", self.start), ("to", "To", self.end), ("at", "Frames per second", self.fps))
        super().__init__(fields, Stills("Frames that are sent", _STRIP_PX), parent)
        self._fps = 0.0
        self._seconds = 0.0

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


def _number(suffix: str, decimals: int) -> QDoubleSpinBox:
    box = QDoubleSpinBox()
    box.setSuffix(suffix)
    box.setDecimals(decimals)
    box.setSingleStep(0.5)
    return box
