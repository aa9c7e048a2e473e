"""One download of the picker: how far it is, and pause, resume and cancel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from app.views import model_words as words
from app.views.theme import color, set_font

if TYPE_CHECKING:
    from app.state.download import Download


class Bar(QWidget):
    """A thin bar of what has come."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._part = 0.0
        self._moving = True
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:
        return QSize(120, 4)

    def show_part(self, part: float, *, moving: bool) -> None:
        """Fill it up to a part between 0 and 1."""
        self._part, self._moving = part, moving
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        whole = QRectF(self.rect())
        painter.setBrush(color("line"))
        painter.drawRoundedRect(whole, 2, 2)
        if self._part > 0:
            whole.setWidth(max(4.0, whole.width() * self._part))
            painter.setBrush(color("accent" if self._moving else "control_line"))
            painter.drawRoundedRect(whole, 2, 2)


class DownloadRow(QWidget):
    """A row.

    Signals:
        cancelled: end it and remove what has come.
    """

    cancelled = Signal()

    def __init__(self, download: Download, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.download = download
        name = QLabel(download.repo, self)
        set_font(name, strong=True)
        self._bar = Bar(self)
        self._said = QLabel(self)
        self._said.setTextFormat(Qt.TextFormat.PlainText)
        self._said.setWordWrap(True)
        set_font(self._said, 12)
        self.pause = QPushButton(self)
        self.cancel = QPushButton("Cancel", self)
        for button in (self.pause, self.cancel):
            button.setObjectName("centred")
        self.cancel.setAccessibleName(f"Cancel the download of {download.repo}")
        self.pause.clicked.connect(self._toggle)
        self.cancel.clicked.connect(self.cancelled)
        left = QVBoxLayout()
        left.setSpacing(6)
        for part in (name, self._bar, self._said):
            left.addWidget(part)
        row = QHBoxLayout(self)
        row.setContentsMargins(40, 10, 16, 10)
        row.setSpacing(8)
        row.addLayout(left, 1)
        row.addWidget(self.pause)
        row.addWidget(self.cancel)
        download.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Show how far it is now."""
        download = self.download
        running, failed = download.state == "running", download.state == "failed"
        part = download.done / download.total if download.total else 0.0
        self._bar.show_part(part, moving=running)
        self._bar.setAccessibleName(f"{download.repo}: {100 * part:.0f} %")
        self._said.setText(words.progress(download))
        tone = "error" if failed else "muted"
        if self._said.objectName() != tone:
            self._said.setObjectName(tone)
            self._said.style().polish(self._said)
        text = "Pause" if running else "Try again" if failed else "Resume"
        self.pause.setText(text)
        self.pause.setAccessibleName(f"{text}: the download of {download.repo}")
        self.setAccessibleName(f"Download of {download.repo}: {words.progress(download)}")

    def _toggle(self) -> None:
        if self.download.state == "running":
            self.download.pause()
        else:
            self.download.resume()

    def paintEvent(self, event: QPaintEvent) -> None:
        QPainter(self).fillRect(16, self.height() - 1, self.width() - 32, 1, color("line"))
