"""The menu bar and the keys: one table of actions, placed as each platform does it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QMetaObject, Qt
from PySide6.QtGui import QAction, QActionGroup, QKeySequence
from PySide6.QtWidgets import QApplication, QDialog, QMenu

from app.views.theme import Appearance, theme

if TYPE_CHECKING:
    from app.views.window import Window

MAC = sys.platform == "darwin"
_EDITS = (
    ("Undo", "undo", QKeySequence.StandardKey.Undo),
    ("Redo", "redo", QKeySequence.StandardKey.Redo),
    None,
    ("Cut", "cut", QKeySequence.StandardKey.Cut),
    ("Copy", "copy", QKeySequence.StandardKey.Copy),
    ("Paste", "paste", QKeySequence.StandardKey.Paste),
    ("Select all", "selectAll", QKeySequence.StandardKey.SelectAll),
)
_APPEARANCES: tuple[tuple[str, Appearance], ...] = (("Like the system", "system"), ("Light", "light"), ("Dark", "dark"))


def _add(menu: QMenu, text: str, does: Callable[[], object], *keys: str | QKeySequence.StandardKey) -> QAction:
    action = menu.addAction(text)
    action.setShortcuts([QKeySequence(key) for key in keys])
    action.triggered.connect(lambda _=False: does())
    return action


def fill(window: Window) -> None:
    """Give the window its menus."""
    _file(window)
    _edit(window)
    _view(window)
    _chat(window)
    _tabs(window)
    _help(window)


def _file(window: Window) -> None:
    menu = window.menuBar().addMenu("&File")
    _add(menu, "New chat", window.new_chat, "Ctrl+N", "Ctrl+T")
    _add(menu, "Add files …", window.pick, "Ctrl+O")
    _add(menu, "Take a screenshot", window.shoot, "Ctrl+Shift+P")
    menu.addSeparator()
    _add(menu, "Models …", window.open_models, "Ctrl+Shift+M")
    menu.addSeparator()
    _add(menu, "Import chats …", window.import_chats)
    _add(menu, "Export chat …", window.export, "Ctrl+Shift+S")
    _add(menu, "Export all chats …", window.export_all)
    menu.addSeparator()
    _add(menu, "Close tab", window.close_tab, "Ctrl+W")
    chooses = _add(menu, "Settings …", window.open_settings, QKeySequence.StandardKey.Preferences, "Ctrl+,")
    chooses.setMenuRole(QAction.MenuRole.PreferencesRole)
    quits = _add(menu, "Quit Braid", window.close, QKeySequence.StandardKey.Quit)
    quits.setMenuRole(QAction.MenuRole.QuitRole)


def _edit(window: Window) -> None:
    menu = window.menuBar().addMenu("&Edit")
    for item in _EDITS:
        if item is None:
            menu.addSeparator()
            continue
        text, slot, key = item
        _add(menu, text, partial(_tell_focused, slot), key)
    menu.addSeparator()
    _add(menu, "Search chats", window.search, "Ctrl+K")


def _tell_focused(slot: str) -> None:
    """Call an editing slot of the widget with the keyboard, if it has it."""
    focused = QApplication.focusWidget()
    if focused is not None and focused.metaObject().indexOfMethod(f"{slot}()") >= 0:
        QMetaObject.invokeMethod(focused, slot, Qt.ConnectionType.DirectConnection)


def _view(window: Window) -> None:
    menu = window.menuBar().addMenu("&View")
    for text, panel, keys in (
        ("Chats", window.sidebar, ("Ctrl+\\",)),
        # Some keyboards send the shifted sign.
        ("Vitals", window.vitals, ("Ctrl+Shift+\\", "Ctrl+|")),
    ):
        action = _add(menu, text, lambda: None, *keys)
        action.setCheckable(True)
        action.setChecked(panel.isVisibleTo(window))
        action.toggled.connect(panel.setVisible)
        window.panel_actions.append(action)
    window.split_action = _add(menu, "Two chats side by side", window.split, "Ctrl+Shift+D")
    window.split_action.setCheckable(True)
    _add(menu, "Other side", window.other_side, "F6")
    menu.addSeparator()
    looks = menu.addMenu("Appearance")
    group = QActionGroup(looks)
    for text, appearance in _APPEARANCES:
        action = _add(looks, text, partial(window.dress, appearance))
        action.setCheckable(True)
        action.setData(appearance)
        group.addAction(action)
        window.look_actions.append(action)
    mark_appearance(window)


def mark_appearance(window: Window) -> None:
    """Tick the appearance that is chosen."""
    for action in window.look_actions:
        action.setChecked(action.data() == theme.appearance)


def _chat(window: Window) -> None:
    menu = window.menuBar().addMenu("&Chat")
    _add(menu, "Chat settings …", window.open_chat_settings, "Ctrl+Shift+,", "Ctrl+<")
    _add(menu, "Rename", window.rename_tab, "F2")
    _add(menu, "Edit last question", lambda: window.page.transcript.edit_last())
    _add(menu, "Stop answering", window.stop, "Ctrl+.")


def _tabs(window: Window) -> None:
    menu = window.menuBar().addMenu("&Window")
    control = "Meta" if MAC else "Ctrl"
    _add(menu, "Next tab", lambda: window.step_tab(1), f"{control}+Tab")
    _add(menu, "Previous tab", lambda: window.step_tab(-1), f"{control}+Shift+Tab", f"{control}+Shift+Backtab")
    menu.addSeparator()
    _add(menu, "Minimize", window.showMinimized, *(["Ctrl+M"] if MAC else []))
    for number in range(1, 10):
        action = QAction(window)
        action.setShortcut(QKeySequence(f"Ctrl+{number}"))
        action.triggered.connect(lambda _=False, number=number: window.show_tab(number))
        window.addAction(action)


def _help(window: Window) -> None:
    menu = window.menuBar().addMenu("&Help")
    _add(menu, "Keyboard shortcuts", lambda: _open_shortcuts(window), "Ctrl+/", "?", "Ctrl+?")
    _add(menu, "Open log folder", _open_logs)
    about = _add(menu, "About Braid", lambda: _open_about(window))
    about.setMenuRole(QAction.MenuRole.AboutRole)


def _open_shortcuts(window: Window) -> None:
    from app.views.shortcuts import Shortcuts

    _raise(window.findChild(Shortcuts) or Shortcuts(window.menuBar(), window))


def _open_about(window: Window) -> None:
    from app.views.about import About

    _raise(window.findChild(About) or About(window.model, window))


def _open_logs() -> None:
    from app.views.about import open_logs

    open_logs()


def _raise(dialog: QDialog) -> None:
    dialog.show()
    dialog.raise_()
    dialog.activateWindow()
