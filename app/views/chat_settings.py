"""How one chat is answered: its system prompt, its sampling, and presets of both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QCloseEvent
from PySide6.QtWidgets import (
    QDialog,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.presets import Preset, Sampling
from app.state.options import options, plain
from app.views.flow import Flow
from app.views.settings_controls import NumberField, Segments, flat, pill
from app.views.theme import scaled, set_font

if TYPE_CHECKING:
    from app.state.conversation import Conversation
    from app.state.preferences import Preferences
    from app.state.presets import Presets

_KEYS = {
    "temperature": "generation.temperature",
    "top_p": "generation.top_p",
    "max_tokens": "engine.default_max_tokens",
    "seed": "generation.seed",
}
"""Each number and the setting that it takes the place of."""
_STEPS = {"temperature": 0.1, "top_p": 0.05, "max_tokens": 64, "seed": 1}
_TYPING_MS = 400
_PROMPT_PX = 120


class PresetRow(QWidget):
    """The presets, of which one is pressed while the chat is as it says, and the way to make and remove one."""

    def __init__(self, presets: Presets, parent: ChatSettings) -> None:
        super().__init__(parent)
        self._presets, self._panel = presets, parent
        self._pills: dict[str, QPushButton] = {}
        self._row = QWidget(self)
        self._flow = Flow(self._row, gap=4)
        self.name = QLineEdit(self)
        self.name.setAccessibleName("Name of a new preset")
        self.name.setPlaceholderText("Name a new preset")
        self.save = flat("Save preset", "Save preset", self)
        self.remove = flat("Remove preset", "Remove preset", self)
        self.remove.setObjectName("link")
        below = QHBoxLayout()
        below.setSpacing(8)
        for part in (self.name, self.save, self.remove):
            below.addWidget(part)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(8)
        column.addWidget(self._row)
        column.addLayout(below)
        self.name.returnPressed.connect(self._save)
        self.name.textChanged.connect(self.mark)
        self.save.clicked.connect(self._save)
        self.remove.clicked.connect(lambda: presets.remove(self._chosen() or ""))
        presets.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Show the presets there are."""
        for button in self._pills.values():
            button.hide()
            button.deleteLater()
        self._pills = {}
        for preset in self._presets.all:
            self._add(preset)
        self._row.setVisible(bool(self._pills))
        self.mark()

    def mark(self) -> None:
        """Press the preset that the chat follows."""
        chosen = self._chosen()
        for name, button in self._pills.items():
            button.setChecked(name == chosen)
        self.remove.setVisible(chosen is not None)
        self.save.setEnabled(bool(self.name.text().strip()))

    def _add(self, preset: Preset) -> None:
        button = self._pills[preset.name] = pill(preset.name, f"Preset {preset.name}", self._row)
        button.clicked.connect(lambda: self._panel.follow(preset))
        button.show()
        self._flow.addWidget(button)

    def _chosen(self) -> str | None:
        return next((each.name for each in self._presets.all if self._panel.follows(each)), None)

    def _save(self) -> None:
        if self._panel.save_as(self.name.text()):
            self.name.clear()


