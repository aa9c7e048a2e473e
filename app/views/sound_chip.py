"""A closer look at a sound: its waveform, its length, and a way to hear it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF, Qt, QUrl
from PySide6.QtGui import QDesktopServices, QPainter, QPaintEvent, QPixmap
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QWidget

from app.state.player import Player
from app.views.icons import icon
from app.views.pictures import pixmap
from app.views.theme import scaled, theme

if TYPE_CHECKING:
    from app.state.attachment import Attachment

_WAVE_PX = 64


class Waveform(QWidget):
    """The picture of a sound, stretched over its width."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._pixmap = QPixmap()
        self.setFixedHeight(scaled(_WAVE_PX))

    def show_wave(self, png: bytes) -> None:
        """Show this one."""
        self._pixmap = pixmap(png)
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
        painter.drawPixmap(QRectF(self.rect()), self._pixmap, QRectF(self._pixmap.rect()))


class SoundChip(QWidget):
    """A sound that can be heard: here if a player is at hand, else in the program that the system uses."""

    def __init__(self, player: Player | None = None, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.player = player or Player(self)
        self.player.changed.connect(self._show)
        self.button = QPushButton(self)
        self.button.clicked.connect(self._press)
        self.wave = Waveform(self)
        self.wave.setAccessibleName("Waveform")
        self._item: Attachment | None = None
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(12)
        row.addWidget(self.button, alignment=Qt.AlignmentFlag.AlignVCenter)
        row.addWidget(self.wave, 1)
        theme.changed.connect(self._show)
        self._show()

    def stops(self) -> list[QWidget]:
        """What Tab visits, in order."""
        return [self.button]

    def show_sound(self, item: Attachment) -> None:
        """Show this one; another one that is heard falls silent."""
        if self._item is None or item.path != self._item.path:
            self.player.stop()
            self.wave.show_wave(item.thumbnail)
        self._item = item
        self._show()

    def leave(self) -> None:
        """Be quiet."""
        self.player.stop()

    def _press(self) -> None:
        if self.player.playing is not None:
            self.player.stop()
        elif self._item is not None and not self.player.play(self._item.path):
            QDesktopServices.openUrl(QUrl.fromLocalFile(str(self._item.path)))

    def _show(self) -> None:
        plays = self.player.playing is not None
        self.button.setText("Stop" if plays else "Play")
        self.button.setIcon(icon("stop" if plays else "play", "text"))
        name = self._item.name if self._item is not None else "the sound"
        self.button.setAccessibleName(f"{'Stop' if plays else 'Play'} {name}")
