"""Parts of the vitals panel: an answer that streams, and a cache with its gauge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from app.views.buttons import IconButton
from app.views.charts import NONE, Gauge, Said, Sparkline, Steady, section
from app.views.numbers import count, figure, gigabytes, of_gigabytes, percent
from app.views.theme import SMALL_PX, set_font

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.state.vitals import CacheFigures, StreamFigures

MOST_STREAMS = 8


class StreamLine(QWidget):
    """One answer: title of its chat, how it went, how fast it is."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._name = Said(self)
        self._spark = Sparkline("", 16, self)
        self._spark.setFixedWidth(56)
        self._speed = Steady("88.8", 13, self)
        self._speed.setToolTip("Tokens per second, over the last second")
        self._speed.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(8)
        row.addWidget(self._name, 1)
        row.addWidget(self._spark)
        row.addWidget(self._speed)

    def show_stream(self, stream: StreamFigures) -> None:
        """Show an answer as it is now."""
        self._name.say(stream.name)
        self._speed.say(figure(stream.tokens_per_second))
        self._spark.draw(stream.history)
        self.setAccessibleName(f"{stream.name}: {figure(stream.tokens_per_second)} tokens per second")


class Streams(QWidget):
    """All answers that are being written; lines are kept and used again."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.lines: list[StreamLine] = []
        self._more = QLabel(self)
        self._more.setObjectName("muted")
        self._more.hide()
        set_font(self._more, SMALL_PX)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(4)
        self._column.addWidget(self._more)

    def show_streams(self, streams: Sequence[StreamFigures]) -> None:
        """Show the first of them, and how many there are besides."""
        shown = streams[:MOST_STREAMS]
        while len(self.lines) < len(shown):
            self.lines.append(StreamLine(self))
            self._column.insertWidget(len(self.lines) - 1, self.lines[-1])
        for line, stream in zip(self.lines, shown, strict=False):
            line.show_stream(stream)
        for index, line in enumerate(self.lines):
            line.setVisible(index < len(shown))
        rest = len(streams) - len(shown)
        self._more.setText(f"and {rest} more")
        self._more.setVisible(rest > 0)
        self.setVisible(bool(streams))


class CacheView(QWidget):
    """How full one cache is, what it brought, and a button that empties it.

    Signals:
        cleared: the person wants it empty.
    """

    cleared = Signal()

    def __init__(self, name: str, kept: str, parent: QWidget | None = None) -> None:
        """Show the cache called `name`, whose entries are `kept`, such as "chats"."""
        super().__init__(parent)
        self._name, self._kept = name, kept
        self._size = QLabel(NONE, self)
        set_font(self._size)
        self.gauge = Gauge(f"How full {name.lower()} is", 4, self)
        self._facts = Said(self)
        self._facts.setObjectName("muted")
        self._facts.setWhatsThis("Saved: tokens of questions that did not have to be read again.")
        self._problem = QLabel(self)
        self._problem.setObjectName("warning")
        self._problem.setWordWrap(True)
        self._problem.hide()
        for small in (self._facts, self._problem):
            set_font(small, SMALL_PX)
        self.button = IconButton("trash", f"Clear {name.lower()}", self)
        self.button.setIconSize(QSize(12, 12))
        self.button.setFixedSize(20, 20)
        self.button.clicked.connect(self.cleared)
        self._lay_out()
        self.hide()

    def _lay_out(self) -> None:
        name = Said(self)
        name.setObjectName("muted")
        name.say(self._name)
        head = QHBoxLayout()
        head.setSpacing(4)
        head.addWidget(name, 1)
        head.addWidget(self._size)
        head.addWidget(self.button)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 4)
        column.setSpacing(2)
        column.addLayout(head)
        for part in (self.gauge, self._facts, self._problem):
            column.addWidget(part)

    def show_cache(self, figures: CacheFigures | None) -> None:
        """Show it as it is now; None: there is none."""
        self.setVisible(figures is not None)
        if figures is None:
            return
        used, limit, empty = figures.used_bytes, figures.limit_bytes, not figures.entries
        size = "Empty" if empty else of_gigabytes(used, limit) if limit else gigabytes(used)
        if self._size.text() != size:
            self._size.setText(size)
            self._size.setAccessibleName(f"{self._name}: {size}")
            self._size.setObjectName("muted" if empty else "")
            self._size.style().polish(self._size)
        self.gauge.draw(used / limit if limit else 0.0)
        self.gauge.setVisible(limit > 0 and not empty)
        self._facts.say(self._told(figures))
        self._facts.setVisible(not empty)
        self.button.setVisible(not empty)
        if self._problem.text() != (figures.problem or ""):
            self._problem.setText(figures.problem or "")
            self._problem.setVisible(bool(figures.problem))

    @property
    def facts(self) -> str:
        """The line of facts, uncut."""
        return self._facts.whole

    def _told(self, figures: CacheFigures) -> str:
        kept = self._kept if figures.entries != 1 else self._kept.removesuffix("s")
        parts = [f"{count(figures.entries)} {kept}"]
        if figures.hit_rate is not None:
            parts.insert(0, f"{percent(figures.hit_rate)} hits")
        if figures.tokens_saved:
            parts.append(f"{count(figures.tokens_saved)} saved")
        return " · ".join(parts)


def group(title: str, parent: QWidget, *parts: QWidget, aside: QWidget | None = None) -> QWidget:
    """Parts under a heading, with one at the heading's right."""
    made = QWidget(parent)
    made.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)
    head = QHBoxLayout()
    head.addWidget(section(title, made), 1)
    if aside is not None:
        head.addWidget(aside)
    column = QVBoxLayout(made)
    column.setContentsMargins(0, 0, 0, 0)
    column.setSpacing(6)
    column.addLayout(head)
    for part in parts:
        column.addWidget(part)
    return made
