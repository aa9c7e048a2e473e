"""The panel of live figures: speed, batch, memory and how smooth the window is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QHideEvent, QPainter, QPaintEvent, QPen, QPolygonF, QShowEvent
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from app.views.theme import SMALL_PX, color, set_font

if TYPE_CHECKING:
    from app.state.vitals import Sample, Vitals

SHOWN_POINTS = 240
_NONE = "–"


def figure(value: float) -> str:
    """At most three significant digits."""
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}" if value % 1 else f"{value:.0f}"


def gigabytes(count: int) -> str:
    """Bytes in GB of 1e9, or MB below one."""
    return f"{figure(count / 1e9)} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def milliseconds(value: float) -> str:
    """A duration in ms, in s from one second on."""
    return f"{figure(value / 1000)} s" if value >= 1000 else f"{value:.1f} ms" if value < 99.95 else f"{value:.0f} ms"


class Sparkline(QWidget):
    """Tokens per second over the last minute."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Tokens per second over the last minute")
        self.setFixedHeight(56)
        self._values: Sequence[float] = ()

    def draw(self, values: Sequence[float]) -> None:
        """Show these values, oldest first."""
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
        points = [
            QPointF(left + i * step, bottom - 1 - (bottom - 6) * value / top) for i, value in enumerate(self._values)
        ]
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(color("accent", 0.14))
        painter.drawPolygon(QPolygonF([QPointF(points[0].x(), bottom), *points, QPointF(points[-1].x(), bottom)]))
        # A wider antialiased pen costs 40 times as much.
        painter.setPen(QPen(color("accent"), 1))
        painter.drawPolyline(QPolygonF(points))


class Gauge(QWidget):
    """Memory in use, held in MLX's cache, and at its peak, against the limit."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFixedHeight(8)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Memory")
        self._parts = (0.0, 0.0, 0.0)

    def draw(self, active: float, cache: float, peak: float) -> None:
        """Show fractions of the limit, 0 to 1."""
        if (active, cache, peak) != self._parts:
            self._parts = (active, cache, peak)
            self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        active, cache, peak = (min(1.0, part) for part in self._parts)
        wide, high = self.width(), self.height()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        for share, shade in (
            (1.0, color("line")),
            (min(1.0, active + cache), color("accent", 0.45)),
            (active, color("accent")),
        ):
            painter.setBrush(shade)
            if share > 0:
                painter.drawRoundedRect(QRectF(0, 0, max(wide * share, high), high), high / 2, high / 2)
        if peak > 0:
            painter.fillRect(QRectF(min(wide - 2, wide * peak), 0, 2, high), color("text"))


class Figures(QWidget):
    """Names at the left, values at the right, in lines."""

    def __init__(self, names: Sequence[str], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setVerticalSpacing(4)
        self._values: dict[str, QLabel] = {}
        for line, name in enumerate(names):
            said = QLabel(name, self)
            said.setObjectName("muted")
            value = self._values[name] = QLabel(_NONE, self)
            value.setAlignment(Qt.AlignmentFlag.AlignRight)
            grid.addWidget(said, line, 0)
            grid.addWidget(value, line, 1)
            value.setAccessibleName(f"{name}: {_NONE}")

    def say(self, name: str, value: str) -> None:
        """Show one value; the same value again costs nothing."""
        label = self._values[name]
        if label.text() != value:
            label.setText(value)
            label.setAccessibleName(f"{name}: {value}")


def section(text: str, parent: QWidget) -> QLabel:
    """The small heading of a group."""
    label = QLabel(text, parent)
    label.setObjectName("section")
    set_font(label, SMALL_PX, strong=True)
    return label


class VitalsPanel(QWidget):
    """The panel; it asks for samples only while it is seen."""

    def __init__(self, vitals: Vitals, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._vitals = vitals
        self.setObjectName("vitals")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setMinimumWidth(200)
        self.setMaximumWidth(260)
        self._speed = QLabel(_NONE, self)
        set_font(self._speed, 28, strong=True)
        self._spark = Sparkline(self)
        self._batch = Figures(("Answering", "Waiting"), self)
        self._gauge = Gauge(self)
        self._memory = Figures(("In use", "Reusable", "Peak", "Limit"), self)
        self._loop = Figures(("Typical", "Worst in 100", "Longest"), self)
        self._device = Figures(("Runs on",), self)
        self._lay_out()
        vitals.sampled.connect(self._show)

    def _lay_out(self) -> None:
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 12, 16, 16)
        column.setSpacing(8)
        speed = QHBoxLayout()
        speed.setSpacing(6)
        unit = QLabel("tok/s", self)
        unit.setObjectName("muted")
        speed.addWidget(self._speed)
        speed.addWidget(unit, 0, Qt.AlignmentFlag.AlignBottom)
        speed.addStretch(1)
        unit.setContentsMargins(0, 0, 0, 5)
        column.addWidget(section("Speed", self))
        column.addLayout(speed)
        column.addWidget(self._spark)
        column.addWidget(self._batch)
        for title, parts in (
            ("Memory", (self._gauge, self._memory)),
            ("Window delays", (self._loop,)),
            ("Device", (self._device,)),
        ):
            column.addSpacing(12)
            column.addWidget(section(title, self))
            for part in parts:
                column.addWidget(part)
        column.addStretch(1)

    def sizeHint(self) -> QSize:
        return QSize(232, 480)

    def _show(self) -> None:
        sample = self._vitals.latest
        if sample is None or not self.isVisible():
            return
        speed = figure(sample.tokens_per_second)
        if self._speed.text() != speed:
            self._speed.setText(speed)
            self._speed.setAccessibleName(f"{speed} tokens per second")
        self._spark.draw(self._vitals.history)
        self._batch.say("Answering", str(sample.rows))
        self._batch.say("Waiting", str(sample.waiting))
        self._show_memory(sample)
        self._loop.say("Typical", milliseconds(sample.stall_p50_ms))
        self._loop.say("Worst in 100", milliseconds(sample.stall_p99_ms))
        self._loop.say("Longest", milliseconds(sample.stall_max_ms))
        self._device.say(
            "Runs on", {"metal": "Metal", "cpu": "CPU", "cuda": "CUDA"}.get(sample.backend, sample.backend)
        )

    def _show_memory(self, sample: Sample) -> None:
        limit = max(1, sample.limit_bytes)
        self._gauge.draw(sample.active_bytes / limit, sample.cache_bytes / limit, sample.peak_bytes / limit)
        self._memory.say("In use", gigabytes(sample.active_bytes))
        self._memory.say("Reusable", gigabytes(sample.cache_bytes))
        self._memory.say("Peak", gigabytes(sample.peak_bytes))
        self._memory.say("Limit", gigabytes(sample.limit_bytes))

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._vitals.watch(True)

    def hideEvent(self, event: QHideEvent) -> None:
        self._vitals.watch(False)
        super().hideEvent(event)
