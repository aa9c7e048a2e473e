"""Which model answers and how far its loading is, at the foot of the sidebar; a click opens the list of models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QAbstractButton, QSizePolicy, QWidget

from app.views.icons import icon
from app.views.model_words import taken
from app.views.theme import UI_PX, color, scaled, ui_font

if TYPE_CHECKING:
    from app.state.model import Model

_SIGNS = {"ready": "accent", "loading": "muted", "absent": "muted", "unloaded": "muted", "failed": "error"}


def status_line(model: Model) -> str:
    """The model's state in words."""
    if model.status == "loading":
        return f"{model.stage or 'Loading'} {round(100 * model.progress)} %"
    if model.status == "failed":
        return model.error or "Could not be loaded"
    if model.status == "unloaded":
        return "Unloaded until the next question"
    return "No model to answer" if model.status == "absent" else f"Ready · {taken(model)}"


class ModelChip(QAbstractButton):
    """Name, state and a hairline of progress."""

    def __init__(self, model: Model, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._model = model
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)
        model.changed.connect(self.refresh)
        self.refresh()

    def sizeHint(self) -> QSize:
        return QSize(220, scaled(56))

    def refresh(self) -> None:
        """Draw the model's state as it is now."""
        line = status_line(self._model)
        self.setAccessibleName(f"Model {self._model.name}: {line}")
        self.setToolTip(f"{line}\nClick to choose another model")
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        if self.underMouse():
            painter.fillRect(self.rect(), color("hover"))
        painter.fillRect(0, 0, self.width(), 1, color("line"))
        if self._model.status == "loading":
            painter.fillRect(QRectF(0, 0, self.width() * self._model.progress, 2), color("accent"))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if self.hasFocus():
            painter.setPen(QPen(color("accent"), 1.5))
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(4, 4, -4, -4), 6, 6)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(color(_SIGNS[self._model.status]))
        painter.drawEllipse(QRectF(17, scaled(20) - 4, 8, 8))
        icon("right").paint(painter, self.width() - 28, self.height() // 2 - 8, 16, 16)
        self._write(painter)

    def _write(self, painter: QPainter) -> None:
        room = self.width() - 36 - 36
        failed = self._model.status == "failed"
        for top, font, name, text in (
            (10, ui_font(UI_PX, strong=True), "text", self._model.name or "No model"),
            (29, ui_font(12), "error" if failed else "muted", status_line(self._model)),
        ):
            painter.setFont(font)
            painter.setPen(color(name))
            shown = painter.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, room)
            painter.drawText(QRectF(36, scaled(top), room, scaled(20)), Qt.AlignmentFlag.AlignVCenter, shown)
