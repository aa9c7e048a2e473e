"""The pictures of a chat over the whole window: zoom, walk through them, copy and save."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import QEvent, QObject, QPointF, QSize, Qt
from PySide6.QtGui import QCloseEvent, QGuiApplication, QImage, QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QApplication, QFileDialog, QHBoxLayout, QLabel, QVBoxLayout, QWidget
from shiboken6 import isValid

from app.state.attachment import Attachment
from app.state.originals import originals
from app.views.buttons import IconButton
from app.views.picture_canvas import Canvas
from app.views.theme import color, set_font

_PAN_PX = 64


class Viewer(QWidget):
    """Lies over a window until Esc; the keyboard stays in it."""

    def __init__(self, pictures: Sequence[Attachment], index: int, window: QWidget) -> None:
        super().__init__(window)
        self._pictures, self._index = tuple(pictures), index
        self._before = QApplication.focusWidget()
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._lay_out()
        self._keys = self._make_keys()
        self.canvas.zoomed.connect(self._tell)
        originals.read.connect(self._take)
        originals.failed.connect(self._complain)
        originals.saved.connect(self._said)
        window.installEventFilter(self)
        self.setGeometry(window.rect())
        self.show()
        self.raise_()
        self.setFocus()
        self._show(index)

    def _lay_out(self) -> None:
        self.canvas = Canvas(self)
        self._name, self._place, self._note = QLabel(self), QLabel(self), QLabel(self)
        for label, name in ((self._name, ""), (self._place, "muted"), (self._note, "muted")):
            label.setObjectName(name)
            label.setTextFormat(Qt.TextFormat.PlainText)
        set_font(self._name, strong=True)
        self._back = self._button("left", "Previous picture", lambda: self._walk(-1))
        self._on = self._button("right", "Next picture", lambda: self._walk(1))
        self._out = self._button("minus", "Zoom out", lambda: self.canvas.step(-1))
        self._in = self._button("plus", "Zoom in", lambda: self.canvas.step(1))
        self._fit = self._button("fit", "Fit the window", self.canvas.fit)
        self._one = self._button("actual", "Actual size", lambda: self.canvas.zoom(1.0))
        self._copy = self._button("copy", "Copy picture", self.copy)
        self._save = self._button("save", "Save as …", self.save)
        self._close = self._button("close", "Close", self.close)
        bar = QHBoxLayout()
        bar.setContentsMargins(16, 8, 12, 8)
        bar.setSpacing(4)
        bar.addWidget(self._name)
        bar.addSpacing(8)
        bar.addWidget(self._place)
        bar.addSpacing(8)
        bar.addWidget(self._note, 1)
        for button in self._stops():
            bar.addWidget(button)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(bar)
        column.addWidget(self.canvas, 1)
        column.addSpacing(16)

    def _button(self, picture: str, name: str, does: Callable[[], object]) -> IconButton:
        button = IconButton(picture, name, self, role="text")
        button.clicked.connect(lambda _=False: does())
        return button

    def _stops(self) -> list[IconButton]:
        walks = [self._back, self._on] if len(self._pictures) > 1 else []
        for button in (self._back, self._on):
            button.setVisible(bool(walks))
        return [*walks, self._out, self._in, self._fit, self._one, self._copy, self._save, self._close]

    # What is shown

    @property
    def picture(self) -> Attachment:
        """The one that is shown."""
        return self._pictures[self._index]

    def _show(self, index: int) -> None:
        self._index, item = index, self._pictures[index]
        self._name.setText(item.name)
        self._note.setText(item.note or "")
        self.setAccessibleName(f"{item.name}, picture {index + 1} of {len(self._pictures)}")
        self._back.setEnabled(index > 0)
        self._on.setEnabled(index < len(self._pictures) - 1)
        preview = QImage.fromData(item.thumbnail)
        self.canvas.show_preview(preview, QSize(max(item.width, 1), max(item.height, 1)))
        self._take(item.id)

    def _take(self, item_id: str) -> None:
        found = originals.get(self.picture) if item_id == self.picture.id else None
        if found is not None:
            self.canvas.show_original(found)
            self._look_ahead()

    def _look_ahead(self) -> None:
        """Read the neighbours, so that walking on shows them at once."""
        for index in (self._index + 1, self._index - 1):
            if 0 <= index < len(self._pictures):
                originals.get(self._pictures[index])

    def _complain(self, item_id: str, why: str) -> None:
        if item_id == self.picture.id:
            self._said(why)

    def _said(self, sentence: str) -> None:
        self._note.setText(sentence)

    def _tell(self) -> None:
        item = self.picture
        place = f"{self._index + 1} of {len(self._pictures)} · " if len(self._pictures) > 1 else ""
        self._place.setText(f"{place}{item.width} × {item.height} · {round(100 * self.canvas.scale)} %")

    # What can be done

    def _walk(self, by: int) -> None:
        if 0 <= self._index + by < len(self._pictures):
            self._show(self._index + by)

    def copy(self) -> None:
        """Put the picture on the clipboard."""
        if self.canvas.image is None:
            self._said("The picture is still being read.")
            return
        QGuiApplication.clipboard().setImage(self.canvas.image)
        self._said("Copied.")

    def save(self) -> None:
        """Let the person choose where a copy of the file goes."""
        item = self.picture
        dialog = QFileDialog(self, "Save picture as")
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.selectFile(item.name)
        dialog.fileSelected.connect(lambda name: originals.save(item, Path(name)))
        dialog.open()

    # Keys

    def _make_keys(self) -> dict[Qt.Key, Callable[[], object]]:
        key = Qt.Key
        return {
            key.Key_Escape: self.close,
            key.Key_Left: lambda: self._arrow(-1, 0),
            key.Key_Right: lambda: self._arrow(1, 0),
            key.Key_Up: lambda: self._arrow(0, -1),
            key.Key_Down: lambda: self._arrow(0, 1),
            key.Key_PageUp: lambda: self._walk(-1),
            key.Key_PageDown: lambda: self._walk(1),
            key.Key_Home: lambda: self._show(0),
            key.Key_End: lambda: self._show(len(self._pictures) - 1),
            key.Key_Plus: lambda: self.canvas.step(1),
            key.Key_Equal: lambda: self.canvas.step(1),
            key.Key_Minus: lambda: self.canvas.step(-1),
            key.Key_0: self.canvas.fit,
            key.Key_1: lambda: self.canvas.zoom(1.0),
        }

    def _arrow(self, across: int, down: int) -> None:
        """Walk on while the whole picture is seen; move over it when it is zoomed."""
        if self.canvas.fits:
            self._walk(across)
        else:
            self.canvas.pan(QPointF(across, down) * _PAN_PX)

    def _mine(self, event: QKeyEvent) -> Callable[[], object] | None:
        held = event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier & ~Qt.KeyboardModifier.ShiftModifier
        if held == Qt.KeyboardModifier.ControlModifier:
            return {Qt.Key.Key_C: self.copy, Qt.Key.Key_S: self.save}.get(Qt.Key(event.key()))
        return self._keys.get(Qt.Key(event.key())) if held == Qt.KeyboardModifier.NoModifier else None

    def event(self, event: QEvent) -> bool:
        """Take our keys before the window's shortcuts do."""
        if event.type() is QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent) and self._mine(event):
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        does = self._mine(event)
        if does is not None:
            does()
        else:
            super().keyPressEvent(event)

    def focusNextPrevChild(self, forward: bool) -> bool:
        """Keep the keyboard among our buttons."""
        stops: list[QWidget] = [button for button in self._stops() if button.isEnabled()]
        focused = QApplication.focusWidget()
        at = stops.index(focused) if focused in stops else -1 if forward else 0
        stops[(at + (1 if forward else -1)) % len(stops)].setFocus(Qt.FocusReason.TabFocusReason)
        return True

    # Life

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Stay as large as the window."""
        if event.type() is QEvent.Type.Resize and isinstance(watched, QWidget):
            self.setGeometry(watched.rect())
        return False

    def paintEvent(self, event: QPaintEvent) -> None:
        QPainter(self).fillRect(self.rect(), color("surface"))

    def closeEvent(self, event: QCloseEvent) -> None:
        originals.forget()
        if self._before is not None and isValid(self._before):
            self._before.setFocus()
        super().closeEvent(event)
