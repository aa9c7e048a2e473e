"""One model of the picker: its name, what it takes, whether it fits, and what can be done with it."""

from __future__ import annotations

from functools import partial
from html import escape
from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, QRectF, QSize, Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QFontMetrics, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QHBoxLayout, QLabel, QMenu, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from app.views import model_words as words
from app.views.buttons import IconButton
from app.views.theme import LEAST_PX, color, scaled, set_font, theme, ui_font

if TYPE_CHECKING:
    from app.state.model import Model
    from app.state.models import Entry

_PAD_PX = 6
_NAME_PX = 120
"""Least width of a name; longer ones are shown as far as there is room."""
_TONES = {"Fits": "muted", "Tight": "warning", "Too large": "error"}


class Badges(QWidget):
    """A few words, each in a frame of its own."""

    def __init__(self, said: tuple[str, ...], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._said = said
        self.setAccessibleName(", ".join(said))
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:
        metrics = QFontMetrics(ui_font(LEAST_PX), self)
        width = sum(metrics.horizontalAdvance(word) + 2 * _PAD_PX + 4 for word in self._said)
        return QSize(max(0, width - 4), metrics.height() + 4)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(ui_font(LEAST_PX))
        left = 0.0
        for word in self._said:
            frame = QRectF(left, 0, painter.fontMetrics().horizontalAdvance(word) + 2 * _PAD_PX, self.height())
            painter.setPen(color("line"))
            painter.setBrush(color("side"))
            painter.drawRoundedRect(frame.adjusted(0.5, 0.5, -0.5, -0.5), 4, 4)
            painter.setPen(color("muted"))
            painter.drawText(frame, Qt.AlignmentFlag.AlignCenter, word)
            left = frame.right() + 4


class ModelRow(QWidget):
    """A row.

    Signals:
        chosen: load this one.
        stopped: end its loading, or unload it.
        resumed: complete its download.
        unwanted: move it to the trash.
    """

    chosen = Signal()
    stopped = Signal()
    resumed = Signal()
    unwanted = Signal()

    def __init__(self, entry: Entry, model: Model, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.entry, self._model = entry, model
        self._name = QLabel(entry.name, self)
        set_font(self._name, strong=True)
        self._name.setMinimumWidth(min(_NAME_PX, self._name.sizeHint().width()))
        self._name.setToolTip(str(entry.model.folder))
        self._said = QLabel(self)
        self._said.setTextFormat(Qt.TextFormat.RichText)
        set_font(self._said, 12)
        self._said.setObjectName("muted")
        self._said.setWordWrap(True)
        self.button = QPushButton(self)
        self.button.setObjectName("centred")
        self.more = IconButton("more", f"More for {entry.name}", self)
        self.more.clicked.connect(self._menu)
        self._lay_out()
        self.button.clicked.connect(self._act)
        model.changed.connect(self.refresh)
        theme.changed.connect(self.refresh)
        self.refresh()

    def _lay_out(self) -> None:
        top = QHBoxLayout()
        top.setSpacing(8)
        top.addWidget(self._name)
        top.addWidget(Badges(words.badges(self.entry), self))
        top.addStretch(1)
        left = QVBoxLayout()
        left.setSpacing(4)
        left.addLayout(top)
        left.addWidget(self._said)
        row = QHBoxLayout(self)
        row.setContentsMargins(40, 10, 16, 10)
        row.setSpacing(8)
        row.addLayout(left, 1)
        row.addWidget(self.button)
        row.addWidget(self.more)

    @property
    def current(self) -> bool:
        """Whether this model answers."""
        return self._model.path == self.entry.model.folder

    @property
    def state(self) -> str:
        """What the model is doing; empty for one that is only listed."""
        return self._model.status if self.current else ""

    def refresh(self) -> None:
        """Show the row as it is now."""
        text, name = self._offer()
        self.button.setVisible(bool(text))
        if text != self.button.text():
            self.button.setText(text)
        self.button.setAccessibleName(f"{name} {self.entry.name}")
        said = self._line()
        if said != self._said.text():
            self._said.setText(said)
        self._said.setToolTip(words.fit_explained(self.entry))
        self.setAccessibleName(f"{self.entry.name}: {self.state or 'on this computer'}")
        self.update()

    def _offer(self) -> tuple[str, str]:
        """What the button says, and its name for those who do not see the row."""
        if self.state == "loading":
            return "Stop", "Stop loading"
        if self.state == "ready":
            return "Unload", "Unload"
        if self.entry.model.resumable:
            return "Resume", "Resume the download of"
        if not self.entry.usable:
            return "", ""
        return ("Try again", "Try again to load") if self.state == "failed" else ("Load", "Load")

    def _act(self) -> None:
        offered = self.button.text()
        signals = {"Stop": self.stopped, "Unload": self.stopped, "Resume": self.resumed}
        signals.get(offered, self.chosen).emit()

    def _line(self) -> str:
        """Figures, or what is happening, or what is wrong; the last in a colour."""
        if self.state == "loading":
            return f"{self._model.stage or 'Loading'} · {round(100 * self._model.progress)} %"
        if self.state == "failed":
            return _toned(self._model.error or "", "error")
        if not self.entry.usable:
            return _toned(self.entry.model.problem, "warning")
        word, numbers = words.fit(self.entry)
        tone = _TONES.get(word, "muted")
        verdict = f"{_toned(word, tone)}: {numbers}" if word else ""
        loaded = "Ready" if self.state == "ready" else ""
        return " · ".join(part for part in (loaded, words.figures(self.entry), verdict) if part)

    def _menu(self) -> None:
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        address = QUrl.fromLocalFile(str(self.entry.model.folder))
        menu.addAction("Show in file manager", partial(QDesktopServices.openUrl, address))
        if not self.entry.embedded:
            menu.addSeparator()
            menu.addAction("Move to trash", self.unwanted.emit)
        menu.popup(self.more.mapToGlobal(QPoint(0, self.more.height())))

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(16, self.height() - 1, self.width() - 32, 1, color("line"))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        middle = self._name.mapTo(self, QPoint(0, 0)).y() + self._name.height() / 2
        radius = scaled(4)
        dot = QRectF(24 - radius, middle - radius, 2 * radius, 2 * radius)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        if self.state == "ready":
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(color("accent"))
            painter.drawEllipse(dot)
        elif self.state == "loading":
            painter.setPen(QPen(color("line"), 2))
            painter.drawEllipse(dot)
            painter.setPen(QPen(color("accent"), 2))
            painter.drawArc(dot, 90 * 16, -round(360 * 16 * self._model.progress))
        else:
            painter.setPen(QPen(color("error" if self.state == "failed" else "control_line"), 1.2))
            painter.drawEllipse(dot)


def _toned(text: str, tone: str) -> str:
    """Text in a token's colour, safe to show as rich text."""
    return f'<span style="color:{color(tone).name()}">{escape(text)}</span>'
