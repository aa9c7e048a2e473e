"""What Braid is and what this copy of it consists of, for the curious and for bug reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer, QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QDialog, QGridLayout, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.state.versions import log_folder, versions
from app.views.icons import icon
from app.views.theme import set_font, theme

if TYPE_CHECKING:
    from app.state.model import Model

_SAID_MS = 1500
_ICON_PX = 56
_SENTENCE = (
    "Chats with pictures, answered by a model on this computer, all of them at once.\nYour chats never leave it."
)


class About(QDialog):
    """The versions, a button that copies them, and the way to the log."""

    def __init__(self, model: Model, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("About Braid")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._facts = (*versions(), ("Model", model.name))
        self._icon, name, sentence = QLabel(self), QLabel("Braid", self), QLabel(_SENTENCE, self)
        set_font(name, 22, strong=True)
        sentence.setObjectName("muted")
        column = QVBoxLayout(self)
        column.setContentsMargins(24, 24, 24, 16)
        column.setSpacing(16)
        head, words = QHBoxLayout(), QVBoxLayout()
        head.setSpacing(16)
        words.setSpacing(4)
        for label in (name, sentence):
            words.addWidget(label)
        head.addWidget(self._icon, alignment=Qt.AlignmentFlag.AlignTop)
        head.addLayout(words, 1)
        column.addLayout(head)
        column.addLayout(self._grid())
        column.addLayout(self._buttons())
        theme.changed.connect(self._draw)
        self._draw()

    @property
    def details(self) -> str:
        """What is copied."""
        return "\n".join(f"{name}: {value}" for name, value in self._facts)

    def copy(self) -> None:
        """Put the details on the clipboard and say so for a moment."""
        QGuiApplication.clipboard().setText(self.details)
        self._copy.setText("Copied")
        QTimer.singleShot(_SAID_MS, self._copy, lambda: self._copy.setText("Copy details"))

    def _grid(self) -> QGridLayout:
        grid = QGridLayout()
        grid.setHorizontalSpacing(16)
        grid.setVerticalSpacing(4)
        grid.setColumnStretch(1, 1)
        for row, (name, value) in enumerate(self._facts):
            said, what = QLabel(name, self), QLabel(value, self)
            said.setObjectName("muted")
            what.setTextFormat(Qt.TextFormat.PlainText)
            what.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            grid.addWidget(said, row, 0)
            grid.addWidget(what, row, 1)
        return grid

    def _buttons(self) -> QHBoxLayout:
        self._copy, logs, close = (QPushButton(text, self) for text in ("Copy details", "Open log folder", "Close"))
        self._copy.clicked.connect(self.copy)
        logs.clicked.connect(open_logs)
        logs.setEnabled(log_folder() is not None)
        close.clicked.connect(self.close)
        close.setDefault(True)
        close.setFocus()
        row = QHBoxLayout()
        row.setSpacing(8)
        row.addWidget(self._copy)
        row.addWidget(logs)
        row.addStretch(1)
        row.addWidget(close)
        return row

    def _draw(self) -> None:
        self._icon.setPixmap(icon("braid", "accent", _ICON_PX).pixmap(_ICON_PX, _ICON_PX))


def open_logs() -> None:
    """Show the folder of the log in the file manager."""
    folder = log_folder()
    if folder is not None:
        QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))
