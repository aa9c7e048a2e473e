"""The settings: pages at the left, rows at the right; every change is in force at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import (
    QDialog,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QScrollArea,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from app.state.options import PAGES, Option, of_page, options
from app.views.icons import icon
from app.views.settings_controls import flat
from app.views.settings_row import Row
from app.views.theme import scaled, set_font, theme

if TYPE_CHECKING:
    from app.state.preferences import Preferences
    from app.state.words import Page

_SIDE_PX = 184
_SIZE, _LEAST = (840, 600), (760, 400)
_ROWS_AT_ONCE = 2


class PageView(QScrollArea):
    """One page of rows; it is built when it is first shown."""

    def __init__(self, page: Page, preferences: Preferences, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.page, self._preferences = page, preferences
        self.rows: list[Row] = []
        self._sought = ""
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setAccessibleName(f"{page} settings")
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.viewport().setAutoFillBackground(False)

    def build(self) -> None:
        """Make the rows, once, a few in each turn of the loop."""
        if self.widget() is not None:
            return
        inside = QWidget(self)
        self._column = QVBoxLayout(inside)
        self._column.setContentsMargins(24, 16, 16, 24)
        self._column.setSpacing(0)
        self._column.addLayout(self._head(inside))
        self._column.addStretch(1)
        self.setWidget(inside)
        inside.setAutoFillBackground(False)
        self._coming = list(of_page(self.page))
        self._grow()

    def _grow(self) -> None:
        for option in self._coming[:_ROWS_AT_ONCE]:
            row = Row(option, self._preferences, self.widget())
            self.rows.append(row)
            self._column.insertWidget(self._column.count() - 1, row)
            row.setVisible(matches(option, self._sought))
        del self._coming[:_ROWS_AT_ONCE]
        if self._coming:
            QTimer.singleShot(0, self, self._grow)

    def _head(self, inside: QWidget) -> QHBoxLayout:
        title = QLabel(self.page, inside)
        set_font(title, 17, strong=True)
        reset = flat("Reset page", f"Reset all {self.page} settings", inside)
        reset.setObjectName("link")
        reset.clicked.connect(lambda: self._preferences.reset_page(self.page))
        head = QHBoxLayout()
        head.setContentsMargins(20, 0, 0, 8)
        head.addWidget(title, 1)
        head.addWidget(reset)
        return head

    def seek(self, sought: str) -> None:
        """Show only the rows that speak of it."""
        self._sought = sought
        for row in self.rows:
            row.setVisible(matches(row.option, sought))

    def refresh(self, key: str | None = None) -> None:
        """Show one option, or all of them, as they are now."""
        for row in self.rows:
            if key in (None, row.option.key):
                row.refresh()


class SettingsDialog(QDialog):
    """All settings; it stays open beside the window."""

    def __init__(self, preferences: Preferences, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._preferences = preferences
        self.setWindowTitle("Settings")
        self.setModal(False)
        self.search = QLineEdit(self)
        self.search.setAccessibleName("Search settings")
        self.search.setPlaceholderText("Search")
        self.search.setClearButtonEnabled(True)
        self._sign = self.search.addAction(icon("search"), QLineEdit.ActionPosition.LeadingPosition)
        self.list = QListWidget(self)
        self.list.setObjectName("pages")
        self.list.setAccessibleName("Pages of settings")
        self.list.setFrameShape(QListWidget.Shape.NoFrame)
        self.pages = {page: PageView(page, preferences, self) for page in PAGES}
        self._stack = QStackedWidget(self)
        self._nothing = QLabel(self)
        self._later = QLabel(self)
        self._again = flat("Load again now", "Load the model again now; answers that are being written end", self)
        self._lay_out()
        self._connect()
        self._redress()
        self.resize(scaled(_SIZE[0]), scaled(_SIZE[1]))
        self.list.setCurrentRow(0)

    def _lay_out(self) -> None:
        side = QWidget(self)
        side.setObjectName("sidebar")
        side.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        side.setFixedWidth(scaled(_SIDE_PX))
        self._side = side
        left = QVBoxLayout(side)
        left.setContentsMargins(8, 12, 8, 8)
        left.setSpacing(8)
        left.addWidget(self.search)
        left.addWidget(self.list, 1)
        for page, view in self.pages.items():
            QListWidgetItem(page, self.list)
            self._stack.addWidget(view)
        self._nothing.setObjectName("muted")
        self._nothing.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._stack.addWidget(self._nothing)
        self._later.setObjectName("warning")
        self._later.setWordWrap(True)
        set_font(self._later, 12)
        self._again.setObjectName("link")
        self._again.setToolTip("Answers that are being written end")
        foot = QHBoxLayout()
        foot.setContentsMargins(44, 8, 16, 8)
        foot.addWidget(self._later, 1)
        foot.addWidget(self._again)
        right = QVBoxLayout()
        right.setSpacing(0)
        right.addWidget(self._stack, 1)
        right.addLayout(foot)
        whole = QHBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.setSpacing(0)
        whole.addWidget(side)
        whole.addLayout(right, 1)

    def _connect(self) -> None:
        self.list.currentRowChanged.connect(self._show_page)
        self.search.textChanged.connect(self._seek)
        self._preferences.changed.connect(self._take)
        self._preferences.model.changed.connect(self._model_changed)
        self._again.clicked.connect(self._preferences.model.reload)
        theme.changed.connect(self._redress)
        self._state: tuple[bool, frozenset[str]] = (False, frozenset())

    def show_page(self, page: Page) -> None:
        """Turn to a page."""
        self.search.clear()
        self.list.setCurrentRow(PAGES.index(page))

    def _show_page(self, row: int) -> None:
        view = self.pages[PAGES[row]]
        view.build()
        self._stack.setCurrentWidget(view)

    def _seek(self, sought: str) -> None:
        """Keep only what speaks of it, and turn to the first page that has any."""
        found = []
        for index, (page, view) in enumerate(self.pages.items()):
            view.seek(sought)
            hit = any(matches(option, sought) for option in of_page(page))
            self.list.item(index).setHidden(not hit)
            if hit:
                found.append(index)
        if not found:
            self._nothing.setText(f"No setting is about “{sought.strip()}”")
            self._stack.setCurrentWidget(self._nothing)
        else:
            row = self.list.currentRow()
            self.list.setCurrentRow(row if row in found else found[0])
            self._show_page(self.list.currentRow())

    def _take(self, key: str) -> None:
        for view in self.pages.values():
            view.refresh(key)
        self._tell_later()

    def _model_changed(self) -> None:
        """A model came or went: other values are derived, other fields can change at once, nothing waits."""
        model = self._preferences.model
        state = (model.scheduler is not None, model.pending)
        if state != self._state and self.isVisible():
            self._state = state
            self._refresh()

    def _refresh(self) -> None:
        for view in self.pages.values():
            view.refresh()
        self._tell_later()

    def _tell_later(self) -> None:
        names = [option.label for option in options().values() if self._preferences.waits(option.key)]
        self._later.setText(f"These take effect when a model is loaded again: {', '.join(names)}.")
        self._later.setVisible(bool(names))
        self._again.setVisible(bool(names))

    def _redress(self) -> None:
        self.setMinimumSize(scaled(_LEAST[0]), _LEAST[1])
        self._sign.setIcon(icon("search"))
        self._side.setFixedWidth(scaled(_SIDE_PX))
        self._tell_later()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._refresh()


def matches(option: Option, sought: str) -> bool:
    """Whether an option speaks of all the words."""
    choices = " ".join(name for _, name in option.choices)
    told = f"{option.page} {option.label} {option.help} {choices} {option.key}".lower()
    return all(word in told for word in sought.lower().split())
