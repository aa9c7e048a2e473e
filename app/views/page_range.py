"""Which pages of a document are sent, and how they look."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QSignalBlocker
from PySide6.QtWidgets import QSpinBox, QWidget

from app.state.attachment import MAX_PAGES, Attachment, Excerpt
from app.views.part import PartView
from app.views.stills import Stills

if TYPE_CHECKING:
    from app.state.preview import Look

_PAGE_PX = 96


class PageRange(PartView):
    """The pages of one document."""

    def __init__(self, parent: QWidget | None = None) -> None:
        self.first, self.last = QSpinBox(), QSpinBox()
        fields = (("Pages", "First page", self.first), ("to", "Last page", self.last))
        super().__init__(fields, Stills("Pages that are sent", _PAGE_PX), parent)
        self._pages = 1

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
