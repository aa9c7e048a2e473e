"""The open chats as pages: the current one, alone or beside a second one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, QRect, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QApplication, QSplitter, QStackedWidget, QVBoxLayout, QWidget

from app.views.chat import Chat
from app.views.theme import color

if TYPE_CHECKING:
    from app.state.library import Library
    from app.state.model import Model

_MARK_PX = 2
_LEAST_PX = 280
_WHOLE = 10_000


class Side(QWidget):
    """One half: a stack of pages under a line that tells which half has the keyboard."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.stack = QStackedWidget(self)
        self._marked = False
        self.setMinimumWidth(_LEAST_PX)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.addWidget(self.stack)

    def mark(self, *, split: bool, marked: bool) -> None:
        """Draw the line, or leave its place empty, or give the place to the page."""
        self._marked = marked
        self._column.setContentsMargins(0, _MARK_PX if split else 0, 0, 0)
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(self.rect(), color("surface"))
        if self._marked:
            painter.fillRect(0, 0, self.width(), _MARK_PX, color("accent"))


class Panes(QSplitter):
    """The pages of all tabs, of which one or two are seen.

    Signals:
        made: a page came into being.
    """

    made = Signal(object)

    def __init__(self, library: Library, model: Model, parent: QWidget | None = None) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self._library, self._model = library, model
        self._pages: dict[str, Chat] = {}
        self._places: list[str] = []
        self._left, self._share = "", 0.5
        self._sides = (Side(self), Side(self))
        self.setHandleWidth(1)
        self.setChildrenCollapsible(False)
        for side in self._sides:
            self.addWidget(side)
            self.setStretchFactor(self.indexOf(side), 1)
        self._sides[1].hide()
        library.tabs_changed.connect(self._drop)
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        application.focusChanged.connect(self._follow_focus)

    @property
    def split(self) -> tuple[str, float]:
        """Which chat is at the left of two, and its part of the width; once set, the next two stand like that."""
        self._note_share()
        return self._places[0] if len(self._places) == 2 else "", self._share

    @split.setter
    def split(self, remembered: tuple[str, float]) -> None:
        self._left, self._share = remembered

    def _note_share(self) -> None:
        left, right = self.sizes()
        if len(self._places) == 2 and left and right:
            self._share = left / (left + right)

    @property
    def page(self) -> Chat:
        """The page of the current chat."""
        return self._page(self._library.current.id)

    def refresh(self) -> None:
        """Show the current chat, and the one beside it; who is seen already stays in place."""
        library = self._library
        current, beside = library.current.id, library.beside.id if library.beside is not None else None
        split = beside is not None
        self._note_share()
        self._places = places = self._placed(current, beside)
        if self._sides[1].isHidden() == split:
            self._sides[1].setVisible(split)
            left = round(_WHOLE * self._share)
            self.setSizes([left, _WHOLE - left])
        for side, chat_id in zip(self._sides, places, strict=False):
            page = self._page(chat_id)
            if side.stack.indexOf(page) < 0:
                side.stack.addWidget(page)
            side.stack.setCurrentWidget(page)
            side.mark(split=split, marked=split and chat_id == current)

    def _placed(self, current: str, beside: str | None) -> list[str]:
        if beside is None:
            return [current]
        left, self._left = self._left, ""
        before = self._places if len(self._places) == 2 else [beside, current] if beside == left else [current, beside]
        swapped = before[0] == beside or (before[1] == current and before[0] != current)
        return [beside, current] if swapped else [current, beside]

    def chat_at(self, place: QPoint) -> str:
        """The chat that is seen at a place, in the pages' coordinates."""
        right = len(self._places) == 2 and self._sides[1].geometry().contains(place)
        return self._places[1 if right else 0]

    def rect_of(self, chat_id: str) -> QRect:
        """Where a chat is seen, in the pages' coordinates."""
        return self._sides[self._places.index(chat_id)].geometry()

    def right_half(self) -> QRect:
        """Where a second chat would be seen, in the pages' coordinates."""
        if len(self._places) == 2:
            return self._sides[1].geometry()
        rect = self.rect()
        return rect.adjusted(rect.width() // 2, 0, 0, 0)

    def _page(self, chat_id: str) -> Chat:
        if chat_id not in self._pages:
            chat = next(tab for tab in self._library.tabs if tab.id == chat_id)
            page = self._pages[chat_id] = Chat(chat, self._model, self._sides[0].stack)
            self._sides[0].stack.addWidget(page)
            self.made.emit(page)
        return self._pages[chat_id]

    def _drop(self) -> None:
        """Forget the pages of closed tabs."""
        for gone in set(self._pages) - {chat.id for chat in self._library.tabs}:
            page = self._pages.pop(gone)
            focused = self.window().focusWidget()
            if focused is not None and page.isAncestorOf(focused):
                focused.clearFocus()  # else Qt gives the keyboard to a tab, and the next page leaves it there
            for side in self._sides:
                side.stack.removeWidget(page)
            page.hide()
            page.deleteLater()

    def _follow_focus(self, _: QWidget | None, focused: QWidget | None) -> None:
        """The half with the keyboard is the current one."""
        beside = self._library.beside
        if focused is not None and beside is not None and self._page(beside.id).isAncestorOf(focused):
            self._library.select(beside.id)
