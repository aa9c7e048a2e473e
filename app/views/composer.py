"""Where a turn is written: a text field that grows, attachments as chips, one button that sends or stops."""

from __future__ import annotations

import itertools
import sys
from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF, QSignalBlocker, Signal
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app.views import drop
from app.views.buttons import IconButton
from app.views.chip import ChipView
from app.views.field import Field
from app.views.flow import Flow
from app.views.theme import COLUMN_PX, color, set_font

if TYPE_CHECKING:
    from app.state.conversation import Conversation
    from app.state.model import Model


STOP_KEYS = "⌘." if sys.platform == "darwin" else "Ctrl+."


class Notice(QWidget):
    """One sentence above the field, until it is dismissed or a newer one comes."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._label = QLabel(self)
        self._label.setObjectName("warning")
        self._label.setWordWrap(True)
        self.close_button = IconButton("close", "Dismiss", self)
        self.close_button.clicked.connect(self.hide)
        row = QHBoxLayout(self)
        row.setContentsMargins(12, 6, 8, 6)
        row.addWidget(self._label, 1)
        row.addWidget(self.close_button)
        self.hide()

    def say(self, text: str) -> None:
        """Show a sentence."""
        self._label.setText(text)
        self.setAccessibleName(text)
        self.show()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(color("warning", 0.4))
        painter.setBrush(color("warning_surface"))
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 8, 8)


class Card(QWidget):
    """The outlined surface of the composer; its outline is the field's focus ring."""

    def __init__(self, field: Field, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._field = field
        field.focused.connect(self.update)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        lit = self._field.hasFocus()
        painter.setPen(QPen(color("accent" if lit else "control_line"), 1.5 if lit else 1))
        painter.setBrush(color("raised"))
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), 12, 12)


class ComposerView(QWidget):
    """The draft of one conversation.

    Signals:
        pick: the person wants to choose files.
    """

    pick = Signal()

    def __init__(self, conversation: Conversation, model: Model, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._chat, self._draft, self._model = conversation, conversation.composer, model
        self._chips: dict[str, ChipView] = {}
        self.field = Field(self)
        self.notice = Notice(self)
        self._lay_out()
        self._connect()
        self._take()

    def _lay_out(self) -> None:
        card = Card(self.field, self)
        self._row = QWidget(card)
        self._flow = Flow(self._row)
        self._attach = IconButton("attach", "Add pictures", card)
        self._send = IconButton("send", "Send", card, role="on_accent")
        self._send.setObjectName("send")
        self._hint = QLabel(card)
        self._hint.setObjectName("muted")
        set_font(self._hint, 12)
        below = QHBoxLayout()
        below.setSpacing(8)
        for part in (self._attach, self._hint):
            below.addWidget(part)
        below.addStretch(1)
        below.addWidget(self._send)
        inside = QVBoxLayout(card)
        inside.setContentsMargins(12, 10, 10, 10)
        inside.setSpacing(8)
        inside.addWidget(self._row)
        inside.addWidget(self.field)
        inside.addLayout(below)
        column = QVBoxLayout()
        column.setSpacing(8)
        column.addWidget(self.notice)
        column.addWidget(card)
        middle = QWidget(self)
        middle.setLayout(column)
        column.setContentsMargins(0, 0, 0, 0)
        middle.setMaximumWidth(COLUMN_PX)
        outside = QHBoxLayout(self)
        outside.setContentsMargins(24, 4, 24, 16)
        outside.addWidget(middle)
        self._order_focus()

    def _order_focus(self) -> None:
        """Let Tab visit the composer from top to bottom."""
        chips = [view.remove for view in self._chips.values()]
        stops: list[QWidget] = [self.notice.close_button, *chips, self.field, self._attach, self._send]
        for before, after in itertools.pairwise(stops):
            QWidget.setTabOrder(before, after)

    def _connect(self) -> None:
        self.field.textChanged.connect(lambda: self._draft.set_text(self.field.toPlainText()))
        self.field.submitted.connect(self._submit)
        self.field.brought.connect(lambda found: drop.put(found, self._draft))
        self._send.clicked.connect(self._press)
        self._attach.clicked.connect(self.pick)
        self._draft.changed.connect(self._take)
        self._draft.notice.connect(self.notice.say)
        self._chat.activity_changed.connect(self._show_button)
        self._model.changed.connect(self._show_button)

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
        self._show_button()

    def _show_chips(self) -> None:
        chips = {chip.id: chip for chip in self._draft.chips}
        for gone in set(self._chips) - set(chips):
            view = self._chips.pop(gone)
            view.hide()
            view.deleteLater()
        for chip in chips.values():
            if chip.id in self._chips:
                if chip.error and not self._chips[chip.id].failed:
                    self.notice.say(chip.error)
                self._chips[chip.id].show_chip(chip)
            else:
                view = self._chips[chip.id] = ChipView(chip, self._row)
                view.removed.connect(self._draft.remove)
                self._flow.addWidget(view)
                self._order_focus()
        self._row.setVisible(bool(chips))

    def _stops(self) -> bool:
        """Whether the button stops: an answer is coming and there is nothing to send."""
        return self._chat.phase is not None and not self._draft.text.strip() and not self._draft.chips

    def _show_button(self) -> None:
        stops = self._stops()
        self._send.picture("stop" if stops else "send", "on_accent" if stops or self._draft.can_send else "muted")
        name = "Stop" if stops else "Send"
        if self._send.accessibleName() != name:
            self._send.rename(name, f"Stop ({STOP_KEYS})" if stops else "Send (Enter)")
        self._send.setEnabled(stops or self._draft.can_send)
        hint = self._advice()
        if hint != self._hint.text():
            self._hint.setText(hint)

    def _advice(self) -> str:
        reading = sum(chip.state == "reading" for chip in self._draft.chips)
        if reading:
            return f"Reading {reading} picture{'' if reading == 1 else 's'} …"
        if self._draft.chips and self._model.status == "ready" and not self._model.takes_images:
            return f"{self._model.name} cannot see pictures"
        if self._chat.phase is not None:
            return "Enter queues the next message" if self._draft.can_send else f"{STOP_KEYS} stops"
        return "Shift+Enter starts a new line" if self._draft.text else ""

    def _submit(self) -> None:
        if self._draft.can_send:
            self._draft.send()

    def _press(self) -> None:
        if self._stops():
            self._chat.stop()
        else:
            self._submit()
        self.field.setFocus()
