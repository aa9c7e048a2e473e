"""What a model thought before it answered, folded away under one line that says how long it took."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QPushButton, QVBoxLayout, QWidget

from app.views.facts import duration
from app.views.icons import icon
from app.views.prose import Prose
from app.views.text import TextView
from app.views.theme import UI_PX, color, theme

_INDENT_PX = 18


class Thinking(QWidget):
    """A fold: closed unless the person opens it, and closed again when the thoughts end.

    Signals:
        changed: it was opened or closed, or its pieces of text came or went.
    """

    changed = Signal()

    def __init__(self, adopt: Callable[[TextView], TextView], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._reasoning, self._live = "", False
        self.head = QPushButton(self)
        self.head.setObjectName("fold")
        self.head.setCheckable(True)
        self.head.setIconSize(QSize(12, 12))
        self.head.toggled.connect(self._fold)
        self.prose = Prose("Thoughts", adopt, self, px=UI_PX, ink="muted")
        self.prose.pieced.connect(self.changed)
        self.prose.hide()
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 8)
        column.setSpacing(4)
        column.addWidget(self.head, alignment=Qt.AlignmentFlag.AlignLeft)
        inner = QVBoxLayout()
        inner.setContentsMargins(_INDENT_PX, 0, 0, 0)
        inner.addWidget(self.prose)
        column.addLayout(inner)
        theme.changed.connect(self._point)
        self._point()

    def show_thoughts(self, reasoning: str, seconds: float | None, *, live: bool) -> None:
        """Show what was thought so far; ``live``: the model still thinks. Nothing is drawn while it is closed."""
        ended = self._live and not live
        self._reasoning, self._live = reasoning, live
        took = "" if seconds is None else f" for {duration(int(seconds) if live else seconds)}"
        said = f"Thinking{took or ' …'}" if live else f"Thought{took}" if took else "Thoughts"
        if said != self.head.text():
            self.head.setText(said)
            self.head.setAccessibleName(said)
        if ended:
            self.head.setChecked(False)
        self._draw()

    def stops(self) -> list[QWidget]:
        """What Tab visits, in order."""
        return [self.head, *(self.prose.pieces if self.head.isChecked() else [])]

    def _fold(self, opened: bool) -> None:
        self.prose.setVisible(opened)
        self._point()
        self._draw()
        self.changed.emit()

    def _draw(self) -> None:
        if self.head.isChecked() or (self.prose.pieces and not self._live):
            self.prose.show_text(self._reasoning, live=self._live)

    def _point(self) -> None:
        self.head.setIcon(icon("unfolded" if self.head.isChecked() else "right", "muted", 12))
        self.head.setToolTip("Hide the thoughts" if self.head.isChecked() else "Show the thoughts")

    def paintEvent(self, event: QPaintEvent) -> None:
        if self.head.isChecked():
            place = self.prose.geometry()
            QPainter(self).fillRect(_INDENT_PX // 2 - 2, place.top(), 2, place.height() - 4, color("line"))
