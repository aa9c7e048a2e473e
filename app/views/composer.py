"""Where a turn is written: a text field that grows, attachments as chips, one button that sends or stops."""

from __future__ import annotations

import itertools
import sys
from typing import TYPE_CHECKING

from PySide6.QtCore import QSignalBlocker, Signal
from PySide6.QtGui import QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app.views import drop
from app.views.buttons import IconButton
from app.views.chip_row import ChipRow
from app.views.cost import CostLabel
from app.views.field import Field, paint_outline
from app.views.notice import Notice, ObstacleBar
from app.views.queue import QueueView
from app.views.theme import COLUMN_PX, scaled, set_font

if TYPE_CHECKING:
    from app.state.conversation import Conversation
    from app.state.model import Model
    from app.views.closer import Closer


_HIGH_PX, _LOW_PX = 680, 500
"""Heights of a page, at the usual text size, from which there is room for everything, and below which for little."""
STOP_KEYS = "⌘." if sys.platform == "darwin" else "Ctrl+."


class Card(QWidget):
    """The outlined surface of the composer; its outline is the field's focus ring."""

    def __init__(self, field: Field, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._field = field
        field.focused.connect(self.update)

    def paintEvent(self, event: QPaintEvent) -> None:
        paint_outline(self, self._field)


class ComposerView(QWidget):
    """The draft of one conversation.

    Signals:
        pick: the person wants to choose files.
        shoot: the person wants to take a screenshot.
    """

    pick = Signal()
    shoot = Signal()

    def __init__(self, conversation: Conversation, model: Model, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._chat, self._draft, self._model = conversation, conversation.composer, model
        self.field = Field(self)
        self.notice = Notice(self)
        self.queue = QueueView(conversation, self)
        self.obstacle = ObstacleBar(self)
        self._closer: Closer | None = None
        self._room = 2
        self._lay_out()
        self._connect()
        self._take()
        self._order_focus()

    @property
    def closer(self) -> Closer:
        """The closer look at an attachment; made when it is first wanted."""
        if self._closer is None:
            from app.views.closer import Closer

            self._closer = Closer(self._draft, self._card)
            self._inside.insertWidget(1, self._closer)
            self._order_focus()
        return self._closer

    def _lay_out(self) -> None:
        self._card = card = Card(self.field, self)
        self.chips = ChipRow(self._draft, card)
        self._attach = IconButton("attach", "Add files", card)
        self._shot = IconButton("camera", "Take a screenshot", card)
        self._cost = CostLabel(card)
        self._send = IconButton("send", "Send", card, role="on_accent")
        self._send.setObjectName("send")
        self._hint = QLabel(card)
        self._hint.setObjectName("muted")
        set_font(self._hint, 12)
        below = QHBoxLayout()
        below.setSpacing(8)
        for part in (self._attach, self._shot, self._hint):
            below.addWidget(part)
        below.addStretch(1)
        below.addWidget(self._cost)
        below.addWidget(self._send)
        self._inside = inside = QVBoxLayout(card)
        inside.setContentsMargins(12, 10, 10, 10)
        inside.setSpacing(8)
        for widget in (self.chips, self.obstacle, self.field):
            inside.addWidget(widget)
        inside.addLayout(below)
        self._stand([self.queue, self.notice, card])

    def _stand(self, parts: list[QWidget]) -> None:
        """Put the parts one above the other, in line with the transcript."""
        column = QVBoxLayout()
        column.setSpacing(8)
        for part in parts:
            column.addWidget(part)
        middle = QWidget(self)
        middle.setLayout(column)
        column.setContentsMargins(0, 0, 0, 0)
        middle.setMaximumWidth(COLUMN_PX)
        outside = QHBoxLayout(self)
        outside.setContentsMargins(24, 4, 24, 16)
        outside.addWidget(middle)

    def _order_focus(self) -> None:
        """Let Tab visit the composer from top to bottom."""
        chips = [stop for view in self.chips.views.values() for stop in (view, view.remove)]
        closer = self._closer.stops() if self._closer is not None else []
        ways_out = [self.obstacle.accept_button, self.obstacle.remove_button]
        last = [self.field, self._attach, self._shot, self._send]
        stops = [*self.queue.stops(), self.notice.close_button, *chips, *closer, *ways_out, *last]
        for before, after in itertools.pairwise(stops):
            QWidget.setTabOrder(before, after)

    def _connect(self) -> None:
        self.field.textChanged.connect(lambda: self._draft.set_text(self.field.toPlainText()))
        self.field.submitted.connect(self._submit)
        self.field.brought.connect(lambda found: drop.put(found, self._draft))
        self._send.clicked.connect(self._press)
        self._attach.clicked.connect(self.pick)
        self._shot.clicked.connect(self.shoot)
        self._draft.changed.connect(self._take)
        self._draft.preview.changed.connect(self._show_chips)
        self._draft.notice.connect(self.notice.say)
        self.chips.rearranged.connect(self._order_focus)
        self.obstacle.removed.connect(self._remove_obstacle)
        self.obstacle.accepted.connect(self._accept_obstacle)
        self._chat.activity_changed.connect(self._show_button)
        self._model.changed.connect(self._show_button)

    def fit(self, page_px: int) -> None:
        """Show more or less of what is attached, written and queued at once, for a page of this height."""
        self._room = sum(page_px >= scaled(px) for px in (_LOW_PX, _HIGH_PX))
        self.chips.limit((1, 2, 3)[self._room])
        self.field.limit((4, 5, 8)[self._room])
        self._limit_queue()

    def _limit_queue(self) -> None:
        self.queue.limit(1 if self._draft.preview.chip_id else (1, 2, 4)[self._room])

    def insert(self, text: str) -> None:
        """Put text where the cursor is."""
        self.field.insertPlainText(text)
        self.field.setFocus()

    def _take(self) -> None:
        """Show the draft as it is now; an echo of typing leaves the field alone."""
        if self.field.toPlainText() != self._draft.text:
            with QSignalBlocker(self.field):
                self.field.setPlainText(self._draft.text)
                self.field.moveCursor(self.field.textCursor().MoveOperation.End)
        self._show_chips()
        self.obstacle.show_obstacle(self._draft.obstacle)
        self._cost.show_cost(self._draft.cost)
        self._show_button()

    def _show_chips(self) -> None:
        self.chips.take()
        if self._draft.preview.chip_id or self._closer is not None:
            self.closer.take()
            self._limit_queue()

    def _stops(self) -> bool:
        """Whether the button stops: an answer is coming and there is nothing to send."""
        return self._chat.phase is not None and not self._draft.text.strip() and not self._draft.chips

    def _show_button(self) -> None:
        stops, can_send = self._stops(), self._draft.can_send
        self._send.picture("stop" if stops else "send", "on_accent" if stops or can_send else "muted")
        name = "Stop" if stops else "Send"
        if self._send.accessibleName() != name:
            self._send.rename(name, f"Stop ({STOP_KEYS})" if stops else "Send (Enter)")
        self._send.setEnabled(stops or can_send)
        hint = self._advice(can_send=can_send)
        if hint != self._hint.text():
            self._hint.setText(hint)

    def _advice(self, *, can_send: bool) -> str:
        reading = sum(chip.state == "reading" for chip in self._draft.chips)
        if reading:
            return f"Reading {reading} file{'' if reading == 1 else 's'} …"
        if self._chat.phase is not None:
            return "Enter queues the next message" if can_send else f"{STOP_KEYS} stops"
        return "Shift+Enter starts a new line" if self._draft.text else ""

    def _remove_obstacle(self) -> None:
        found = self._draft.obstacle
        if found is not None:
            self._draft.remove(*found.remove)
        self.field.setFocus()

    def _accept_obstacle(self) -> None:
        found = self._draft.obstacle
        if found is not None and found.damaged:
            self._draft.take_damaged(found.damaged)
        elif found is not None:
            self._draft.take_stills(*found.stills)
        self.field.setFocus()

    def _submit(self) -> None:
        if self._draft.can_send:
            self._draft.send()

    def _press(self) -> None:
        if self._stops():
            self._chat.stop()
        else:
            self._submit()
        self.field.setFocus()
