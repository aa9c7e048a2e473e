"""The line under a message: what it cost or what is happening, and its actions."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QSizePolicy, QWidget

from app.views.buttons import QuietButton
from app.views.charts import Said
from app.views.theme import set_font
from app.views.variants import Variants


class Footer(QWidget):
    """The line under a message: what it cost or what is happening, and its actions, drawn on hover and focus.

    Signals:
        stepped: show the next (1) or the previous (-1) variant of the message.
    """

    stepped = Signal(int)

    def __init__(self, noun: str, parent: QWidget | None = None, *, right: bool = False) -> None:
        super().__init__(parent)
        self.setFixedHeight(28)
        self._hovered = False
        self._noun, self._right = noun, right
        self.variants: Variants | None = None
        self.label = Said(self)
        self.label.setObjectName("muted")
        set_font(self.label, 12)
        self.label.setTextFormat(Qt.TextFormat.PlainText)
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.setSpacing(4)
        self.buttons: list[QuietButton] = []
        self._row.addWidget(self.label, 1)
        self.label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        if right:
            self.label.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)

    def add(self, button: QuietButton) -> None:
        """Append an action."""
        self.buttons.append(button)
        self._row.addWidget(button)
        button.installEventFilter(self)

    def lead(self, button: QPushButton) -> None:
        """Put a button that is always drawn before the actions."""
        self._row.insertWidget(self._row.indexOf(self.label) + 1, button)

    def vary(self, position: int, count: int, *, switch: bool) -> None:
        """Say which of so many variants it is; most messages have but one, and no arrows."""
        if self.variants is None and count > 1:
            self.variants = Variants(self._noun, self)
            self.variants.stepped.connect(self.stepped)
            self._row.insertWidget(1 if self._right else 0, self.variants)
        if self.variants is not None:
            self.variants.say(position, count, switch=switch)

    @property
    def steps(self) -> bool:
        """Whether the keyboard is on an arrow."""
        return self.variants is not None and self.variants.isAncestorOf(self.window().focusWidget() or self)

    def step_on(self, by: int) -> None:
        """Give the keyboard to the arrow that goes on the same way, at the last variant to the one back."""
        if self.variants is not None:
            arrows = (self.variants.back, self.variants.on)
            onward, back = arrows if by < 0 else arrows[::-1]
            (onward if onward.isEnabled() else back).setFocus()

    def stops(self) -> list[QWidget]:
        """What Tab visits, in order."""
        arrows: list[QWidget] = [self.variants.back, self.variants.on] if self.variants else []
        return [*arrows, *self.buttons]

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """All actions show when the keyboard is on one of them."""
        if event.type() in (QEvent.Type.FocusIn, QEvent.Type.FocusOut):
            self._draw(focused=event.type() is QEvent.Type.FocusIn)
        return False

    def say(self, text: str, more: str = "") -> None:
        """Show one line, and more where the pointer rests on it; nothing is laid out again if it has not changed."""
        self.label.say(text, more)
        if more != self.label.accessibleDescription():
            self.label.setAccessibleDescription(more)

    def show_ink(self, shown: bool) -> None:
        """Draw the actions or leave their places empty."""
        self._hovered = shown
        self._draw(focused=any(button.hasFocus() for button in self.buttons))

    def _draw(self, *, focused: bool) -> None:
        for button in self.buttons:
            button.show_ink(self._hovered or focused)
