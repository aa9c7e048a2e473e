"""What every turn in the transcript shares: pieces of text, a footer, actions on hover and in a menu."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QEnterEvent, QGuiApplication
from PySide6.QtWidgets import QMenu, QVBoxLayout, QWidget

from app.views import code
from app.views.buttons import QuietButton
from app.views.footer import Footer
from app.views.text import TextView

if TYPE_CHECKING:
    from app.state.conversation import Turn


_COPIED_MS = 1500


class Message(QWidget):
    """What both kinds share: text views, actions on hover and in the context menu.

    Signals:
        retry: the person wants this answer made again (its turn's id).
    """

    retry = Signal(str)

    def __init__(self, turn: Turn, parent: QWidget | None = None, *, right: bool) -> None:
        super().__init__(parent)
        self.turn = turn
        self.column = QVBoxLayout(self)
        self.column.setContentsMargins(0, 0, 0, 0)
        self.column.setSpacing(0)
        self.footer = Footer(self, right=right)
        self._copy = QuietButton("copy", "Copy message", self)
        self._copy.clicked.connect(self.copy_text)
        self.footer.add(self._copy)

    def copy_text(self) -> None:
        """Put the turn's text on the clipboard and say so for a moment."""
        QGuiApplication.clipboard().setText(self.turn.text)
        self._copy.picture("check", "accent")
        QTimer.singleShot(_COPIED_MS, self._copy, lambda: self._copy.picture("copy", "muted"))

    def views(self) -> list[TextView]:
        """The pieces of text, from top to bottom."""
        raise NotImplementedError

    def stops(self) -> list[QWidget]:
        """What Tab visits, in order."""
        return [*self.views(), *self.footer.buttons]

    def refresh(self, activity: str) -> None:
        """Draw the turn as it is now; ``activity`` says what the engine does for it."""
        raise NotImplementedError

    def restyle(self) -> None:
        """Draw again in the colours in force now."""
        for view in self.views():
            view.restyle()

    def colour(self, block: code.Block) -> None:
        """Pass on that a code block has its colours."""
        for view in self.views():
            view.colour(block)

    def menu_at(self, view: TextView, place: QPoint) -> None:
        """Open the context menu."""
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        if view.textCursor().hasSelection():
            menu.addAction("Copy selection", view.copy)
        menu.addAction("Copy message", self.copy_text)
        menu.addAction("Select all", view.selectAll)
        self.fill_menu(menu)
        menu.popup(view.viewport().mapToGlobal(place))

    def fill_menu(self, menu: QMenu) -> None:
        """Add what only this kind of message offers."""

    def adopt(self, view: TextView) -> TextView:
        """Give a new piece of text our context menu."""
        view.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        view.customContextMenuRequested.connect(lambda place: self.menu_at(view, place))
        return view

    def enterEvent(self, event: QEnterEvent) -> None:
        self.footer.show_ink(True)
        super().enterEvent(event)

    def leaveEvent(self, event: QEvent) -> None:
        self.footer.show_ink(False)
        super().leaveEvent(event)
