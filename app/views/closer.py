"""A closer look at one attachment of a draft, under its chip: what it is, and which part of it is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF, Qt, QUrl
from PySide6.QtGui import QDesktopServices, QPainter, QPaintEvent, QPixmap
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPlainTextEdit, QVBoxLayout, QWidget

from app.views.buttons import IconButton
from app.views.clip_strip import ClipStrip
from app.views.page_range import PageRange
from app.views.pictures import paint_rounded, pixmap
from app.views.sound_chip import SoundChip
from app.views.theme import SMALL_PX, scaled, set_font

if TYPE_CHECKING:
    from app.state.attachment import Attachment, Excerpt
    from app.state.composer import Composer

_PICTURE_PX = 220
_TEXT_PX = 140


class Closer(QFrame):
    """Shows what the draft's preview shows; hidden while that is nothing."""

    def __init__(self, draft: Composer, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._draft = draft
        self._title = QLabel(self)
        set_font(self._title, strong=True)
        self._facts = QLabel(self)
        self._facts.setObjectName("muted")
        set_font(self._facts, 12)
        self._outside = IconButton("outside", "Open in another program", self)
        self._outside.clicked.connect(self._open_outside)
        self._close = IconButton("up", "Close preview", self)
        self._close.clicked.connect(draft.preview.close)
        self.picture, self.clip = _Large(self), ClipStrip(self)
        self.sound, self.pages = SoundChip(parent=self), PageRange(self)
        self.words = QPlainTextEdit(self)
        self.words.setAccessibleName("Beginning of the text")
        self.words.setReadOnly(True)
        self.words.setTabChangesFocus(True)
        self.words.setFixedHeight(scaled(_TEXT_PX))
        set_font(self.words, SMALL_PX + 1)
        self._kinds: dict[str, QWidget] = {
            "image": self.picture,
            "video": self.clip,
            "audio": self.sound,
            "pdf": self.pages,
            "text": self.words,
        }
        self._lay_out()
        self.clip.chosen.connect(self._choose)
        self.pages.chosen.connect(self._choose)
        self.hide()

    def _lay_out(self) -> None:
        head = QHBoxLayout()
        head.setSpacing(8)
        head.addWidget(self._title)
        head.addWidget(self._facts, 1)
        head.addWidget(self._outside)
        head.addWidget(self._close)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 4)
        column.setSpacing(8)
        column.addLayout(head)
        for widget in self._kinds.values():
            column.addWidget(widget)

    def stops(self) -> list[QWidget]:
        """What Tab visits, in order."""
        inner = [*self.clip.stops(), *self.sound.stops(), *self.pages.stops(), self.words]
        return [self._outside, self._close, *inner]

    def take(self) -> None:
        """Show the attachment as it is now."""
        chip = self._draft.preview.chip
        item = chip.attachment if chip is not None else None
        if item is None:
            self.sound.leave()
            self.hide()
            return
        self._title.setText(self.fontMetrics().elidedText(item.name, Qt.TextElideMode.ElideMiddle, scaled(320)))
        cost = f" · {item.tokens:,} tokens" if item.tokens is not None else ""
        note = f" · {item.note}" if item.note else ""
        self._facts.setText(f"{self._draft.facts(item)}{cost}{note}")
        for kind, widget in self._kinds.items():
            widget.setVisible(kind == item.kind)
        self._fill(item)
        self.show()

    def _fill(self, item: Attachment) -> None:
        look = self._draft.preview.look
        match item.kind:
            case "video":
                self.clip.show_clip(item, look, self._draft.preview.sampling[0])
            case "pdf":
                self.pages.show_document(item, look)
            case "audio":
                self.sound.show_sound(item)
            case "text":
                self.words.setPlainText((look.text or look.error) if look is not None else "Reading …")
            case "image":
                self.picture.show_picture(item)

    def _choose(self, excerpt: Excerpt) -> None:
        self._draft.choose(self._draft.preview.chip_id, excerpt)

    def _open_outside(self) -> None:
        chip = self._draft.preview.chip
        if chip is not None and chip.attachment is not None:
            QDesktopServices.openUrl(QUrl.fromLocalFile(str(chip.attachment.path)))


class _Large(QWidget):
    """A picture as large as there is room."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._pixmap = QPixmap()
        self._path = ""
        self.setFixedHeight(scaled(_PICTURE_PX))

    def show_picture(self, item: Attachment) -> None:
        if str(item.path) != self._path:
            self._path, self._pixmap = str(item.path), pixmap(item.thumbnail)
            self.setAccessibleName(f"Picture: {item.name}")
            self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        size = self._pixmap.size().scaled(self.size(), Qt.AspectRatioMode.KeepAspectRatio)
        paint_rounded(QPainter(self), QRectF(0, 0, size.width(), size.height()), self._pixmap)
