"""The panel of live figures: speed, batch, memory, caches, drafts and how smooth the window is."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QScrollArea, QVBoxLayout, QWidget

from app.views.charts import NONE, Figures, Gauge, Sparkline, Steady
from app.views.numbers import figure, gigabytes, milliseconds, of_gigabytes, percent
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
        self._speed.setToolTip("Over the last second; the chats below add up to it")
        self._device = self._small()
        self._spark = Sparkline("Tokens per second over the last minute", 40, inside)
        self._streams = Streams(inside)
        self._batch = Figures(("Answering", "Waiting"), inside, abreast=2)
        self._reason = self._sentence()
        self._used = QLabel(NONE, inside)
        set_font(self._used)
        self._gauge = Gauge("Memory", parent=inside)
        self._gauge.setToolTip("In use, behind it what can be used again, and a mark at the peak")
        self._more = self._small()
        self._caches = {cache: CacheView(name, kept, inside) for cache, name, kept in _CACHES}
        self._drafts = Figures(("Accepted", "Tokens per step"), inside)
        self._off = self._sentence()
        self._loop = Figures(("Typical", "Worst in 100", "Longest"), inside)
        self._lay_out()
        self.setWidget(inside)
        vitals.sampled.connect(self._show)
        theme.changed.connect(self._fit)
        self._fit()
        for cache, view in self._caches.items():
            view.cleared.connect(partial(vitals.clear, cache))

    def _small(self) -> QLabel:
        label = QLabel(self._inside)
        label.setObjectName("muted")
        set_font(label, SMALL_PX)
        return label

    def _sentence(self) -> QLabel:
        label = self._small()
        label.setWordWrap(True)
        label.hide()
        return label

    def _lay_out(self) -> None:
        inside = self._inside
        column = QVBoxLayout(inside)
        column.setContentsMargins(16, 12, 16, 12)
        column.setSpacing(18)
        unit = QLabel("tok/s", inside)
        unit.setObjectName("muted")
        unit.setContentsMargins(0, 0, 0, 5)
        speed = QWidget(inside)
        row = QHBoxLayout(speed)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(6)
        row.addWidget(self._speed)
        row.addWidget(unit, 1, Qt.AlignmentFlag.AlignBottom)
        self._kept = group("Caches", inside, *self._caches.values())
        self._ahead = group("MTP", inside, self._drafts, self._off)
        written = (speed, self._spark, self._streams, self._batch, self._reason)
        for part in (
            group("Speed", inside, *written, aside=self._device),
            group("Memory", inside, self._gauge, self._more, aside=self._used),
            self._kept,
            self._ahead,
            group("Window delays", inside, self._loop),
        ):
            column.addWidget(part)
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
        return QSize(scaled(248), 480)

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
        _say(self._device, f"on {_BACKENDS.get(sample.backend, sample.backend)}")

    def _show_nothing(self) -> None:
        """No model is loaded: nothing is measured."""
        self._speed.say(NONE)
        self._streams.show_streams(())
        self._gauge.draw(0.0)
        for label in (self._reason, self._device, self._more):
            _say(label, "")
        _say(self._used, NONE)
        for figures in (self._batch, self._loop):
            for name in figures.values():
                figures.say(name, NONE)
        self._kept.hide()
        self._ahead.hide()

    def _show_memory(self, sample: Sample) -> None:
        limit = max(1, sample.limit_bytes)
        self._gauge.draw(sample.active_bytes / limit, sample.cache_bytes / limit, sample.peak_bytes / limit)
        _say(self._used, of_gigabytes(sample.active_bytes, limit))
        self._used.setAccessibleName(f"Memory in use: {self._used.text()}")
        _say(self._more, f"Peak {gigabytes(sample.peak_bytes)} · {gigabytes(sample.cache_bytes)} reusable")

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
