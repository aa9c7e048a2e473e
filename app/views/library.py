"""The sidebar: find a chat, start one, all of them by day, and which model answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import (
    Qt,
    QTimer,
    Signal,
)
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.views.chat_list import Chats
from app.views.icons import icon
from app.views.model_chip import ModelChip
from app.views.theme import scaled, theme

if TYPE_CHECKING:
    from app.state.library import Library
    from app.state.model import Model


_UNDO_MS = 8000


class UndoBar(QWidget):
    """Says what was deleted and takes it back.

    Signals:
        undone: the person wants it back.
    """

    undone = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._label = QLabel(self)
        self._label.setObjectName("muted")
        button = QPushButton("Undo", self)
        button.setObjectName("link")
        button.clicked.connect(self.undone)
        button.clicked.connect(self.hide)
        row = QHBoxLayout(self)
        row.setContentsMargins(16, 4, 8, 4)
        row.addWidget(self._label, 1)
        row.addWidget(button)
        self._timer = QTimer(self, singleShot=True, interval=_UNDO_MS)
        self._timer.timeout.connect(self.hide)
        self.hide()

    def say(self, title: str) -> None:
        """Offer to take back the deletion of a chat."""
        room = max(60, self.width() - 170)
        short = self._label.fontMetrics().elidedText(title, Qt.TextElideMode.ElideRight, room)
        self._label.setText(f"Deleted “{short}”")
        self.setAccessibleName(f"Deleted {title}")
        self.show()
        self._timer.start()


class SearchField(QLineEdit):
    """Where words are typed that a chat should hold.

    Signals:
        descended: the arrow down was pressed.
    """

    descended = Signal()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Down:
            self.descended.emit()
        else:
            super().keyPressEvent(event)


class Sidebar(QWidget):
    """Everything left of the conversation."""

    def __init__(self, library: Library, model: Model, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("sidebar")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._library = library
        self.search = SearchField(self)
        self.search.setAccessibleName("Search titles and messages")
        self.search.setPlaceholderText("Search chats")
        self.search.setClearButtonEnabled(True)
        self.search.setAcceptDrops(False)
        self._sign = self.search.addAction(icon("search"), QLineEdit.ActionPosition.LeadingPosition)
        self.new = QPushButton("New chat", self)
        self.new.setObjectName("flat")
        self.new.setAccessibleName("New chat")
        self.chats = Chats(library, self)
        self._undo = UndoBar(self)
        self.model = ModelChip(model, self)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 8, 0, 0)
        column.setSpacing(4)
        for part in (self.search, self.new):
            row = QHBoxLayout()
            row.setContentsMargins(8, 0, 8, 0)
            row.addWidget(part)
            column.addLayout(row)
        for whole in (self.chats, self._undo, self.model):
            column.addWidget(whole, 1 if whole is self.chats else 0)
        self._connect()
        self._recolour()
        self._explain()

    def _connect(self) -> None:
        library = self._library
        self.search.textChanged.connect(library.search.seek)
        self.search.returnPressed.connect(self.chats.choose_first)
        self.search.descended.connect(self._descend)
        library.search.changed.connect(self._explain)
        library.entries_changed.connect(self._explain)
        self.chats.chosen.connect(library.open)
        self._undo.undone.connect(library.undo_delete)
        library.deleted.connect(self._undo.say)
        library.current_changed.connect(lambda: self.chats.viewport().update())
        library.tabs_changed.connect(self._watch)
        theme.changed.connect(self._recolour)
        self._watched: set[str] = set()
        self._watch()

    def _watch(self) -> None:
        """Redraw the list when an open chat's sign changes."""
        for chat in self._library.tabs:
            if chat.id not in self._watched:
                chat.activity_changed.connect(self.chats.viewport().update)
        self._watched = {chat.id for chat in self._library.tabs}

    def _descend(self) -> None:
        """Let the keyboard go from the search to the first chat below it."""
        entries = self.chats.entries
        indexes = map(entries.index, range(entries.rowCount()))
        first = next((index for index in indexes if index.flags() & Qt.ItemFlag.ItemIsEnabled), None)
        if first is not None:
            self.chats.setCurrentIndex(first)
            self.chats.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def _explain(self) -> None:
        search, count = self._library.search, len(self._library.entries)
        said = "Your chats will be listed here"
        if search.words:
            chats = "1 chat was" if count == 1 else f"{count} chats were"
            said = search.error or f"Nothing found for “{search.words}”. Titles and messages of {chats} searched."
        self.chats.setProperty("nothing", said)
        self.chats.viewport().update()

    def _recolour(self) -> None:
        self.setMinimumWidth(scaled(220))
        self.setMaximumWidth(scaled(300))
        self._sign.setIcon(icon("search"))
        self.new.setIcon(icon("plus"))
