"""Which pages of a document are sent, and how they look."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSpinBox, QVBoxLayout, QWidget

from app.state.attachment import MAX_PAGES, Attachment, Excerpt
from app.views.stills import Stills
from app.views.theme import set_font

if TYPE_CHECKING:
    from app.state.preview import Look

_PAGE_PX = 96


class PageRange(QWidget):
    """The pages of one document.

    Signals:
        chosen: other pages are wanted.
    """

    chosen = Signal(Excerpt)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.first, self.last = QSpinBox(self), QSpinBox(self)
        self.strip = Stills("Pages that are sent", _PAGE_PX, self)
        self._note = QLabel(self)
        self._note.setObjectName("muted")
        set_font(self._note, 12)
        self._pages = 1
        row = QHBoxLayout()
        row.setSpacing(8)
        for word, box, name in (("Pages", self.first, "First page"), ("to", self.last, "Last page")):
            label = QLabel(word, self)
            label.setObjectName("muted")
            box.setAccessibleName(name)
            box.setAlignment(Qt.AlignmentFlag.AlignCenter)
            box.setKeyboardTracking(False)
            box.valueChanged.connect(self._choose)
            row.addWidget(label)
            row.addWidget(box)
        row.addStretch(1)
        row.addWidget(self._note)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(8)
        column.addLayout(row)
        column.addWidget(self.strip)

    def stops(self) -> list[QWidget]:
        """What Tab visits, in order."""
        return [self.first, self.last, self.strip]

    def show_document(self, item: Attachment, look: Look | None) -> None:
        """Show what is chosen of a document, and its pages once they are drawn."""
        self._pages = item.pages
        for box, value in ((self.first, item.excerpt.first or 1), (self.last, item.excerpt.last or item.pages)):
            with QSignalBlocker(box):
                box.setRange(1, item.pages)
                box.setValue(value)
        if look is not None:
            self.strip.show_stills(look.stills)
        reading = "Reading …" if look is None and not self.strip.labels else ""
        limit = f"At most {MAX_PAGES} pages at a time" if item.pages > MAX_PAGES else f"of {item.pages}"
        self._note.setText((look.error if look is not None else "") or reading or limit)

    def _choose(self) -> None:
        """Keep the range in order and short enough; the end that was not touched gives way."""
        first, last = self.first.value(), self.last.value()
        if self.sender() is self.last:
            first = min(max(first, last - MAX_PAGES + 1), last)
        else:
            last = max(min(last, first + MAX_PAGES - 1), first)
        whole = (first, last) == (1, self._pages)
        self.chosen.emit(Excerpt() if whole else Excerpt(first=first, last=last))
