"""The window: list of chats, tabs over the conversation, vitals; drops anywhere, keys for everything."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QByteArray, QMimeData, QPoint, QPointF, QRect, QRectF, Qt, QThreadPool
from PySide6.QtGui import (
    QDragEnterEvent,
    QDragLeaveEvent,
    QDragMoveEvent,
    QDropEvent,
    QHideEvent,
    QKeySequence,
    QResizeEvent,
    QShortcut,
)
from PySide6.QtWidgets import QFileDialog, QMainWindow, QSplitter, QVBoxLayout, QWidget

from app.state.composer import MAX_ATTACHMENTS
from app.state.presets import Presets
from app.state.screenshot import Screenshot
from app.views import drop, exchange, menus, motion
from app.views.drop import Dropped
from app.views.library import Sidebar
from app.views.notifier import Notifier
from app.views.panes import Panes
from app.views.tabs import TabStrip
from app.views.theme import Appearance, theme
from app.views.veil import Veil
from app.views.vitals import VitalsPanel

if TYPE_CHECKING:
    from pathlib import Path

    from PySide6.QtGui import QAction
    from PySide6.QtWidgets import QDialog

    from app.state.library import Library
    from app.state.model import Model
    from app.state.models import Models
    from app.state.preferences import Preferences
    from app.state.vitals import Vitals
    from app.views.chat import Chat
    from app.views.chat_settings import ChatSettings

_SIZE = (1200, 800)
_NARROW_PX = 1040


class Window(QMainWindow):
    """Braid's window; hiding it writes its shape into the settings."""

    def __init__(
        self, library: Library, model: Model, vitals: Vitals, preferences: Preferences, models: Models
    ) -> None:
        super().__init__()
        settings = preferences.settings
        theme.resize(settings.font_scale)
        theme.apply(settings.appearance)
        theme.wear(self)
        motion.choose(settings.reduce_motion)
        self.library, self.preferences = library, preferences
        self.presets = Presets(preferences, self)
        self.model, self._models, self._settings = model, models, settings
        self._dialog: QDialog | None = None
        self._chat_dialog: ChatSettings | None = None
        self._picker: QDialog | None = None
        self.panel_actions: list[QAction] = []
        self.split_action: QAction
        self.look_actions: list[QAction] = []
        self._dragged: Dropped | None = None
        self._screenshot = Screenshot(self)
        self._folded: set[int] = set()
        self._narrow: set[int] = set()
        self.strip = TabStrip(library, self)
        self.panes = Panes(library, model, self)
        self.sidebar = Sidebar(library, model, self)
        self.vitals = VitalsPanel(vitals, self)
        self._lay_out()
        self.sidebar.setVisible(settings.sidebar_visible)
        self.vitals.setVisible(settings.vitals_visible)
        menus.fill(self)
        self._connect()
        self.resize(*_SIZE)
        self.restoreGeometry(QByteArray.fromBase64(settings.geometry.encode()))
        self._parts.restoreState(QByteArray.fromBase64(settings.panels.encode()))
        self.panes.split = (settings.left_chat, settings.left_share)
        self.sidebar.chats.entries.folded = settings.closed_folders
        Notifier(self, library, settings)
        self._show_current()

    def _lay_out(self) -> None:
        self.setMinimumSize(720, 480)
        self.setAcceptDrops(True)
        centre = QWidget(self)
        centre.setObjectName("centre")
        centre.setMinimumWidth(360)
        column = QVBoxLayout(centre)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.strip)
        column.addWidget(self.panes, 1)
        splitter = self._parts = QSplitter(Qt.Orientation.Horizontal, self)
        splitter.setHandleWidth(1)
        splitter.setChildrenCollapsible(False)
        for index, part in enumerate((self.sidebar, centre, self.vitals)):
            splitter.addWidget(part)
            splitter.setStretchFactor(index, int(part is centre))
        splitter.setSizes([248, 704, 248])
        self.setCentralWidget(splitter)
        self._veil = Veil(self)

    def _connect(self) -> None:
        library = self.library
        library.current_changed.connect(self._show_current)
        library.tabs_changed.connect(self._forget_closed)
        library.beside_changed.connect(self._show_beside)
        self.panes.made.connect(self._dress_page)
        self.strip.row.pulled.connect(self._pull)
        self.strip.row.beside.connect(library.show_beside)
        self.preferences.changed.connect(self._take_choice)
        self.sidebar.model.clicked.connect(self.open_models)
        self.strip.add.clicked.connect(self.new_chat)
        self.sidebar.new.clicked.connect(self.new_chat)
        self.strip.row.configured.connect(self.open_chat_settings)
        self.sidebar.chats.exported.connect(self.export)
        for button, action in zip((self.strip.sidebar, self.strip.vitals), self.panel_actions, strict=True):
            button.clicked.connect(action.toggle)
        QShortcut(QKeySequence(Qt.Key.Key_Escape), self, self._escape)

    def present(self) -> None:
        """Come to the front, out of the dock or the task bar if need be."""
        self.setWindowState(self.windowState() & ~Qt.WindowState.WindowMinimized)
        self.show()
        self.raise_()
        self.activateWindow()

    def warm_up(self) -> None:
        """Fetch what drawing an answer takes, most of it beside the GUI thread; called once the window is painted."""
        from app.views import answer, chip, markdown, question

        del answer, chip, question  # imported here, so that the first file and the first message find them
        QThreadPool.globalInstance().start(markdown.warm_up)

    # Pages

    @property
    def page(self) -> Chat:
        """The page that is shown."""
        return self.panes.page

    def _dress_page(self, page: Chat) -> None:
        page.composer.pick.connect(self.pick)
        page.composer.shoot.connect(self.shoot)
        page.conversation.title_changed.connect(self._title)

    def _show_current(self) -> None:
        focused = self.focusWidget() or self
        stays = any(part.isAncestorOf(focused) for part in (self.sidebar, self.strip, self.page))
        self.panes.refresh()
        self._title()
        if not stays:
            self.page.composer.field.setFocus()

    def _show_beside(self) -> None:
        self.panes.refresh()
        self.split_action.setChecked(self.library.beside is not None)
        self._make_room()

    def _forget_closed(self) -> None:
        """Close what belongs to a tab that is gone."""
        dialog = self._chat_dialog
        if dialog is not None and dialog.chat.id not in {chat.id for chat in self.library.tabs}:
            dialog.close()

    def _title(self) -> None:
        self.setWindowTitle(f"{self.library.current.title} – Braid")

    # What menus and keys do

    def dress(self, appearance: Appearance) -> None:
        """Change the appearance now and for the next start."""
        self.preferences.choose("appearance", appearance)

    def _take_choice(self, key: str) -> None:
        """Look as the person has just chosen."""
        if key == "appearance":
            theme.apply(self._settings.appearance)
            menus.mark_appearance(self)
        elif key == "font_scale":
            theme.resize(self._settings.font_scale)
        elif key == "reduce_motion":
            motion.choose(self._settings.reduce_motion)

    def open_settings(self) -> None:
        """Show the settings beside the window, which stays in use."""
        if self._dialog is None:
            from app.views.settings import SettingsDialog

            self._dialog = SettingsDialog(self.preferences, self)
        self._dialog.show()
        self._dialog.raise_()
        self._dialog.activateWindow()

    def open_chat_settings(self, chat_id: str | None = None) -> None:
        """Show how one chat is answered, the current one if none is named."""
        from app.views.chat_settings import ChatSettings

        chat = next((tab for tab in self.library.tabs if tab.id == chat_id), self.library.current)
        if self._chat_dialog is not None:
            self._chat_dialog.close()
        self._chat_dialog = dialog = ChatSettings(chat, self.preferences, self.presets, self)
        dialog.destroyed.connect(self._forget_chat_settings)
        dialog.show()

    def _forget_chat_settings(self) -> None:
        self._chat_dialog = None

    def open_models(self) -> None:
        """Show the models beside the window."""
        if self._picker is None:
            from app.views.model_picker import ModelPicker

            self._picker = ModelPicker(self._models, self)
        self._picker.show()
        self._picker.raise_()
        self._picker.activateWindow()

    def pick(self) -> None:
        """Let the person choose files for the current chat."""
        draft = self.library.current.composer
        dialog = QFileDialog(self, "Add files")
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setFileMode(QFileDialog.FileMode.ExistingFiles)
        dialog.setNameFilters(drop.FILTERS)
        dialog.filesSelected.connect(lambda names: draft.add_files(_paths(names)))
        dialog.open()

    def export(self, chat_id: str | None = None) -> None:
        """Let the person choose a file for one chat, the current one if none is named."""
        chosen = chat_id or self.library.current.id
        title = next((entry.title for entry in self.library.entries if entry.id == chosen), "Chat")
        exchange.save(self, title, (exchange.MARKDOWN, exchange.ARCHIVE), partial(self._export, (chosen,)))

    def export_all(self) -> None:
        """Let the person choose a file for all chats."""
        ids = tuple(entry.id for entry in self.library.entries)
        exchange.save(self, "All chats", (exchange.ARCHIVE,), partial(self._export, ids))

    def _export(self, ids: tuple[str, ...], path: Path) -> None:
        self.library.exchange.export(ids, path)

    def import_chats(self) -> None:
        """Let the person choose an export to add to the chats."""
        exchange.choose(self, self.library.exchange.take)

    def shoot(self) -> None:
        """Take a screenshot for the current chat."""
        self._screenshot.take(self.library.current.composer)

    def close_tab(self) -> None:
        """Close the current tab."""
        self.library.close_tab(self.library.current.id)
        self.page.composer.field.setFocus()

    def stop(self) -> None:
        """Stop the current chat's answer."""
        self.library.current.stop()

    def rename_tab(self) -> None:
        """Change the current tab's title in place."""
        self.strip.row.tabs[self.library.current.id].rename()

    def step_tab(self, by: int) -> None:
        """Show the next (1) or previous (-1) tab, round the end."""
        tabs = [chat.id for chat in self.library.tabs]
        self.library.select(tabs[(tabs.index(self.library.current.id) + by) % len(tabs)])
        self.page.composer.field.setFocus()

    def new_chat(self) -> None:
        """Open a fresh chat, with the keyboard where it is written."""
        self.library.new_chat()
        self.page.composer.field.setFocus()

    def split(self) -> None:
        """Show the current tab beside its neighbour, or alone again."""
        library = self.library
        library.show_beside(None if library.beside is not None else library.current.id)

    def other_side(self) -> None:
        """Put the keyboard into the other one of two chats."""
        if self.library.beside is not None:
            self.library.select(self.library.beside.id)
            self.page.composer.field.setFocus()

    def _pull(self, chat_id: str, place: QPointF, done: bool) -> None:
        """A tab is dragged out of the strip: over the right half it can be shown beside another one."""
        half = self.panes.right_half()
        over = half.contains(self.panes.mapFromGlobal(place.toPoint()))
        if not over or done:
            self._veil.hide()
        else:
            title = next(chat.title for chat in self.library.tabs if chat.id == chat_id)
            area = QRect(self.panes.mapTo(self, half.topLeft()), half.size())
            self._veil.lift(QRectF(area), f"Show {title} on this side", refuses=False)
        if over and done:
            self.library.show_beside(chat_id)

    def show_tab(self, number: int) -> None:
        """Show a tab by its place from 1; 9 is the last one."""
        tabs = self.library.tabs
        if number == 9 or number <= len(tabs):
            self.library.select(tabs[-1 if number == 9 else number - 1].id)
            self.page.composer.field.setFocus()

    def search(self) -> None:
        """Put the keyboard into the search field."""
        self.panel_actions[0].setChecked(True)
        self.sidebar.search.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.sidebar.search.selectAll()

    def _escape(self) -> None:
        """Close what is open: the search first, then the notice."""
        if self.sidebar.search.text() or self.sidebar.search.hasFocus():
            self.sidebar.search.clear()
        else:
            self.page.composer.notice.hide()
        self.page.composer.field.setFocus()

    # Drops

    def _read(self, mime: QMimeData) -> drop.Dropped:
        return drop.read(mime, fetches=self.preferences.value("engine.allow_remote_media"))

    def _over_tabs(self, place: QPoint) -> bool:
        return self._strip_rect().contains(place)

    def _chat_at(self, place: QPoint) -> str:
        return self.panes.chat_at(self.panes.mapFrom(self, place))

    def _strip_rect(self) -> QRect:
        return QRect(self.strip.mapTo(self, QPoint(0, 0)), self.strip.size())

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        self._dragged = self._read(event.mimeData())
        event.setDropAction(Qt.DropAction.CopyAction)
        event.accept()
        self._lift(event.position().toPoint())

    def dragMoveEvent(self, event: QDragMoveEvent) -> None:
        event.setDropAction(Qt.DropAction.CopyAction)
        event.accept()
        self._lift(event.position().toPoint())

    def dragLeaveEvent(self, event: QDragLeaveEvent) -> None:
        self._dragged = None
        self._veil.hide()

    def dropEvent(self, event: QDropEvent) -> None:
        self._veil.hide()
        self._dragged = None
        found = self._read(event.mimeData())
        event.setDropAction(Qt.DropAction.CopyAction)
        event.accept()
        new = self._over_tabs(event.position().toPoint()) and found.usable
        if new:
            self.library.new_chat()
        else:
            self.library.select(self._chat_at(event.position().toPoint()))
        chat = self.library.current
        if found.text and not found.long:
            self.page.composer.insert(found.text)
        else:
            drop.put(found, chat.composer)
        self.activateWindow()
        self.page.composer.field.setFocus()

    def _lift(self, place: QPoint) -> None:
        if self._dragged is None:
            return
        over_tabs = self._over_tabs(place) and self._dragged.usable
        chat_id = self._chat_at(place)
        chat = next(chat for chat in self.library.tabs if chat.id == chat_id)
        room = MAX_ATTACHMENTS - len(chat.composer.chips)
        text = drop.sentence(self._dragged, None if over_tabs else chat.title, room)
        half = self.panes.rect_of(chat_id)
        page = QRect(self.panes.mapTo(self, half.topLeft()), half.size())
        self._veil.lift(QRectF(self._strip_rect() if over_tabs else page), text, refuses=not self._dragged.usable)

    # Life

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._make_room()

    def _make_room(self) -> None:
        """Fold vitals, then the list of chats, away while the window is too narrow for them beside what is read."""
        with_chats = self.sidebar.minimumWidth() + self.panes.minimumSizeHint().width()
        self._fold(1, narrow=self.width() < max(_NARROW_PX, with_chats + self.vitals.minimumWidth()))
        self._fold(0, narrow=self.width() < with_chats)

    def _fold(self, index: int, *, narrow: bool) -> None:
        """Fold a panel when it gets too narrow for it; the person's choice comes back with the room."""
        if narrow == (index in self._narrow):
            return
        action = self.panel_actions[index]
        self._narrow ^= {index}
        if not narrow and index in self._folded:
            action.setChecked(True)
        self._folded = self._folded | {index} if narrow and action.isChecked() else self._folded - {index}
        if narrow:
            action.setChecked(False)

    def hideEvent(self, event: QHideEvent) -> None:
        """Note the window's shape for the next start; however the app ends, its window is hidden first."""
        for dialog in (self._dialog, self._picker):
            if dialog is not None and not event.spontaneous():
                dialog.close()
        self._settings.geometry = bytes(self.saveGeometry().toBase64().data()).decode()
        self._settings.panels = bytes(self._parts.saveState().toBase64().data()).decode()
        self._settings.left_chat, share = self.panes.split
        self._settings.left_share = min(max(share, 0.1), 0.9)
        self._settings.closed_folders = self.sidebar.chats.entries.folded
        self._settings.sidebar_visible = 0 in self._folded or self.panel_actions[0].isChecked()
        self._settings.vitals_visible = 1 in self._folded or self.panel_actions[1].isChecked()
        super().hideEvent(event)


def _paths(names: list[str]) -> list[Path]:
    from pathlib import Path

    return [Path(name) for name in names]
