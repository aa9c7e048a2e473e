"""Which model answers and how far its loading is, at the foot of the sidebar."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.views.theme import UI_PX, color, ui_font

if TYPE_CHECKING:
    from app.state.model import Model

_SIGNS = {"ready": "accent", "loading": "muted", "absent": "muted", "failed": "error"}


def status_line(model: Model) -> str:
    """The model's state in words."""
    if model.status == "loading":
        return f"{model.stage or 'Loading'} {round(100 * model.progress)} %"
    if model.status == "failed":
        return model.error or "Could not be loaded"
    if model.status == "absent":
        return "No model to answer"
    return "Ready · sees pictures" if model.takes_images else "Ready · text only"


class ModelChip(QWidget):
    """Name, state and a hairline of progress."""

    def __init__(self, model: Model, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._model = model
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        model.changed.connect(self.refresh)
        self.refresh()

    def sizeHint(self) -> QSize:
        return QSize(220, 56)

    def refresh(self) -> None:
        """Draw the model's state as it is now."""
        line = status_line(self._model)
        self.setAccessibleName(f"Model {self._model.name}: {line}")
        self.setToolTip(line)
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(0, 0, self.width(), 1, color("line"))
        if self._model.status == "loading":
            painter.fillRect(QRectF(0, 0, self.width() * self._model.progress, 2), color("accent"))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(color(_SIGNS[self._model.status]))
        painter.drawEllipse(QRectF(17, 16, 8, 8))
        room = self.width() - 36 - 16
        for top, font, name, text in (
            (10, ui_font(UI_PX, strong=True), "text", self._model.name or "No model"),
            (29, ui_font(12), "error" if self._model.status == "failed" else "muted", status_line(self._model)),
        ):
            painter.setFont(font)
            painter.setPen(color(name))
            shown = painter.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, room)
            painter.drawText(QRectF(36, top, room, 20), Qt.AlignmentFlag.AlignVCenter, shown)
