"""Small charts and tables of figures: sparkline, gauges, lines of values; the same value again costs nothing."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen, QPolygonF, QResizeEvent
from PySide6.QtWidgets import QGridLayout, QLabel, QSizePolicy, QWidget

from app.views.theme import SMALL_PX, color, scaled, set_font, theme

SHOWN_POINTS = 240
NONE = "–"
_BETWEEN = " · "
"""Between facts that stand in one line."""


class Sparkline(QWidget):
    """A rate over the last minute."""

    def __init__(self, name: str, height: int, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(name)
        self.setFixedHeight(height)
        self._values: Sequence[float] = ()

    def draw(self, values: Sequence[float]) -> None:
        """Show these values, oldest first."""
        if values != self._values:
            self._values = values[-SHOWN_POINTS:]
            self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        bottom = self.height() - 1
        painter.fillRect(0, bottom, self.width(), 1, color("line"))
        top = max(self._values, default=0.0)
        if top <= 0:
            return
        step = self.width() / (SHOWN_POINTS - 1)
        left = self.width() - step * (len(self._values) - 1)
        room = bottom - 1 - min(5, self.height() // 8)
        points = [QPointF(left + i * step, bottom - 1 - room * value / top) for i, value in enumerate(self._values)]
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(color("accent", 0.14))
        painter.drawPolygon(QPolygonF([QPointF(points[0].x(), bottom), *points, QPointF(points[-1].x(), bottom)]))
        # A wider antialiased pen costs 40 times as much.
        painter.setPen(QPen(color("accent"), 1))
        painter.drawPolyline(QPolygonF(points))


class Gauge(QWidget):
    """Parts of a whole on one bar: a strong part, a pale one behind it, and a mark."""

    def __init__(self, name: str, height: int = 8, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFixedHeight(height)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(name)
        self._parts = (0.0, 0.0, 0.0)

    def draw(self, strong: float, pale: float = 0.0, mark: float = 0.0) -> None:
        """Show these parts of the whole, each 0 to 1."""
        if (strong, pale, mark) != self._parts:
            self._parts = (strong, pale, mark)
            self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        strong, pale, mark = (min(1.0, part) for part in self._parts)
        wide, high = self.width(), self.height()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        for share, shade in (
            (1.0, color("line")),
            (min(1.0, strong + pale), color("accent", 0.45)),
            (strong, color("accent")),
        ):
            painter.setBrush(shade)
            if share > 0:
                painter.drawRoundedRect(QRectF(0, 0, max(wide * share, high), high), high / 2, high / 2)
        if mark > 0:
            painter.fillRect(QRectF(min(wide - 2, wide * mark), 0, 2, high), color("text"))


class Said(QLabel):
    """A text that is set only when it changes; where there is no room the last facts go, or it is cut with dots."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._whole = self._more = ""
        self.setMinimumWidth(1)

    def say(self, text: str, more: str = "") -> None:
        """Show a text; where the pointer rests on it, `more`, or the whole text where it is cut."""
        if (text, more) != (self._whole, self._more):
            self._whole, self._more = text, more
            self.setAccessibleName(text)
            self._fit()

    @property
    def whole(self) -> str:
        """The text without its cut."""
        return self._whole

    def sizeHint(self) -> QSize:
        return QSize(0, super().sizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        metrics, shown = self.fontMetrics(), self._whole
        while _BETWEEN in shown and metrics.horizontalAdvance(shown) > self.width():
            shown = shown.rpartition(_BETWEEN)[0]
        cut = metrics.elidedText(shown, Qt.TextElideMode.ElideRight, self.width())
        if cut != self.text():
            self.setText(cut)
        told = self._more or (self._whole if cut != self._whole else "")
        if told != self.toolTip():
            self.setToolTip(told)


class Figures(QWidget):
    """Names at the left, values at the right: in lines, or as pairs that share one line."""

    def __init__(self, names: Sequence[str], parent: QWidget | None = None, *, abreast: int = 1) -> None:
        super().__init__(parent)
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setVerticalSpacing(4)
        self._values: dict[str, QLabel] = {}
        for number, name in enumerate(names):
            line, pair = divmod(number, abreast)
            column = 3 * pair
            grid.setColumnStretch(column, 1)
            if pair:
                grid.setColumnMinimumWidth(column - 1, 16)
            said = QLabel(name, self)
            said.setObjectName("muted")
            value = self._values[name] = QLabel(NONE, self)
            value.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
            set_font(value)
            grid.addWidget(said, line, column)
            grid.addWidget(value, line, column + 1)
            value.setAccessibleName(f"{name}: {NONE}")

    def say(self, name: str, value: str) -> None:
        """Show one value; the same value again costs nothing."""
        label = self._values[name]
        if label.text() != value:
            label.setText(value)
            label.setAccessibleName(f"{name}: {value}")

    def values(self) -> dict[str, str]:
        """What is shown, by name."""
        return {name: label.text() for name, label in self._values.items()}


class Steady(QLabel):
    """A number in a place as wide as its widest form, so that what follows it stands still while it changes."""

    def __init__(self, widest: str, px: int, parent: QWidget | None = None, *, strong: bool = False) -> None:
        super().__init__(NONE, parent)
        self._widest = widest
        set_font(self, px, strong=strong)
        theme.changed.connect(self._widen)
        self._widen()

    def say(self, text: str) -> None:
        """Show a number."""
        if self.text() != text:
            self.setText(text)
            self._widen()

    def _widen(self) -> None:
        rests = self.text() in (NONE, "0")  # stays so for long: what follows stands right beside it
        widest = self.text() if rests else self._widest
        self.setMinimumWidth(self.fontMetrics().horizontalAdvance(widest) + scaled(2))


def section(text: str, parent: QWidget) -> QLabel:
    """The small heading of a group."""
    label = QLabel(text, parent)
    label.setObjectName("section")
    set_font(label, SMALL_PX, strong=True)
    return label
