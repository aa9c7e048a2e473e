"""The attachments of a draft as chips that wrap, scroll when there are many, and can be put in another order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QScrollArea, QWidget

from app.views.chip import ChipView
from app.views.flow import Flow
from app.views.theme import scaled

if TYPE_CHECKING:
    from app.state.composer import Composer

_ROWS = 3
_ROW_PX = 64


class ChipRow(QScrollArea):
    """The chips of one draft.

    Signals:
        rearranged: chips came, went or changed places.
    """

    rearranged = Signal()

    def __init__(self, draft: Composer, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._draft = draft
        self.views: dict[str, ChipView] = {}
        self._order: tuple[str, ...] = ()
        self._inner = QWidget(self)
        self._flow = Flow(self._inner)
        self.setAccessibleName("Attachments")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.viewport().setAutoFillBackground(False)
        self.setWidget(self._inner)
        self._inner.setAutoFillBackground(False)
        self.hide()

    def take(self) -> None:
        """Show the chips as they are now."""
        draft, opened = self._draft, self._draft.preview.chip_id
        chips = {chip.id: chip for chip in draft.chips}
        focused = self._focused()
        for gone in set(self.views) - set(chips):
            view = self.views.pop(gone)
            self._flow.removeWidget(view)
            view.hide()
            view.deleteLater()
        for chip in chips.values():
            view = self.views.get(chip.id) or self._add(chip.id)
            facts = draft.facts(chip.attachment) if chip.attachment is not None else ""
            view.show_chip(chip, facts, draft.unfit(chip) or "", opened=chip.id == opened)
        if self._order != tuple(chips):
            self._rearrange(tuple(chips), focused)

    def _focused(self) -> int | None:
        """The place of the chip that has the keyboard."""
        return next((i for i, id in enumerate(self._order) if self.views[id].hasFocus()), None)

    def _add(self, chip_id: str) -> ChipView:
        chip = next(chip for chip in self._draft.chips if chip.id == chip_id)
        view = self.views[chip_id] = ChipView(chip, self._inner)
        view.removed.connect(self._draft.remove)
        view.opened.connect(self._draft.preview.open)
        view.stepped.connect(self._step)
        view.dragged.connect(self._carry)
        view.dropped.connect(lambda _: self._flow.invalidate())
        self._flow.addWidget(view)
        view.show()
        return view

    def _rearrange(self, order: tuple[str, ...], focused: int | None) -> None:
        """Lay the chips out in this order; when the one with the keyboard has gone, its neighbour gets it."""
        had = self._order[focused] if focused is not None else ""
        self._order = order
        self._flow.arrange([self.views[chip_id] for chip_id in order])
        self.setVisible(bool(order))
        self._fit()
        if focused is not None and had not in self.views and order:
            self.views[order[min(focused, len(order) - 1)]].setFocus(Qt.FocusReason.OtherFocusReason)
        self.rearranged.emit()

    def _step(self, chip_id: str, by: int) -> None:
        self._draft.move(chip_id, self._order.index(chip_id) + by)
        self.ensureWidgetVisible(self.views[chip_id])

    def _carry(self, chip_id: str, place: QPoint) -> None:
        """Make room for the carried chip where the pointer is."""
        for to, other in enumerate(self._order):
            if other != chip_id and self.views[other].geometry().contains(place):
                self._draft.move(chip_id, to)
                return

    def _fit(self) -> None:
        """As high as the rows need, up to three."""
        rows = self._flow.heightForWidth(self.viewport().width())
        self.setFixedHeight(min(rows, scaled(_ROW_PX) * _ROWS - 8))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()
