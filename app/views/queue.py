"""Questions that wait for the answer being written, above the composer: each can be changed, moved or taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QScrollArea, QSizePolicy, QVBoxLayout, QWidget

from app.views.buttons import IconButton
from app.views.question_editor import Words
from app.views.theme import SMALL_PX, UI_PX, color, scaled, set_font

if TYPE_CHECKING:
    from app.state.conversation import Conversation, Turn

_ROWS = 4
_ROW_PX = 36
_SHOWN_CHARS = 200


class _Elided(QLabel):
    """One line of plain text, cut to the room there is."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setPen(color("text"))
        text = self.fontMetrics().elidedText(self.text(), Qt.TextElideMode.ElideRight, self.width())
        painter.drawText(self.rect(), Qt.AlignmentFlag.AlignVCenter, text)


class QueueRow(QWidget):
    """One waiting question.

    Signals, each with the turn's id:
        edited: ask in these words.
        moved: one place up (-1) or down (1).
        cancelled: take it back.
    """

    edited = Signal(str, str)
    moved = Signal(str, int)
    cancelled = Signal(str)

    def __init__(self, turn: Turn, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._turn = turn
        self._place = QLabel(self)
        self._place.setObjectName("muted")
        set_font(self._place, SMALL_PX)
        self._label = _Elided(self)
        set_font(self._label, UI_PX)
        self._field: Words | None = None
        self.up = self._button("up", "Move up", lambda: self.moved.emit(turn.id, -1))
        self.down = self._button("down", "Move down", lambda: self.moved.emit(turn.id, 1))
        self.edit = self._button("edit", "Edit", self._edit)
        self.cancel = self._button("close", "Cancel", lambda: self.cancelled.emit(turn.id))
        self._row = row = QHBoxLayout(self)
        row.setContentsMargins(12, 2, 6, 2)
        row.setSpacing(2)
        row.addWidget(self._place)
        row.addSpacing(6)
        row.addWidget(self._label, 1)
        for button in self.stops():
            row.addWidget(button)

    def _button(self, picture: str, name: str, does: object) -> IconButton:
        button = IconButton(picture, name, self)
        button.setIconSize(QSize(14, 14))
        button.clicked.connect(does)
        return button

    def stops(self) -> list[QWidget]:
        """What Tab visits, in order."""
        return [self.up, self.down, self.edit, self.cancel]

    def show_turn(self, turn: Turn, place: int, count: int) -> None:
        """Show it as it is now, in this place of so many, from 0."""
        self._turn = turn
        text = " ".join(turn.text[:_SHOWN_CHARS].split())
        media = len(turn.attachments)
        what = [text] if text else []
        if media:
            what.append(f"{media} attachment{'' if media == 1 else 's'}")
        shown = " · ".join(what)
        self._place.setText(str(place + 1))
        self._label.setText(shown)
        self.setAccessibleName(f"Waiting message {place + 1} of {count}: {shown}")
        for button, does in (
            (self.up, "Move up"),
            (self.down, "Move down"),
            (self.edit, "Edit"),
            (self.cancel, "Cancel"),
        ):
            button.rename(f"{does} waiting message {place + 1}", does)
        self.up.setEnabled(place > 0)
        self.down.setEnabled(place < count - 1)

    def _edit(self) -> None:
        if self._field is not None:
            return
        self._field = field = Words(self)
        field.setAccessibleName("Waiting message in other words")
        field.setPlaceholderText("")
        field.setPlainText(self._turn.text)
        field.moveCursor(field.textCursor().MoveOperation.End)
        self._row.replaceWidget(self._label, field)
        self._label.hide()
        field.submitted.connect(self._save)
        field.left.connect(self._leave)
        field.setFocus()

    def _save(self) -> None:
        text = self._field.toPlainText() if self._field is not None else self._turn.text
        self._leave()
        self.edited.emit(self._turn.id, text)

    def _leave(self) -> None:
        field, self._field = self._field, None
        if field is not None:
            self._row.replaceWidget(field, self._label)
            field.hide()
            field.deleteLater()
            self._label.show()
            self.edit.setFocus()


class QueueView(QFrame):
    """All waiting questions of one chat; hidden while there are none."""

    def __init__(self, chat: Conversation, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._chat = chat
        self.rows: dict[str, QueueRow] = {}
        self._shown: tuple[tuple[str, str], ...] = ()
        title = QLabel("Sent after this answer", self)
        title.setObjectName("section")
        set_font(title, SMALL_PX, strong=True)
        inner = QWidget(self)
        self._column = QVBoxLayout(inner)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(0)
        self._most = _ROWS
        self._area = QScrollArea(self)
        self._area.setAccessibleName("Messages that wait")
        self._area.setFrameShape(QFrame.Shape.NoFrame)
        self._area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._area.setWidgetResizable(True)
        self._area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._area.setWidget(inner)
        inner.setAutoFillBackground(False)
        self._area.viewport().setAutoFillBackground(False)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 8, 0, 4)
        column.setSpacing(4)
        row = QHBoxLayout()
        row.setContentsMargins(12, 0, 12, 0)
        row.addWidget(title)
        column.addLayout(row)
        column.addWidget(self._area)
        for signal in (chat.turn_added, chat.turn_changed, chat.turn_removed):
            signal.connect(self._look)
        chat.branch_changed.connect(self._look)
        chat.queue.changed.connect(self._look)
        self.hide()
        self._look()

    def stops(self) -> list[QWidget]:
        """What Tab visits, in order."""
        return [stop for row in self.rows.values() for stop in row.stops()]

    def _look(self, _: str = "") -> None:
        """Show the queue as it is; cheap while nothing changed, as every token of an answer leads here."""
        waiting = self._chat.queue.waiting
        shown = tuple((turn.id, turn.text) for turn in waiting)
        if shown != self._shown:
            self._shown = shown
            self._show(waiting)

    def _show(self, waiting: tuple[Turn, ...]) -> None:
        for gone in set(self.rows) - {turn.id for turn in waiting}:
            row = self.rows.pop(gone)
            row.hide()
            row.deleteLater()
        for place, turn in enumerate(waiting):
            row = self.rows.get(turn.id) or self._add(turn)
            self._column.insertWidget(place, row)
            row.show_turn(turn, place, len(waiting))
        self.rows = {turn.id: self.rows[turn.id] for turn in waiting}
        self._fit()
        self.setVisible(bool(waiting))

    def limit(self, rows: int) -> None:
        """Show no more than so many rows at once; the rest is scrolled to."""
        self._most = rows
        self._fit()

    def _fit(self) -> None:
        shown = list(self.rows.values())[: self._most]
        self._area.setFixedHeight(sum(max(row.sizeHint().height(), scaled(_ROW_PX)) for row in shown))

    def _add(self, turn: Turn) -> QueueRow:
        row = self.rows[turn.id] = QueueRow(turn, self)
        row.edited.connect(self._chat.queue.edit)
        row.cancelled.connect(self._chat.queue.cancel)
        row.moved.connect(self._move)
        return row

    def _move(self, turn_id: str, by: int) -> None:
        self._chat.queue.move(turn_id, list(self.rows).index(turn_id) + by)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(color("line"))
        painter.setBrush(color("side"))
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 10, 10)
