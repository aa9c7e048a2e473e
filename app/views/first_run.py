"""Three things that a new window teaches: how things get in, and that chats answer together."""

from __future__ import annotations

from collections.abc import Collection

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from app.views.icons import icon
from app.views.theme import set_font, theme

_MEDIA = (("image", "pictures"), ("video", "clips"), ("audio", "sounds"))
_ICON_PX = 16


def media_words(takes: Collection[str]) -> str:
    """What a model can be shown, such as "Pictures, clips, PDFs and whole folders"; every model reads text."""
    names = [name for kind, name in _MEDIA if kind in takes]
    names += ["PDFs"] if "image" in takes else ["text files"]
    words = f"{', '.join(names)} and whole folders"
    return words[0].upper() + words[1:]


class Tip(QWidget):
    """A sign, a few words in strong type, and a sentence below them."""

    def __init__(self, picture: str, title: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._picture = picture
        self._icon, self.title, self.text = QLabel(self), QLabel(title, self), QLabel(self)
        self._icon.setFixedSize(QSize(_ICON_PX, _ICON_PX))
        set_font(self.title, strong=True)
        self.text.setObjectName("muted")
        for label in (self.title, self.text):
            label.setWordWrap(True)
            label.setAlignment(Qt.AlignmentFlag.AlignTop)
            # Any width will do: three of them share the column, whatever the size of text.
            policy = QSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
            policy.setHeightForWidth(True)
            label.setSizePolicy(policy)
        head = QHBoxLayout()
        head.setSpacing(8)
        head.addWidget(self._icon, alignment=Qt.AlignmentFlag.AlignTop)
        head.addWidget(self.title, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 0, 12, 0)
        column.setSpacing(4)
        column.addLayout(head)
        column.addWidget(self.text, 1)
        theme.changed.connect(self._draw)
        self._draw()

    def _draw(self) -> None:
        self._icon.setPixmap(icon(self._picture, "accent", _ICON_PX).pixmap(_ICON_PX, _ICON_PX))


class FirstRun(QWidget):
    """The three side by side, in line with the cards above them."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.drop = Tip("image", "Drop anywhere", self)
        self.paste = Tip("copy", "Paste or take a screenshot", self)
        self.tabs = Tip("fork", "Ask in two tabs at once", self)
        self.paste.text.setText(f"{_key('Ctrl+V')} takes pictures and files, {_key('Ctrl+Shift+P')} what is on screen.")
        self.tabs.text.setText(f"{_key('Ctrl+T')} opens another one. Both answer together; neither waits.")
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(16)
        for tip in (self.drop, self.paste, self.tabs):
            row.addWidget(tip, 1)
        self.follow({"image"})

    def follow(self, takes: Collection[str]) -> None:
        """Name what the model can be shown."""
        self.drop.text.setText(f"{media_words(takes)}. Over the tabs, a drop opens a new one.")


def _key(chord: str) -> str:
    return QKeySequence(chord).toString(QKeySequence.SequenceFormat.NativeText)
