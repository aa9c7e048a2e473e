"""The list of chats in the sidebar: opened by a click, put in order from its menu and by keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import (
    QEvent,
    QModelIndex,
    QPoint,
    Qt,
    QTimer,
    Signal,
)
from PySide6.QtGui import QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QListView, QMenu, QWidget

from app.views.entries import Entries, EntryRole, Folder, Heading, Hit
from app.views.row_painter import RowPainter
from app.views.theme import UI_PX, color, ui_font

if TYPE_CHECKING:
    from app.state.library import Library
    from app.state.shelf import Entry

_NEW_FOLDER = "New folder"


class Chats(QListView):
    """The list itself.

    Signals:
        chosen: open this chat, at one of its turns if the second is not empty.
        exported: write this chat to a file.
    """

    chosen = Signal(str, str)
    exported = Signal(str)

    def __init__(self, library: Library, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._library = library
        self._last: str | None = None
        self.entries = Entries(library)
        self.setModel(self.entries)
        self.setItemDelegate(RowPainter(library, self))
        self.setAccessibleName("Chats")
        self.setMouseTracking(True)
        self.setVerticalScrollMode(QListView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setEditTriggers(QListView.EditTrigger.NoEditTriggers)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.customContextMenuRequested.connect(self._menu)
        self.clicked.connect(self._choose)
        self.entries.modelAboutToBeReset.connect(self._note_current)
        self.entries.modelReset.connect(self._find_current)
        self.itemDelegate().closeEditor.connect(self._edited)

    def choose_first(self) -> None:
        """Open the first chat there is."""
        rows = map(self.entries.index, range(self.entries.rowCount()))
        first = next((row for row in rows if self._id(row) is not None), None)
        if first is not None:
            self._choose(first)

    def rename(self, index: QModelIndex) -> None:
        """Let the name of a chat or folder be changed in place; no other row moves meanwhile."""
        if index.isValid() and not isinstance(index.data(EntryRole), Heading):
            self.entries.hold(True)
            self.setCurrentIndex(index)
            self.edit(index)

    def _edited(self) -> None:
        QTimer.singleShot(0, self, lambda: self.entries.hold(False))  # the field must be gone before rows move

    def _choose(self, index: QModelIndex) -> None:
        row = index.data(EntryRole)
        if isinstance(row, Folder):
            self.entries.fold(row.title)
        elif (chat_id := self._id(index)) is not None:
            self.chosen.emit(chat_id, (row.turn_id or "") if isinstance(row, Hit) else "")

    @staticmethod
    def _id(index: QModelIndex) -> str | None:
        return getattr(index.data(EntryRole), "id", None) if index.isValid() else None

    # Where the keyboard is, when rows come and go

    def _note_current(self) -> None:
        self._last = self._id(self.currentIndex())

    def _find_current(self) -> None:
        row = self.entries.row_of(self._last) if self._last is not None else None
        if row is not None:
            self.setCurrentIndex(self.entries.index(row))

    # The menu

    def _menu(self, place: QPoint) -> None:
        index = self.indexAt(place)
        index = index if index.isValid() else self.currentIndex()
        row = index.data(EntryRole) if index.isValid() else None
        if row is None or isinstance(row, Heading):
            return
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        if isinstance(row, Folder):
            self._offer_folder(menu, index, row)
        else:
            self._offer_chat(menu, index, row.entry if isinstance(row, Hit) else row)
        menu.popup(self.viewport().mapToGlobal(place))

    def _offer_folder(self, menu: QMenu, index: QModelIndex, row: Folder) -> None:
        menu.addAction("Open" if row.folded else "Close", lambda: self.entries.fold(row.title))
        menu.addAction("Rename", lambda: self.rename(index))
        menu.addSeparator()
        menu.addAction("Remove folder, keep its chats", lambda: self._library.rename_folder(row.title, None))

    def _offer_chat(self, menu: QMenu, index: QModelIndex, entry: Entry) -> None:
        library, chat_id = self._library, entry.id
        menu.addAction("Open", lambda: self._choose(index))
        menu.addAction("Rename", lambda: self.rename(index))
        menu.addAction("Unpin" if entry.pinned else "Pin to the top", lambda: library.pin(chat_id, not entry.pinned))
        folders = menu.addMenu("Move to folder")
        for name in library.folders:
            if name != entry.folder:
                self._offer_move(folders, chat_id, name)
        folders.addAction("New folder", lambda: self._file_in_new(chat_id))
        if entry.folder is not None:
            folders.addSeparator()
            folders.addAction("No folder", lambda: library.file(chat_id, None))
        menu.addAction("Export …", lambda: self.exported.emit(chat_id))
        menu.addSeparator()
        menu.addAction("Delete", lambda: library.delete(chat_id))

    def _offer_move(self, menu: QMenu, chat_id: str, folder: str) -> None:
        menu.addAction(folder.replace("&", "&&"), lambda: self._library.file(chat_id, folder))

    def _file_in_new(self, chat_id: str) -> None:
        """Put a chat into a folder of its own and let that be named."""
        name, number = _NEW_FOLDER, 2
        while name in self._library.folders:
            name, number = f"{_NEW_FOLDER} {number}", number + 1
        self._library.pin(chat_id, False)
        self._library.file(chat_id, name)
        row = self.entries.row_of_folder(name)
        if row is not None:
            self.rename(self.entries.index(row))

    def event(self, event: QEvent) -> bool:
        """Take F2 before the window's menu does: here it renames the chat of the list, not the tab."""
        override = event.type() == QEvent.Type.ShortcutOverride
        if override and isinstance(event, QKeyEvent) and event.key() == Qt.Key.Key_F2:
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        index = self.currentIndex()
        chat_id = self._id(index)
        row = index.data(EntryRole) if index.isValid() else None
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and row is not None:
            self._choose(index)
        elif event.key() == Qt.Key.Key_F2 and row is not None:
            self.rename(index)
        elif event.key() in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace) and chat_id is not None:
            self._library.delete(chat_id)
        elif isinstance(row, Folder) and event.key() == (Qt.Key.Key_Right if row.folded else Qt.Key.Key_Left):
            self.entries.fold(row.title)
        else:
            super().keyPressEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self.entries.rowCount() == 0:
            painter = QPainter(self.viewport())
            painter.setPen(color("muted"))
            painter.setFont(ui_font(UI_PX))
            flags = Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignTop | Qt.TextFlag.TextWordWrap
            painter.drawText(self.viewport().rect().adjusted(16, 24, -16, 0), int(flags), self.property("nothing"))
