"""The panel of live figures: speed, batch, memory, caches, drafts and how smooth the window is."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QScrollArea, QVBoxLayout, QWidget

from app.views.charts import NONE, Figures, Gauge, Sparkline, Steady, section
from app.views.numbers import figure, gigabytes, milliseconds, percent
from app.views.theme import SMALL_PX, scaled, set_font, theme
from app.views.vitals_parts import CacheView, Streams, group

if TYPE_CHECKING:
    from app.state.vitals import Cache, MtpFigures, Sample, Vitals

_WIDTHS = (208, 264)
_BACKENDS = {"metal": "Metal", "cpu": "CPU", "cuda": "CUDA"}
_CACHES: tuple[tuple[Cache, str, str], ...] = (
    ("prefix", "Earlier turns", "chats"),
    ("vision", "Pictures", "pictures"),
    ("ssd", "On disk", "chats"),
)


class VitalsPanel(QScrollArea):
    """The panel; it asks for samples only while it is seen."""

    def __init__(self, vitals: Vitals, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._vitals = vitals
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setAccessibleName("Vitals")
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setObjectName("vitals")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        inside = self._inside = QWidget(self)
        inside.setObjectName("vitals")
        inside.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._speed = Steady("88.8", 28, inside, strong=True)
        self._spark = Sparkline("Tokens per second over the last minute", 56, inside)
        self._streams = Streams(inside)
        self._batch = Figures(("Answering", "Waiting"), inside)
        self._reason = self._sentence()
        self._gauge = Gauge("Memory", parent=inside)
        self._memory = Figures(("In use", "Reusable", "Peak", "Limit"), inside)
        self._caches = {cache: CacheView(name, kept, inside) for cache, name, kept in _CACHES}
        self._drafts = Figures(("Accepted", "Tokens per step"), inside)
        self._off = self._sentence()
        self._loop = Figures(("Typical", "Worst in 100", "Longest"), inside)
        self._device = Figures(("Runs on",), inside)
        self._lay_out()
        self.setWidget(inside)
        vitals.sampled.connect(self._show)
        theme.changed.connect(self._fit)
        self._fit()
        for cache, view in self._caches.items():
            view.cleared.connect(partial(vitals.clear, cache))

    def _sentence(self) -> QLabel:
        label = QLabel(self._inside)
        label.setObjectName("muted")
        label.setWordWrap(True)
        set_font(label, SMALL_PX)
        label.hide()
        return label

    def _lay_out(self) -> None:
        inside = self._inside
        column = QVBoxLayout(inside)
        column.setContentsMargins(16, 12, 16, 16)
        column.setSpacing(8)
        speed = QHBoxLayout()
        speed.setSpacing(6)
        unit = QLabel("tok/s", inside)
        unit.setObjectName("muted")
        unit.setContentsMargins(0, 0, 0, 5)
        speed.addWidget(self._speed)
        speed.addWidget(unit, 1, Qt.AlignmentFlag.AlignBottom)
        column.addWidget(section("Speed", inside))
        column.addLayout(speed)
        for part in (self._spark, self._streams, self._batch, self._reason):
            column.addWidget(part)
        self._kept = group("Caches", inside, *self._caches.values())
        self._ahead = group("MTP", inside, self._drafts, self._off)
        for below in (
            group("Memory", inside, self._gauge, self._memory),
            self._kept,
            self._ahead,
            group("Window delays", inside, self._loop),
            group("Device", inside, self._device),
        ):
            column.addWidget(below)
        column.addStretch(1)
        self._streams.hide()
        self._kept.hide()
        self._ahead.hide()

    def _fit(self) -> None:
        """Be as wide as the size of text needs."""
        least, most = _WIDTHS
        self.setMinimumWidth(scaled(least))
        self.setMaximumWidth(scaled(most))

    def sizeHint(self) -> QSize:
        return QSize(scaled(232), 480)

    def _show(self) -> None:
        sample = self._vitals.latest
        if not self.isVisible():
            return
        if sample is None:
            self._show_nothing()
            return
        speed = figure(sample.tokens_per_second)
        self._speed.say(speed)
        self._speed.setAccessibleName(f"{speed} tokens per second")
        self._spark.draw(self._vitals.history)
        self._streams.show_streams(sample.streams)
        self._batch.say("Answering", str(sample.rows))
        self._batch.say("Waiting", str(sample.waiting))
        _say(self._reason, sample.wait_reason)
        self._show_memory(sample)
        self._show_caches(sample)
        self._show_mtp(sample.mtp)
        self._loop.say("Typical", milliseconds(sample.stall_p50_ms))
        self._loop.say("Worst in 100", milliseconds(sample.stall_p99_ms))
        self._loop.say("Longest", milliseconds(sample.stall_max_ms))
        self._device.say("Runs on", _BACKENDS.get(sample.backend, sample.backend))

    def _show_nothing(self) -> None:
        """No model is loaded: nothing is measured."""
        self._speed.say(NONE)
        self._streams.show_streams(())
        self._gauge.draw(0.0)
        _say(self._reason, "")
        for figures in (self._batch, self._memory, self._loop, self._device):
            for name in figures.values():
                figures.say(name, NONE)
        self._kept.hide()
        self._ahead.hide()

    def _show_memory(self, sample: Sample) -> None:
        limit = max(1, sample.limit_bytes)
        self._gauge.draw(sample.active_bytes / limit, sample.cache_bytes / limit, sample.peak_bytes / limit)
        self._memory.say("In use", gigabytes(sample.active_bytes))
        self._memory.say("Reusable", gigabytes(sample.cache_bytes))
        self._memory.say("Peak", gigabytes(sample.peak_bytes))
        self._memory.say("Limit", gigabytes(sample.limit_bytes))

    def _show_caches(self, sample: Sample) -> None:
        shown = {"prefix": sample.prefix, "vision": sample.vision, "ssd": sample.ssd}
        for cache, view in self._caches.items():
            view.show_cache(shown[cache])
        self._kept.setVisible(any(shown.values()))

    def _show_mtp(self, mtp: MtpFigures | None) -> None:
        self._ahead.setVisible(mtp is not None)
        if mtp is None:
            return
        counted = mtp.acceptance is not None and mtp.tokens_per_step is not None
        self._drafts.setVisible(counted)
        if mtp.acceptance is not None and mtp.tokens_per_step is not None:
            self._drafts.say("Accepted", percent(mtp.acceptance))
            self._drafts.say("Tokens per step", f"{mtp.tokens_per_step:.2f}")
        _say(self._off, mtp.off or ("" if counted else "Nothing predicted yet"))

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._vitals.watch(True)

    def hideEvent(self, event: QHideEvent) -> None:
        self._vitals.watch(False)
        super().hideEvent(event)


def _say(label: QLabel, text: str) -> None:
    """Show a sentence, or nothing where there is none."""
    if label.text() != text:
        label.setText(text)
        label.setVisible(bool(text))
