"""A layout that sets its items in rows from one side and wraps them, as words in a paragraph."""

from __future__ import annotations

from PySide6.QtCore import QPoint, QRect, QSize, Qt
from PySide6.QtWidgets import QLayout, QLayoutItem, QWidget


class Flow(QLayout):
    """Rows of items in their preferred size; ``right`` lines the rows up at the right edge."""

    def __init__(self, parent: QWidget | None = None, *, gap: int = 8, right: bool = False) -> None:
        super().__init__(parent)
        self._items: list[QLayoutItem] = []
        self._right = right
        self.setSpacing(gap)
        self.setContentsMargins(0, 0, 0, 0)

    def addItem(self, item: QLayoutItem) -> None:
        self._items.append(item)

    def count(self) -> int:
        return len(self._items)

    def itemAt(self, index: int) -> QLayoutItem | None:
        return self._items[index] if 0 <= index < len(self._items) else None

    def takeAt(self, index: int) -> QLayoutItem | None:
        return self._items.pop(index) if 0 <= index < len(self._items) else None

    def arrange(self, widgets: list[QWidget]) -> None:
        """Put the items in the order of their widgets."""
        places = {id(widget): place for place, widget in enumerate(widgets)}
        self._items.sort(key=lambda item: places.get(id(item.widget()), len(places)))
        self.invalidate()

    def expandingDirections(self) -> Qt.Orientation:
        return Qt.Orientation(0)

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        return self._arrange(QRect(0, 0, width, 0), move=False)

    def sizeHint(self) -> QSize:
        return self.minimumSize()

    def minimumSize(self) -> QSize:
        size = QSize()
        for item in self._items:
            size = size.expandedTo(item.minimumSize())
        return size

    def setGeometry(self, rect: QRect) -> None:
        super().setGeometry(rect)
        self._arrange(rect, move=True)

    def _arrange(self, rect: QRect, *, move: bool) -> int:
        top = rect.top()
        for row in self._rows(rect.width()):
            height = max(item.sizeHint().height() for item in row)
            if move:
                self._place(row, rect, top)
            top += height + self.spacing()
        return max(0, top - rect.top() - self.spacing())

    def _rows(self, width: int) -> list[list[QLayoutItem]]:
        rows: list[list[QLayoutItem]] = []
        left = 0
        for item in self._items:
            if item.isEmpty():
                continue
            wide = item.sizeHint().width()
            if not rows or left + wide > width:
                rows.append([])
                left = 0
            rows[-1].append(item)
            left += wide + self.spacing()
        return rows

    def _place(self, row: list[QLayoutItem], rect: QRect, top: int) -> None:
        wide = sum(item.sizeHint().width() for item in row) + self.spacing() * (len(row) - 1)
        left = rect.right() + 1 - wide if self._right else rect.left()
        for item in row:
            item.setGeometry(QRect(QPoint(left, top), item.sizeHint()))
            left += item.sizeHint().width() + self.spacing()
