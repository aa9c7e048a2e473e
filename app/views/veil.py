"""What lies over the window during a drag."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from app.views.theme import color, ui_font


class Veil(QWidget):
    """Dims a part of the window during a drag and says what letting go will do."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self._text, self._refuses = "", False
        self.hide()

    def lift(self, rect: QRectF, text: str, *, refuses: bool) -> None:
        """Cover ``rect`` of the parent with the sentence."""
        self.setGeometry(rect.toRect())
        if (text, refuses) != (self._text, self._refuses):
            self._text, self._refuses = text, refuses
            self.setAccessibleName(text)
            self.update()
        self.raise_()
        self.show()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.fillRect(self.rect(), color("surface", 0.86))
        ink = color("error" if self._refuses else "accent")
        painter.setPen(QPen(ink, 2))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(9, 9, -9, -9), 10, 10)
        self._say(painter)

    def _say(self, painter: QPainter) -> None:
        """The sentence on a pill, so that what lies behind the veil does not run into it."""
        large = self.height() > 80
        painter.setFont(ui_font(17 if large else 13, strong=True))
        metrics, room = painter.fontMetrics(), self.width() - 80
        text = metrics.elidedText(self._text, Qt.TextElideMode.ElideMiddle, room)
        pill = QRectF(0, 0, metrics.horizontalAdvance(text) + 40, 44 if large else 24)
        pill.moveCenter(QRectF(self.rect()).center())
        painter.setPen(color("line") if large else Qt.PenStyle.NoPen)
        painter.setBrush(color("raised"))
        painter.drawRoundedRect(pill, pill.height() / 2, pill.height() / 2)
        painter.setPen(color("error" if self._refuses else "text"))
        painter.drawText(pill, Qt.AlignmentFlag.AlignCenter, text)
