"""The attachments of a draft as chips that wrap, scroll when there are many, and can be put in another order."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QScrollArea, QWidget

from app.views.flow import Flow
from app.views.pace import SLICE_S
from app.views.theme import scaled

if TYPE_CHECKING:
    from app.state.composer import Chip, Composer
    from app.views.chip import ChipView

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
        self._rows = _ROWS
        self._order: tuple[str, ...] = ()
        self._shown: dict[str, Chip] = {}
        self._model: tuple[object, ...] = ()
        self._later = QTimer(self, singleShot=True, interval=0)
        self._later.timeout.connect(self.take)
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
        """Show the chips as they are now; of many new ones, some in a moment."""
        draft = self._draft
        chips = {chip.id: chip for chip in draft.chips}
        focused = self._focused()
        for gone in set(self.views) - set(chips):
            view = self.views.pop(gone)
            self._shown.pop(gone, None)
            self._flow.removeWidget(view)
            view.hide()
            view.deleteLater()
        model = draft.situation
        if model != self._model:
            self._model, self._shown = model, {}
        if not self._later.isActive():  # else the next slice is on its way
            self._build(chips)
        order = tuple(chip_id for chip_id in chips if chip_id in self.views)
        if self._order != order:
            self._rearrange(order, focused)
        elif self._order:
            self._fit()

    def _build(self, chips: dict[str, Chip]) -> None:
        """Make and refresh views for a while; chips that did not change cost nothing."""
        until = time.perf_counter() + SLICE_S
        for chip in chips.values():
            if self._shown.get(chip.id) is chip:
                continue
            if time.perf_counter() > until:
                self._later.start()
                break
            self._show(chip)
        opened = self._draft.preview.chip_id
        for chip_id, view in self.views.items():
            view.mark(opened=chip_id == opened)

    def _show(self, chip: Chip) -> None:
        view = self.views.get(chip.id) or self._add(chip)
        facts = self._draft.facts(chip.attachment) if chip.attachment is not None else ""
        view.show_chip(chip, facts, self._draft.unfit(chip) or "")
        self._shown[chip.id] = chip

    def _focused(self) -> int | None:
        """The place of the chip that has the keyboard."""
        return next((i for i, id in enumerate(self._order) if self.views[id].hasFocus()), None)

    def _add(self, chip: Chip) -> ChipView:
        from app.views.chip import ChipView

        view = self.views[chip.id] = ChipView(chip, self._inner)
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
        if not self._later.isActive():
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

    def limit(self, rows: int) -> None:
        """Show no more than so many rows at once; the rest is scrolled to."""
        self._rows = rows
        self._fit()

    def _fit(self) -> None:
        """As high as the rows need, up to the most that are shown; one fewer where a closer look needs the room."""
        most = max(1, self._rows - bool(self._draft.preview.chip_id))
        rows = self._flow.heightForWidth(self.viewport().width())
        self.setFixedHeight(min(rows, scaled(_ROW_PX) * most - 8))
        if self._draft.preview.chip_id in self.views:
            self.ensureWidgetVisible(self.views[self._draft.preview.chip_id], 0, 0)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()
