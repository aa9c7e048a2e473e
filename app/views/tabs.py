"""The strip of open conversations: select, move, rename, close, add."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QPainter, QPaintEvent, QResizeEvent, QWheelEvent
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QWidget

from app.views.buttons import IconButton
from app.views.tab import HEIGHT, Tab
from app.views.theme import color

if TYPE_CHECKING:
    from app.state.conversation import Conversation
    from app.state.library import Library

_WIDEST, _NARROWEST = 216, 120
_GAP = 4


class Row(QWidget):
    """The tabs side by side in equal widths; when there are too many they scroll sideways.

    Signals:
        configured: the person wants to choose how this chat is answered.
        beside: the person wants to see this chat beside another one.
        pulled: a tab is held below the strip, at this place of the screen; True when it was let go there.
    """

    configured = Signal(str)
    beside = Signal(str)
    pulled = Signal(str, QPointF, bool)

    def __init__(self, library: Library, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._library = library
        self.tabs: dict[str, Tab] = {}
        self._shift = 0
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setFixedHeight(HEIGHT)
        self.setAccessibleName("Open chats")
        library.tabs_changed.connect(self.refresh)
        library.current_changed.connect(self._mark)
        library.beside_changed.connect(self._mark)
        self.refresh()

    def refresh(self) -> None:
        """Make the tabs match the library's."""
        chats = {chat.id: chat for chat in self._library.tabs}
        for gone in set(self.tabs) - set(chats):
            tab = self.tabs.pop(gone)
            tab.hide()
            tab.deleteLater()
        for chat in chats.values():
            if chat.id not in self.tabs:
                self._add(chat)
        self.tabs = {chat_id: self.tabs[chat_id] for chat_id in chats}
        self._order_focus()
        self._mark()

    def _add(self, chat: Conversation) -> None:
        tab = self.tabs[chat.id] = Tab(chat, self)
        tab.pressed.connect(lambda: self._library.select(chat.id))
        tab.clicked.connect(lambda: self._library.select(chat.id))
        tab.closed.connect(self._library.close_tab)
        tab.dragged.connect(self._drag)
        tab.dropped.connect(self.place)
        tab.configured.connect(self.configured)
        tab.beside.connect(self.beside)
        tab.pulled.connect(self.pulled)
        tab.show()

    def _order_focus(self) -> None:
        tabs = list(self.tabs.values())
        for before, after in itertools.pairwise(tabs):
            QWidget.setTabOrder(before, after)

    def _mark(self) -> None:
        current = self._library.current.id
        for chat_id, tab in self.tabs.items():
            tab.setChecked(chat_id == current)
            tab.mark_aside(self._library.beside is tab.chat)
        self._reveal(current)
        self.place()

    def _width(self) -> int:
        count = max(1, len(self.tabs))
        return max(_NARROWEST, min(_WIDEST, (self.width() - _GAP * (count - 1)) // count))

    def _reveal(self, chat_id: str) -> None:
        if chat_id not in self.tabs:
            return
        step = self._width() + _GAP
        left = list(self.tabs).index(chat_id) * step
        self._shift = max(min(self._shift, left), left + self._width() - self.width())
        self._shift = max(0, min(self._shift, len(self.tabs) * step - _GAP - self.width()))

    def place(self, *_: object) -> None:
        """Put every tab where it belongs, except one that is being moved."""
        wide = self._width()
        for index, tab in enumerate(self.tabs.values()):
            if not tab.moving:
                tab.setGeometry(index * (wide + _GAP) - self._shift, 0, wide, HEIGHT)

    def _drag(self, chat_id: str, x: float) -> None:
        tab = self.tabs[chat_id]
        tab.move(round(max(-8, min(x, self.width() - tab.width() + 8))), 0)
        step = self._width() + _GAP
        order = list(self.tabs)
        now, wanted = order.index(chat_id), round((tab.x() + self._shift) / step)
        wanted = max(0, min(wanted, len(order) - 1))
        if wanted != now:
            self._library.move_tab(now, wanted)

    def used(self) -> int:
        """The width that the tabs need, px."""
        return len(self.tabs) * (_WIDEST + _GAP) - _GAP

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._reveal(self._library.current.id)
        self.place()

    def wheelEvent(self, event: QWheelEvent) -> None:
        delta = event.angleDelta()
        total = len(self.tabs) * (self._width() + _GAP) - _GAP
        self._shift = max(0, min(self._shift - (delta.x() or delta.y()) // 2, total - self.width()))
        self.place()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        steps = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}
        order = list(self.tabs)
        focused = next((index for index, chat_id in enumerate(order) if self.tabs[chat_id].hasFocus()), None)
        if focused is None or event.key() not in steps:
            super().keyPressEvent(event)
            return
        chosen = order[(focused + steps[Qt.Key(event.key())]) % len(order)]
        self._library.select(chosen)
        self.tabs[chosen].setFocus(Qt.FocusReason.TabFocusReason)


class TabStrip(QWidget):
    """The bar over the conversation: sidebar button, tabs, new tab, vitals button."""

    def __init__(self, library: Library, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("strip")
        self.row = Row(library, self)
        self.sidebar = IconButton("sidebar", "Show or hide the list of chats", self)
        self.add = IconButton("plus", "New chat", self)
        self.vitals = IconButton("vitals", "Show or hide vitals", self)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(8, 6, 8, 6)
        layout.setSpacing(8)
        for part in (self.sidebar, self.row, self.add, self.vitals):
            layout.addWidget(part)
        for button in (self.sidebar, self.add, self.vitals):
            button.setFixedSize(QSize(28, 28))

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(self.rect(), color("side"))
        painter.fillRect(0, self.height() - 1, self.width(), 1, color("line"))
