"""One setting: its name, control, unit and sentence, when it takes effect, and the way back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, cast

from PySide6.QtCore import QRectF, QSize, Qt, SignalInstance
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QLabel, QSizePolicy, QWidget

from app.state.options import plain
from app.views.buttons import IconButton
from app.views.numbers import figure
from app.views.settings_controls import FolderField, FolderList, NumberField, Segments, Switch, pill
from app.views.theme import SMALL_PX, color, scaled, set_font, theme, ui_font

if TYPE_CHECKING:
    from app.state.options import Option
    from app.state.preferences import Preferences

_UNIT_PX, _CHIP_PX = 64, 76


class _Control(Protocol):
    chosen: SignalInstance

    def show_value(self, value: Any) -> None: ...


class Dot(QWidget):
    """Marks a value that is not the one Braid comes with."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFixedWidth(12)
        self.on = False

    def light(self, on: bool) -> None:
        """Show or hide it."""
        if on != self.on:
            self.on = on
            self.setAccessibleName("Changed" if on else "")
            self.setToolTip("Changed" if on else "")
            self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        if self.on:
            painter = QPainter(self)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(color("accent"))
            painter.drawEllipse(QRectF(0, self.height() / 2 - 3, 6, 6))


class Chip(QWidget):
    """When a change takes effect."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.text = ""
        self._waits = False
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.updateGeometry)

    def say(self, text: str, waits: bool) -> None:
        """Show when; `waits`: a change has been made and is still to come."""
        if (text, waits) != (self.text, self._waits):
            self.text, self._waits = text, waits
            told = "Waits until a model is loaded" if waits else f"Takes effect: {text}"
            self.setAccessibleName(told)
            self.setToolTip(told)
            self.update()

    def sizeHint(self) -> QSize:
        return QSize(scaled(_CHIP_PX), scaled(20))

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(ui_font(SMALL_PX))
        text = f"↻ {self.text}" if self._waits else self.text
        wide = painter.fontMetrics().horizontalAdvance(text) + 14
        box = QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
        box.setWidth(min(box.width(), wide))
        painter.setPen(QPen(color("warning" if self._waits else "line"), 1))
        painter.setBrush(color("warning_surface") if self._waits else Qt.BrushStyle.NoBrush)
        painter.drawRoundedRect(box, box.height() / 2, box.height() / 2)
        painter.setPen(color("warning" if self._waits else "muted"))
        painter.drawText(box, Qt.AlignmentFlag.AlignCenter, text)


class Row(QWidget):
    """One option of the preferences."""

    def __init__(self, option: Option, preferences: Preferences, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.option, self._preferences = option, preferences
        self._dot = Dot(self)
        self._label = QLabel(option.label, self)
        self.help = QLabel(option.help, self)
        self.help.setObjectName("muted")
        self.refusal = QLabel(self)
        self.refusal.setObjectName("error")
        for sentence in (self.help, self.refusal):
            sentence.setWordWrap(True)
            set_font(sentence, 12)
        self.refusal.hide()
        self.chip = Chip(self)
        self.reset = IconButton("undo", f"Reset {option.label}", self)
        self.reset.clicked.connect(lambda: self._take(preferences.reset(option.key)))
        self.automatic = pill(option.empty, f"{option.label}: {option.empty}", self) if option.empty else None
        self.field: NumberField | None = None
        self.control: QWidget
        self._make_control()
        self._lay_out()
        self.refresh()

    def _make_control(self) -> None:
        option = self.option
        if option.numeric:
            self.control = self.field = NumberField(option.label, 1 if option.kind == "whole" else 0.1, self)
            self.field.typed.connect(lambda text: self._take(self._preferences.enter(option.key, text)))
            self.field.left.connect(lambda: self._take(None))
        else:
            made = {"switch": Switch, "folder": FolderField, "folders": FolderList}.get(option.kind)
            self.control = made(option.label, self) if made else Segments(option.label, option.choices, self)
            cast("_Control", self.control).chosen.connect(self._choose)
        if self.automatic is not None:
            self.automatic.clicked.connect(self._leave_it)

    def _lay_out(self) -> None:
        right = QHBoxLayout()
        right.setSpacing(8)
        right.addStretch(1)
        below = self.option.kind == "folders"
        for part in (self.automatic, None if below else self.control):
            if part is not None:
                right.addWidget(part)
        unit = QLabel(self.option.unit, self)
        unit.setObjectName("muted")
        set_font(unit, 12)
        unit.setMinimumWidth(_UNIT_PX)
        kept = self.reset.sizePolicy()
        kept.setRetainSizeWhenHidden(True)
        self.reset.setSizePolicy(kept)
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 8, 0, 8)
        grid.setHorizontalSpacing(8)
        grid.setVerticalSpacing(2)
        grid.setColumnStretch(1, 1)
        for column, part in enumerate((self._dot, self._label)):
            grid.addWidget(part, 0, column)
        grid.addLayout(right, 0, 2)
        for column, part in enumerate((unit, self.chip, self.reset), start=3):
            grid.addWidget(part, 0, column)
        for sentence in (self.help, self.refusal):
            grid.addWidget(sentence, 1, 1, 1, 3)
        if below:
            grid.addWidget(self.control, 2, 1, 1, 3)

    # What is

    def refresh(self) -> None:
        """Show the option as it is now."""
        preferences, option = self._preferences, self.option
        value = preferences.value(option.key)
        left = bool(option.empty) and value == option.empty_value
        if self.automatic is not None:
            self.automatic.setChecked(left)
        if self.field is None:
            cast("_Control", self.control).show_value(value)
        else:
            self.field.show_text("" if left else plain(value))
            self.field.setPlaceholderText(self._derived() if left else "")
        changed = not preferences.is_default(option.key)
        self._dot.light(changed)
        self.reset.setVisible(changed)
        self.chip.say(preferences.timing(option.key), preferences.waits(option.key))

    def _derived(self) -> str:
        value = self._preferences.derived(self.option.key)
        if value is None:
            return ""
        return plain(round(value)) if self.option.kind == "whole" else figure(value)

    # What the person wants

    def _choose(self, value: object) -> None:
        self._take(self._preferences.choose(self.option.key, value))

    def _leave_it(self, left: bool) -> None:
        """Leave the choice to Braid, or start from what it has chosen."""
        preferences, option = self._preferences, self.option
        if left:
            self._take(preferences.choose(option.key, option.empty_value))
            return
        if self.field is None:
            self.refresh()  # a folder is chosen with the other button
            return
        start = preferences.derived(option.key)
        if start is not None:
            self._take(preferences.choose(option.key, round(start) if option.kind == "whole" else round(start, 1)))
        self.field.setFocus()

    def _take(self, refusal: str | None) -> None:
        """Show what came of a wish: the new value, or why it cannot be."""
        self.refusal.setText(refusal or "")
        self.refusal.setVisible(bool(refusal))
        self.help.setVisible(not refusal)
        if self.field is not None:
            self.field.mark(bool(refusal))
        if refusal is None or self.field is None:
            self.refresh()