class ChatSettings(QDialog):
    """The choices of one chat, beside the window; each holds from the next answer on."""

    def __init__(self, chat: Conversation, preferences: Preferences, presets: Presets, parent: QWidget) -> None:
        super().__init__(parent)
        self.chat = chat
        self._preferences, self._presets = preferences, presets
        self.setModal(False)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.prompt = QPlainTextEdit(self)
        self.numbers = {name: NumberField(options()[key].label, _STEPS[name], self) for name, key in _KEYS.items()}
        choices = ((None, "As in settings"), (True, "On"), (False, "Off"))
        self.thinking = Segments(options()["generation.thinking"].label, choices, self)
        self._trouble = QLabel(self)
        self._typing = QTimer(self, singleShot=True, interval=_TYPING_MS)
        self._lay_out()
        self._row = PresetRow(presets, self)
        self._column.insertWidget(0, self._row)
        self._connect()
        self._refresh()
        self.resize(scaled(440), self.sizeHint().height())

    def _lay_out(self) -> None:
        self.prompt.setObjectName("framed")
        self.prompt.setAccessibleName("System prompt")
        self.prompt.setPlaceholderText(
            "What the model should know or do in this chat, such as “Answer in one sentence.”"
        )
        self.prompt.setTabChangesFocus(True)
        self.prompt.setFixedHeight(scaled(_PROMPT_PX))
        self._trouble.setObjectName("error")
        self._trouble.setWordWrap(True)
        self._trouble.hide()
        grid = QGridLayout()
        grid.setHorizontalSpacing(16)
        grid.setVerticalSpacing(8)
        grid.setColumnStretch(0, 1)
        for line, (name, field) in enumerate(self.numbers.items()):
            grid.addWidget(QLabel(options()[_KEYS[name]].label, self), line, 0)
            grid.addWidget(field, line, 1, Qt.AlignmentFlag.AlignRight)
        grid.addWidget(QLabel(options()["generation.thinking"].label, self), len(self.numbers), 0)
        grid.addWidget(self.thinking, len(self.numbers), 1, Qt.AlignmentFlag.AlignRight)
        hint = QLabel("An empty field takes the value from the settings. Changes hold from the next answer on.", self)
        hint.setObjectName("muted")
        hint.setWordWrap(True)
        set_font(hint, 12)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(24, 20, 24, 20)
        self._column.setSpacing(12)
        self._column.addWidget(QLabel("System prompt", self))
        self._column.addWidget(self.prompt)
        self._column.addLayout(grid)
        self._column.addWidget(self._trouble)
        self._column.addWidget(hint)

    def _connect(self) -> None:
        self.prompt.textChanged.connect(self._typing.start)
        self._typing.timeout.connect(self._take_prompt)
        for name, field in self.numbers.items():
            self._take_from(field, name)
        self.thinking.chosen.connect(lambda value: self._choose("thinking", value))
        self.chat.instructed.connect(self._refresh)
        self.chat.title_changed.connect(self._refresh)
        self._preferences.changed.connect(self._refresh)

    def _take_from(self, field: NumberField, name: str) -> None:
        field.typed.connect(lambda text: self._enter(name, text))

    # What presets ask for

    def follow(self, preset: Preset) -> None:
        """Take all of a preset."""
        self._typing.stop()
        self.chat.instruct(preset.system_prompt, preset.sampling)
        self._refresh()

    def follows(self, preset: Preset) -> bool:
        """Whether the chat is as the preset says."""
        return (preset.system_prompt, preset.sampling) == (self.chat.system_prompt, self.chat.sampling)

    def save_as(self, name: str) -> bool:
        """Make a preset of the chat's choices."""
        self._take_prompt()
        self._say(trouble := self._presets.save(name, self.chat.system_prompt, self.chat.sampling))
        return trouble is None

    # What the person chooses

    def _take_prompt(self) -> None:
        self._typing.stop()
        self.chat.instruct(self.prompt.toPlainText().strip(), self.chat.sampling)

    def _enter(self, name: str, text: str) -> None:
        option = options()[_KEYS[name]]
        try:
            value = option.parse(text) if text.strip() else None
        except ValueError as error:
            self._say(f"{option.label}: {error}")
            self.numbers[name].mark(True)
            return
        self.numbers[name].mark(False)
        self._say(None)
        self._choose(name, value)

    def _choose(self, name: str, value: Any) -> None:
        chosen = self.chat.sampling.model_dump() | {name: value}
        self.chat.instruct(self.chat.system_prompt, Sampling(**chosen))

    def _say(self, trouble: str | None) -> None:
        self._trouble.setText(trouble or "")
        self._trouble.setVisible(trouble is not None)

    def _refresh(self) -> None:
        """Show what is chosen; words that are being typed stay."""
        self.setWindowTitle(f"Chat settings – {self.chat.title}")
        if not self._typing.isActive() and self.prompt.toPlainText().strip() != self.chat.system_prompt:
            self.prompt.setPlainText(self.chat.system_prompt)
            self._typing.stop()
        for name, field in self.numbers.items():
            value, usual = getattr(self.chat.sampling, name), self._preferences.value(_KEYS[name])
            field.setPlaceholderText(options()[_KEYS[name]].empty if usual is None else plain(usual))
            field.show_text("" if value is None else plain(value))
        self.thinking.show_value(self.chat.sampling.thinking)
        self._row.mark()

    def closeEvent(self, event: QCloseEvent) -> None:
        self._take_prompt()
        super().closeEvent(event)
