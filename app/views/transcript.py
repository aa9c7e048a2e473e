"""The conversation as it is read: messages, the growing answer, and a view that follows it until told otherwise."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QHideEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QFrame, QScrollArea, QVBoxLayout, QWidget

from app.views.buttons import IconButton
from app.views.code import Block, highlighter
from app.views.empty import Empty
from app.views.latex import Formula, typesetter
from app.views.pace import SLICE_S
from app.views.theme import COLUMN_PX, theme

if TYPE_CHECKING:
    from app.state.conversation import Conversation, Turn
    from app.state.model import Model
    from app.views.message import Message

BUILT = 50
FRAME_MS = 33
_NEAR_END_PX = 24
_ABOVE = 10
"""Turns that are built above one that is looked for."""
_SETTLE_MS = 200
_MARGIN_PX = 24
_JUMP_PX = 32
_GATHER_MS = 100


class Transcript(QScrollArea):
    """The turns of one conversation, newest at the bottom; only the last ones are built.

    Signals:
        left: a message that had the keyboard goes.
    """

    left = Signal()

    def __init__(self, conversation: Conversation, model: Model, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._chat, self._model = conversation, model
        self._messages: dict[str, Message] = {}
        self._wanted = BUILT
        self._dirty: set[str] = set()
        self._unstyled = False
        self._set: set[Formula] = set()
        self._following = True
        self._busy = False
        self._sought = ""
        self._building = False
        self._span = 0
        self._rest_ms = FRAME_MS
        self._lay_out()
        self._empty = Empty(conversation, model, self._inner)
        self._column.insertWidget(0, self._empty)
        self._jump = IconButton("down", "Jump to newest", self, role="text")
        self._jump.setObjectName("jump")
        self._jump.clicked.connect(self.jump)
        self._jump.hide()
        self._frame = QTimer(self, singleShot=True, timerType=Qt.TimerType.PreciseTimer)
        self._frame.timeout.connect(self._draw)
        self._builder = QTimer(self, interval=0)
        self._builder.timeout.connect(self._build)
        self._gather = QTimer(self, singleShot=True, interval=_GATHER_MS)
        self._gather.timeout.connect(self._take)
        self._connect()
        self._build()

    def _lay_out(self) -> None:
        self.setAccessibleName("Conversation")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._inner = QWidget(self)
        self._column = QVBoxLayout(self._inner)
        self._column.setSpacing(8)
        self._column.addStretch(1)
        self.setWidget(self._inner)
        self.viewport().setAutoFillBackground(False)
        self._inner.setAutoFillBackground(False)

    def _connect(self) -> None:
        self._chat.turn_added.connect(self._add)
        self._chat.turn_changed.connect(self._touch)
        self._chat.turn_removed.connect(self._remove)
        self._chat.branch_changed.connect(self._rebranch)
        self._chat.revealed.connect(self.show_turn)
        self._chat.activity_changed.connect(self._touch_live)
        self._model.changed.connect(self._touch_live)
        theme.changed.connect(self._restyle)
        highlighter.ready.connect(self._colour)
        typesetter.ready.connect(self._gain)
        bar = self.verticalScrollBar()
        bar.valueChanged.connect(self._scrolled)
        bar.rangeChanged.connect(self._grown)

    def jump(self) -> None:
        """Go to the newest message and follow it again."""
        self._following = True
        self.verticalScrollBar().setValue(self.verticalScrollBar().maximum())
        self._place_jump()

    def show_turn(self, turn_id: str) -> None:
        """Go to one message, as soon as it is built."""
        place = next((i for i, turn in enumerate(self._chat.turns) if turn.id == turn_id), None)
        if place is None:
            return
        self._sought, self._following = turn_id, False
        self._wanted = max(self._wanted, len(self._chat.turns) - place + _ABOVE)
        self._build()

    def _built(self) -> None:
        """Everything that was wanted stands; stay with what was looked for until its surroundings have settled."""
        self._building = self._builder.isActive()
        if self._sought:
            self._go_to_sought()
            QTimer.singleShot(_SETTLE_MS, self, self._arrive)

    def _go_to_sought(self) -> None:
        message = self._messages.get(self._sought)
        if message is not None:
            self.verticalScrollBar().setValue(message.y() - _MARGIN_PX)

    def _arrive(self) -> None:
        self._go_to_sought()
        self._sought = ""

    def edit_last(self) -> None:
        """Let the person's last question be changed, if it can be now."""
        last = next((turn.id for turn in reversed(self._chat.turns) if turn.role == "user"), "")
        message = self._messages.get(last)
        if message is not None:
            message.edit()

    def page(self, by: int) -> None:
        """Scroll by most of what is seen, up (-1) or down (1)."""
        bar = self.verticalScrollBar()
        bar.setValue(bar.value() + by * (bar.pageStep() - 48))

    def _view(self, attachment_id: str) -> None:
        """Show a picture over the window, among all of the chat; hand other media to the program they belong to."""
        items = [item for turn in self._chat.turns for item in turn.attachments]
        chosen = next((item for item in items if item.id == attachment_id), None)
        if chosen is None:
            return
        if chosen.kind != "image":
            QDesktopServices.openUrl(QUrl.fromLocalFile(str(chosen.path)))
            return
        from app.views.viewer import Viewer

        pictures = [item for item in items if item.kind == "image"]
        Viewer(pictures, pictures.index(chosen), self.window())

    # Building

    def _build(self) -> None:
        """Build messages from the newest up, a slice at a time, so that opening a long chat stalls nobody."""
        until = time.perf_counter() + SLICE_S
        while self._build_next(until) and time.perf_counter() < until:
            pass
        more = next(self._missing(), None) is not None or self._working() is not None
        if more != self._builder.isActive():
            self._builder.start() if more else self._builder.stop()
        self._building = True
        if more:
            self._empty.setVisible(not self._chat.turns)
        else:
            self._settle()
            QTimer.singleShot(0, self, self._built)  # heights are right after the layout's turn

    def _build_next(self, until: float) -> bool:
        """Go on with the newest message that is not complete; False: there is none."""
        message, turn = self._working(), next(self._missing(), None)
        if message is not None:
            message.work(until)
        elif turn is not None:
            self._insert(turn)
        return message is not None or turn is not None

    def _working(self) -> Message | None:
        """The newest message with something left to draw, if anybody sees this."""
        if not self.isVisible():
            return None
        return next((message for message in reversed(self._messages.values()) if message.waits), None)

    def _missing(self) -> Iterator[Turn]:
        waiting = self._chat.queue.waiting  # they stand above the composer
        return (
            turn
            for turn in reversed(self._chat.turns[-self._wanted :])
            if turn.id not in self._messages and turn not in waiting
        )

    def _insert(self, turn: Turn) -> None:
        message = _made(turn, self._inner)
        message.retry.connect(self._chat.retry)
        message.resumed.connect(self._chat.resume)
        message.edited.connect(self._chat.edit)
        message.stepped.connect(self._step)
        message.forked.connect(self._chat.fork)
        message.viewed.connect(self._view)
        message.working.connect(self._builder.start)
        self._messages[turn.id] = message
        order = [each.id for each in self._chat.turns if each.id in self._messages]
        self._column.insertWidget(1 + order.index(turn.id), message)
        message.fit(self._text_width())
        message.refresh(self._activity(turn))
        if message.waits:
            self._builder.start()

    def _older(self) -> None:
        if len(self._chat.turns) > self._wanted:
            self._wanted += BUILT
            self._builder.start()

    # Changes

    def _add(self, turn_id: str) -> None:
        turn = self._turn(turn_id)
        if turn is None or turn_id in self._messages or turn in self._chat.queue.waiting:
            return
        self._insert(turn)
        if turn.role == "user":
            self._following = True
        self._settle()

    def _remove(self, turn_id: str) -> None:
        message = self._messages.pop(turn_id, None)
        self._dirty.discard(turn_id)
        if message is not None:
            self._leave(message)
            self._column.removeWidget(message)
            message.hide()
            message.deleteLater()
        self._settle()

    def _leave(self, *gone: Message) -> None:
        """Give the keyboard away before any of these or its buttons hide: else Qt hands it on to some tab."""
        focused = self.window().focusWidget()
        if focused is not None and any(message.isAncestorOf(focused) for message in gone):
            self.left.emit()

    def _rebranch(self) -> None:
        """Forget what is not on the branch any more, and build what is new slice by slice."""
        shown = {turn.id for turn in self._chat.turns}
        gone = set(self._messages) - shown
        self._leave(*(self._messages[turn_id] for turn_id in gone))
        for turn_id in gone:
            self._remove(turn_id)
        self._following = True
        self._build()

    def _step(self, turn_id: str, by: int) -> None:
        """Show another variant; the keyboard stays on the arrows, so that they can be pressed again."""
        place = next(i for i, turn in enumerate(self._chat.turns) if turn.id == turn_id)
        pressed = self._messages[turn_id].footer.steps
        self._chat.show_variant(turn_id, by)
        shown = self._messages.get(self._chat.turns[place].id)
        if pressed and shown is not None:
            shown.footer.step_on(by)

    def _touch(self, turn_id: str) -> None:
        self._dirty.add(turn_id)
        if self.isVisible() and not self._frame.isActive():
            self._frame.start(self._rest_ms)

    def _touch_live(self) -> None:
        if self._busy != (self._chat.phase is not None):
            self._busy = not self._busy
            self._offer()
        for turn in self._chat.turns[-4:]:
            if turn.state in ("live", "queued"):
                self._touch(turn.id)

    def _draw(self) -> None:
        """Draw what changed since the last frame; a costly frame puts the next one off, so that typing stays quick."""
        start = time.perf_counter()
        for turn_id in tuple(self._dirty):
            turn = self._turn(turn_id)
            message = self._messages.get(turn_id)
            if turn is not None and message is not None:
                message.turn = turn
                message.refresh(self._activity(turn))
                if message.waits:
                    self._builder.start()
        self._dirty.clear()
        self._rest_ms = max(FRAME_MS, int(4000 * (time.perf_counter() - start)))

    def _turn(self, turn_id: str) -> Turn | None:
        return next((turn for turn in reversed(self._chat.turns) if turn.id == turn_id), None)

    def _activity(self, turn: Turn) -> str:
        if turn.state == "live":
            return self._chat.activity
        if turn.state != "queued":
            return ""
        return "Waits for the answer above" if self._model.status == "ready" else "Waits for the model to load"

    def _restyle(self) -> None:
        """Take the new colours at once where they are seen, and slice by slice elsewhere; hidden, when shown again."""
        self._unstyled = not self.isVisible()
        if not self._unstyled:
            for message in self._messages.values():
                message.restyle()
            self._builder.start()

    def _colour(self, block: Block) -> None:
        for message in self._messages.values():
            message.colour(block)

    def _gain(self, formula: Formula) -> None:
        """Collect formulas for a moment: a piece of text with many of them is drawn again as a whole."""
        self._set.add(formula)
        if self.isVisible() and not self._gather.isActive():
            self._gather.start()

    def _take(self) -> None:
        formulas, self._set = frozenset(self._set), set()
        for message in self._messages.values():
            message.take(formulas)
        self._builder.start()

    def _settle(self) -> None:
        """After turns came or went: the invitation, and what can be done with each."""
        self._empty.setVisible(not self._chat.turns)
        self._offer()
        self._order_focus()

    def _offer(self) -> None:
        """Show at each message what can be done with it now."""
        for turn_id, message in self._messages.items():
            message.offer(self._chat.offers(turn_id))

    def _order_focus(self) -> None:
        """Let Tab visit messages from top to bottom, whenever each was built."""
        before: QWidget = self
        for turn in self._chat.turns:
            if turn.id in self._messages:
                for stop in self._messages[turn.id].stops():
                    QWidget.setTabOrder(before, stop)
                    before = stop

    # Following

    def _scrolled(self, value: int) -> None:
        bar = self.verticalScrollBar()
        self._following = value >= bar.maximum() - _NEAR_END_PX
        self._place_jump()
        if value < 400 and bar.maximum() > 400:
            self._older()

    def _grown(self, _: int, maximum: int) -> None:
        bar = self.verticalScrollBar()
        if self._sought:
            self._go_to_sought()
        elif self._following:
            bar.setValue(maximum if self._chat.turns else 0)  # an invitation is read from its top
        elif self._building:
            bar.setValue(bar.value() + maximum - self._span)  # older messages came in above: stay on the same line
        self._span = maximum
        self._place_jump()

    def _place_jump(self) -> None:
        self._jump.setVisible(not self._following)
        if not self._following:
            self._jump.setGeometry((self.width() - _JUMP_PX) // 2, self.height() - _JUMP_PX - 8, _JUMP_PX, _JUMP_PX)

    # Geometry

    def _text_width(self) -> int:
        return min(COLUMN_PX, self.width() - 2 * _MARGIN_PX)

    def resizeEvent(self, event: QResizeEvent) -> None:
        # Centred in the whole width, scroll bar or not, so that it stays in line with the composer.
        side = max(_MARGIN_PX, (self.width() - COLUMN_PX) // 2)
        self._column.setContentsMargins(side, 24, side - (self.width() - self.viewport().width()), 8)
        for message in self._messages.values():
            message.fit(self._text_width())
        super().resizeEvent(event)
        self._place_jump()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self._unstyled:
            self._restyle()
        if self._set:
            self._gather.start()
        self._builder.start()
        if self._dirty:
            self._frame.start(0)

    def hideEvent(self, event: QHideEvent) -> None:
        self._frame.stop()
        super().hideEvent(event)


def _made(turn: Turn, parent: QWidget) -> Message:
    """The view of one turn; an empty chat does without what these import."""
    from app.views.answer import Answer
    from app.views.question import Question

    return Question(turn, parent) if turn.role == "user" else Answer(turn, parent)
