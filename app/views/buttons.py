"""Small buttons with a line icon that keep their colour in step with the theme."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QPaintEvent
from PySide6.QtWidgets import QToolButton, QWidget

from app.views.icons import icon
from app.views.theme import theme


class IconButton(QToolButton):
    """An icon with a name that is spoken and shown as a tooltip."""

    def __init__(self, picture: str, name: str, parent: QWidget | None = None, *, role: str = "muted") -> None:
        super().__init__(parent)
        self._picture, self._role = picture, role
        self.setIconSize(QSize(16, 16))
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.rename(name)
        theme.changed.connect(self._redraw)
        self._redraw()

    def rename(self, name: str, tip: str = "") -> None:
        """Say what the button does now."""
        self.setAccessibleName(name)
        self.setToolTip(tip or name)

    def picture(self, name: str, role: str) -> None:
        """Show another icon."""
        if (name, role) != (self._picture, self._role):
            self._picture, self._role = name, role
            self._redraw()

    def _redraw(self) -> None:
        self.setIcon(icon(self._picture, self._role))


class QuietButton(IconButton):
    """Drawn only while its surroundings are hovered or it has the focus; always there for Tab and screen readers."""

    def __init__(self, picture: str, name: str, parent: QWidget | None = None) -> None:
        super().__init__(picture, name, parent)
        self._shown = False

    def show_ink(self, shown: bool) -> None:
        """Draw it or leave its place empty."""
        if shown != self._shown:
            self._shown = shown
            self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._shown or self.hasFocus():
            super().paintEvent(event)
