"""Sentences around the text field: what just happened, and what keeps the draft from being sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF, Signal
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QWidget

from app.views.buttons import IconButton
from app.views.theme import color, set_font

if TYPE_CHECKING:
    from app.state.composer import Obstacle


class _Amber(QWidget):
    """A warning's surface."""

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(color("warning", 0.4))
        painter.setBrush(color("warning_surface"))
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 8, 8)


class Notice(_Amber):
    """One sentence above the field, until it is dismissed or a newer one comes."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._label = _sentence(self)
        self.close_button = IconButton("close", "Dismiss", self)
        self.close_button.clicked.connect(self.hide)
        row = QHBoxLayout(self)
        row.setContentsMargins(12, 6, 8, 6)
        row.addWidget(self._label, 1)
        row.addWidget(self.close_button)
        self.hide()

    def say(self, text: str) -> None:
        """Show a sentence."""
        self._label.setText(text)
        self.setAccessibleName(text)
        self.show()


class ObstacleBar(_Amber):
    """Why the draft cannot be sent as it is, for as long as that is so, and ways out.

    Signals:
        accepted: send what can be sent of the attachments that are in the way.
        removed: take the attachments out that are in the way.
    """

    accepted = Signal()
    removed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._label = _sentence(self)
        set_font(self._label, 12)
        self.accept_button = QPushButton("Send it anyway", self)
        self.remove_button = QPushButton("Remove", self)
        row = QHBoxLayout(self)
        row.setContentsMargins(12, 4, 6, 4)
        row.setSpacing(4)
        row.addWidget(self._label, 1)
        for button, signal in ((self.accept_button, self.accepted), (self.remove_button, self.removed)):
            button.setObjectName("link")
            button.clicked.connect(signal)
            row.addWidget(button)
        self.hide()

    def show_obstacle(self, obstacle: Obstacle | None) -> None:
        """Show this one, or none."""
        if obstacle is not None:
            self._label.setText(obstacle.sentence)
            self.setAccessibleName(obstacle.sentence)
            self.accept_button.setText(_accepts(obstacle) or "Send it anyway")
            self.accept_button.setVisible(bool(_accepts(obstacle)))
            self.remove_button.setText(obstacle.remedy)
            self.remove_button.setAccessibleName(obstacle.remedy or "Remove")
            self.remove_button.setVisible(bool(obstacle.remedy))
        self.setVisible(obstacle is not None)


def _accepts(obstacle: Obstacle) -> str:
    """What the button says that sends what can be sent; empty: there is nothing."""
    if obstacle.damaged:
        return "Send it anyway"
    stills = len(obstacle.stills)
    return "" if not stills else "Send first frame" if stills == 1 else "Send first frames"


def _sentence(parent: QWidget) -> QLabel:
    label = QLabel(parent)
    label.setObjectName("warning")
    label.setWordWrap(True)
    return label
