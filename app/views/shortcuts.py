"""All keys on one sheet: those of the menus as they are, and those that no menu shows."""

from __future__ import annotations

from collections.abc import Iterator

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import (
    QDialog,
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QMenu,
    QMenuBar,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from app.views.theme import set_font

Keys = tuple[tuple[str, tuple[str, ...]], ...]
_WRITING: Keys = (
    ("Send", ("Return",)),
    ("New line", ("Shift+Return",)),
    ("Edit the last question, in an empty field", ("Up",)),
    ("Scroll the conversation", ("PgUp", "PgDown")),
    ("Close what is open", ("Esc",)),
)
_PICTURES: Keys = (
    ("Next and previous", ("Right", "Left")),
    ("Zoom", ("+", "-")),
    ("Fit the window, actual size", ("0", "1")),
    ("Copy, save", ("Ctrl+C", "Ctrl+S")),
)
_PLACES = "First to last tab"
_TWINS = ("Backtab", "|", "<")


class Shortcuts(QDialog):
    """The sheet; it stays beside the window until it is closed."""

    def __init__(self, bar: QMenuBar, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Keyboard shortcuts")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.groups = groups(bar)
        sheet = QWidget(self)
        columns = QHBoxLayout(sheet)
        columns.setContentsMargins(24, 16, 24, 24)
        columns.setSpacing(40)
        for half in _halves(self.groups):
            column = QVBoxLayout()
            column.setSpacing(8)
            for title, keys in half:
                column.addWidget(_title(title, sheet))
                column.addLayout(_grid(keys, sheet))
                column.addSpacing(8)
            column.addStretch(1)
            columns.addLayout(column, 1)
        area = QScrollArea(self)
        area.setAccessibleName("Keyboard shortcuts")
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setWidgetResizable(True)
        area.setWidget(sheet)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(area)
        self.resize(sheet.sizeHint().width() + 16, min(sheet.sizeHint().height() + 2, 640))


def groups(bar: QMenuBar) -> list[tuple[str, Keys]]:
    """Title and keys of each group, such as ("File", (("New chat", ("Ctrl+N", "Ctrl+T")), …))."""
    found = [("Writing", _WRITING)]
    for action in bar.actions():
        menu = action.menu()
        keys = tuple(_of(menu)) if isinstance(menu, QMenu) else ()
        if action.text().replace("&", "") == "Window":
            keys = (*keys, (_PLACES, ("Ctrl+1", "Ctrl+9")))
        if keys:
            found.append((action.text().replace("&", ""), keys))
    return [*found, ("A picture in full size", _PICTURES)]


def _of(menu: QMenu) -> Iterator[tuple[str, tuple[str, ...]]]:
    for action in menu.actions():
        inner = action.menu()
        if isinstance(inner, QMenu):
            yield from _of(inner)
        elif keys := _keys(action):
            yield action.text().removesuffix(" …"), keys


def _keys(action: QAction) -> tuple[str, ...]:
    """At most two, without those that are there for keyboards which send another sign."""
    found = (key.toString(QKeySequence.SequenceFormat.PortableText) for key in action.shortcuts())
    return tuple(key for key in found if key and not key.endswith(_TWINS))[:2]


def _halves(found: list[tuple[str, Keys]]) -> tuple[list[tuple[str, Keys]], list[tuple[str, Keys]]]:
    """Two columns of about the same length."""
    rows = [len(keys) + 2 for _, keys in found]
    cut = min(range(len(found) + 1), key=lambda at: abs(sum(rows[:at]) - sum(rows[at:])))
    return found[:cut], found[cut:]


def _title(text: str, parent: QWidget) -> QLabel:
    label = QLabel(text, parent)
    label.setObjectName("section")
    set_font(label, strong=True)
    return label


def _grid(keys: Keys, parent: QWidget) -> QGridLayout:
    grid = QGridLayout()
    grid.setHorizontalSpacing(16)
    grid.setVerticalSpacing(6)
    grid.setColumnStretch(0, 1)
    for row, (text, chords) in enumerate(keys):
        grid.addWidget(QLabel(text, parent), row, 0)
        caps = QHBoxLayout()
        caps.setSpacing(4)
        caps.addStretch(1)
        for chord in chords:
            caps.addWidget(_cap(chord, parent))
        grid.addLayout(caps, row, 1)
    return grid


def _cap(chord: str, parent: QWidget) -> QLabel:
    label = QLabel(QKeySequence(chord).toString(QKeySequence.SequenceFormat.NativeText), parent)
    label.setObjectName("key")
    label.setAlignment(Qt.AlignmentFlag.AlignCenter)
    return label
