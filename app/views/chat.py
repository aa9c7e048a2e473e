"""One open conversation: its transcript above its composer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.views.composer import ComposerView
from app.views.transcript import Transcript

if TYPE_CHECKING:
    from app.state.conversation import Conversation
    from app.state.model import Model


class Chat(QWidget):
    """A page of the window."""

    def __init__(self, conversation: Conversation, model: Model, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.conversation = conversation
        self.transcript = Transcript(conversation, model, self)
        self.composer = ComposerView(conversation, model, self)
        self.composer.field.paged.connect(self.transcript.page)
        self.composer.field.recalled.connect(self.transcript.edit_last)
        self.transcript.left.connect(self.composer.field.setFocus)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.transcript, 1)
        column.addWidget(self.composer)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.composer.fit(event.size().height())
