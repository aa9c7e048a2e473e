"""The controls of the settings: each shows what is chosen and emits what the person wants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import QEvent, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QFocusEvent, QKeyEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import (
    QAbstractButton,
    QButtonGroup,
    QFileDialog,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.views.buttons import IconButton
from app.views.theme import color, scaled, set_font, theme

_PATH_PX = 220
_LINE_PX = 360


class Switch(QAbstractButton):
    """On or off.

    Signals:
        chosen: True or False.
    """

    chosen = Signal(object)

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setCheckable(True)
        self.setAccessibleName(name)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)
        self.clicked.connect(lambda on: self.chosen.emit(on))
        theme.changed.connect(self.updateGeometry)

    def show_value(self, value: bool) -> None:
        """Show what is chosen."""
        self.setChecked(value)

    def sizeHint(self) -> QSize:
        return QSize(scaled(36) + 4, scaled(20) + 4)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        wide, high = scaled(36), scaled(20)
        track = QRectF((self.width() - wide) / 2, (self.height() - high) / 2, wide, high)
        on = self.isChecked()
        painter.setPen(QPen(color("accent" if on else "control_line"), 1))
        painter.setBrush(color("accent" if on else "raised"))
        painter.drawRoundedRect(track.adjusted(0.5, 0.5, -0.5, -0.5), high / 2, high / 2)
        knob = high - 8
        left = track.right() - 4 - knob if on else track.left() + 4
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(color("on_accent" if on else "control_line"))
        painter.drawEllipse(QRectF(left, track.top() + 4, knob, knob))
        if self.hasFocus():
            painter.setPen(QPen(color("text"), 1))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(track.adjusted(-1.5, -1.5, 1.5, 1.5), high / 2 + 2, high / 2 + 2)


class Segments(QWidget):
    """One of a few choices, side by side.

    Signals:
        chosen: the value of the one that was pressed.
    """

    chosen = Signal(object)

    def __init__(self, name: str, choices: Sequence[tuple[Any, str]], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(name)
        self._group = QButtonGroup(self)
        self._buttons: dict[Any, QPushButton] = {}
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(4)
        for value, text in choices:
            button = self._buttons[value] = pill(text, f"{name}: {text}", self)
            button.clicked.connect(lambda _=False, value=value: self.chosen.emit(value))
            self._group.addButton(button)
            row.addWidget(button)

    def show_value(self, value: Any) -> None:
        """Show what is chosen."""
        self._buttons[value].setChecked(True)


class NumberField(QLineEdit):
    """A number that is typed; Enter or leaving takes it, Escape brings the former one back, arrows step.

    Signals:
        typed: the text to take.
        left: it was left as it is, or brought back.
    """

    typed = Signal(str)
    left = Signal()

    def __init__(self, name: str, step: float, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._step = step
        self._shown = ""
        self._refused = False
        self.setAccessibleName(name)
        self.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.setAcceptDrops(False)
        self.editingFinished.connect(self._finish)
        set_font(self)
        theme.changed.connect(self._fit)
        self._fit()

    def show_text(self, text: str) -> None:
        """Show the number that is chosen."""
        self._shown = text
        if self.text() != text:
            self.setText(text)

    def mark(self, refused: bool) -> None:
        """Outline it while what was typed cannot be taken."""
        if self._refused != refused:
            self._refused = refused
            self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self._refused:
            painter = QPainter(self)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(QPen(color("error"), 1))
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 8, 8)

    def event(self, event: QEvent) -> bool:
        """Take Escape before the dialog closes, if there is something to bring back."""
        override = event.type() == QEvent.Type.ShortcutOverride
        if override and isinstance(event, QKeyEvent) and event.key() == Qt.Key.Key_Escape:
            event.setAccepted(self.text() != self._shown)
            return event.isAccepted()
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        steps = {Qt.Key.Key_Up: 1, Qt.Key.Key_Down: -1}.get(Qt.Key(event.key()))
        if steps is not None:
            self._take_step(steps * self._step)
        elif event.key() == Qt.Key.Key_Escape and self.text() != self._shown:
            self.setText(self._shown)
            self.left.emit()
        else:
            super().keyPressEvent(event)
            if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
                event.accept()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        if self.text() == self._shown:
            self.left.emit()

    def _take_step(self, by: float) -> None:
        try:
            before = float(self.text().replace(",", "."))
        except ValueError:
            return
        self.setText(f"{round(before + by, 6):.10g}")
        self._finish()

    def _finish(self) -> None:
        if self.text() != self._shown:
            self.typed.emit(self.text())

    def _fit(self) -> None:
        self.setFixedWidth(scaled(84))


class FolderField(QWidget):
    """A folder, or none.

    Signals:
        chosen: the folder as text.
    """

    chosen = Signal(object)

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._name = name
        self.button = flat("Choose …", name, self)
        self.button.clicked.connect(self._pick)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self.button)

    def show_value(self, value: object) -> None:
        """Show what is chosen."""
        text = "Choose …" if value is None else str(value)
        self.button.setText(self.button.fontMetrics().elidedText(text, Qt.TextElideMode.ElideMiddle, scaled(_PATH_PX)))
        self.button.setToolTip("" if value is None else text)
        self.button.setAccessibleName(f"{self._name}: {'none' if value is None else text}")

    def _pick(self) -> None:
        pick_folder(self, self._name, self.chosen.emit)


class FolderList(QWidget):
    """Any number of folders.

    Signals:
        chosen: all folders, as a tuple of texts.
    """

    chosen = Signal(object)

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._name = name
        self._folders: tuple[str, ...] = ()
        self._lines: list[QWidget] = []
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(4)
        self._add = flat("Add folder …", f"{name}: add a folder", self)
        self._add.clicked.connect(lambda: pick_folder(self, name, self._added))
        self._column.addWidget(self._add, 0, Qt.AlignmentFlag.AlignLeft)

    def show_value(self, value: tuple[str, ...]) -> None:
        """Show what is chosen."""
        if value == self._folders:
            return
        self._folders = value
        for line in self._lines:
            line.hide()
            line.deleteLater()
        self._lines = [self._line(folder) for folder in value]
        for index, line in enumerate(self._lines):
            self._column.insertWidget(index, line)

    def _line(self, folder: str) -> QWidget:
        line = QWidget(self)
        label = QLabel(line)
        label.setText(label.fontMetrics().elidedText(folder, Qt.TextElideMode.ElideMiddle, scaled(_LINE_PX)))
        label.setToolTip(folder)
        remove = IconButton("close", f"Remove {folder}", line)
        remove.clicked.connect(lambda: self.chosen.emit(tuple(each for each in self._folders if each != folder)))
        row = QHBoxLayout(line)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(label)
        row.addWidget(remove)
        row.addStretch(1)
        return line

    def _added(self, folder: str) -> None:
        if folder not in self._folders:
            self.chosen.emit((*self._folders, folder))


def pick_folder(parent: QWidget, title: str, chosen: Any) -> None:
    """Let the person choose a folder without holding anything up."""
    dialog = QFileDialog(parent, title)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.setFileMode(QFileDialog.FileMode.Directory)
    dialog.setOption(QFileDialog.Option.ShowDirsOnly)
    dialog.fileSelected.connect(chosen)
    dialog.open()


def pill(text: str, name: str, parent: QWidget) -> QPushButton:
    """A button that stays pressed."""
    button = flat(text, name, parent)
    button.setCheckable(True)
    button.setObjectName("pill")
    return button


def flat(text: str, name: str, parent: QWidget) -> QPushButton:
    """A button that Enter in a field beside it does not press."""
    button = QPushButton(text, parent)
    button.setAccessibleName(name)
    button.setAutoDefault(False)
    return button
