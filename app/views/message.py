"""What every turn in the transcript shares: pieces of text, a footer, actions on hover and in a menu."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QContextMenuEvent, QEnterEvent, QGuiApplication
from PySide6.QtWidgets import QMenu, QVBoxLayout, QWidget

from app.state.branch import Offers
from app.views import code, latex
from app.views.buttons import QuietButton
from app.views.footer import Footer
from app.views.text import TextView

if TYPE_CHECKING:
    from app.state.conversation import Turn


_COPIED_MS = 1500


class Message(QWidget):
    """What both kinds share: text views, actions on hover and in the context menu.

    Signals, each with the turn's id:
        retry: the person wants this answer made again.
        resumed: the person wants this answer gone on with.
        edited: the person asks this in other words (the words).
        stepped: the person wants to see another variant (1: the next, -1: the previous).
        forked: the person wants to go another way from here, in another tab.
        viewed (id of an attachment): the person wants to see it.
        working (without): there is something left to draw.
    """

    retry = Signal(str)
    resumed = Signal(str)
    edited = Signal(str, str)
    stepped = Signal(str, int)
    forked = Signal(str)
    viewed = Signal(str)
    working = Signal()
    noun = "variant"

    def __init__(self, turn: Turn, parent: QWidget | None = None, *, right: bool) -> None:
        super().__init__(parent)
        self.turn = turn
        self.column = QVBoxLayout(self)
        self.column.setContentsMargins(0, 0, 0, 0)
        self.column.setSpacing(0)
        self.offers = Offers()
        self.footer = Footer(self.noun, self, right=right)
        self.footer.stepped.connect(lambda by: self.stepped.emit(self.turn.id, by))
        self._copy = self.action("copy", "Copy message", self.copy_text)

    def action(self, picture: str, name: str, does: Callable[[], object]) -> QuietButton:
        """Add a button to the footer."""
        button = QuietButton(picture, name, self)
        button.clicked.connect(lambda _=False: does())
        self.footer.add(button)
        return button

    def offer(self, offers: Offers) -> None:
        """Show what can be done with the turn now."""
        if offers != self.offers:
            self.offers = offers
            self.footer.vary(offers.position, offers.variants, switch=offers.switch)
            self.show_offers()

    def show_offers(self) -> None:
        """Show or hide the actions that only this kind of message has."""
        raise NotImplementedError

    def fit(self, width: int) -> None:
        """Follow the column's width, px."""

    def edit(self) -> None:
        """Let the person change the words, where they can be changed."""

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
        return [*self.views(), *self.footer.stops()]

    def refresh(self, activity: str) -> None:
        """Draw the turn as it is now; ``activity`` says what the engine does for it."""
        raise NotImplementedError

    @property
    def waits(self) -> bool:
        """Whether there is something left to draw."""
        return False

    def work(self, until: float) -> None:
        """Draw some of what is left, up to a moment of the performance counter."""

    def take(self, formulas: frozenset[latex.Formula]) -> None:
        """Pass on that formulas were set in type; they are drawn later."""

    def restyle(self) -> None:
        """Draw again in the colours in force now; where nobody sees it, later."""
        for view in self.views():
            view.restyle()

    def colour(self, block: code.Block) -> None:
        """Pass on that a code block has its colours."""
        for view in self.views():
            view.colour(block)

    def menu_at(self, view: TextView, place: QPoint) -> None:
        """Open the context menu of a piece of text."""
        menu = self._menu()
        if view.textCursor().hasSelection():
            menu.addAction("Copy selection", view.copy)
        menu.addAction("Copy message", self.copy_text)
        menu.addAction("Select all", view.selectAll)
        self._fill(menu)
        menu.popup(view.viewport().mapToGlobal(place))

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """Open the menu where there is no text: beside it, on pictures, on a button with the keyboard."""
        menu = self._menu()
        menu.addAction("Copy message", self.copy_text)
        self._fill(menu)
        menu.popup(event.globalPos())

    def _menu(self) -> QMenu:
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        return menu

    def _fill(self, menu: QMenu) -> None:
        offers, turn_id = self.offers, self.turn.id
        menu.addSeparator()
        self.fill_menu(menu)
        if offers.fork:
            menu.addAction("Fork into a new tab", lambda: self.forked.emit(turn_id))
        if offers.switch and offers.position > 1:
            menu.addAction(f"Previous {self.noun}", lambda: self.stepped.emit(turn_id, -1))
        if offers.switch and offers.position < offers.variants:
            menu.addAction(f"Next {self.noun}", lambda: self.stepped.emit(turn_id, 1))

    def fill_menu(self, menu: QMenu) -> None:
        """Add what only this kind of message offers."""
        raise NotImplementedError

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
