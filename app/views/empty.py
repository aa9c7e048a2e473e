"""What a chat shows before its first message: three pictures to try, each with a question, and what else there is."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, QRectF, QSize, QSizeF, Qt
from PySide6.QtGui import QPainter, QPainterPath, QPaintEvent, QPen, QPixmap
from PySide6.QtWidgets import QAbstractButton, QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from app.views.first_run import FirstRun
from app.views.theme import RESOURCES, UI_PX, color, scaled, set_font, theme, ui_font

if TYPE_CHECKING:
    from app.state.conversation import Conversation
    from app.state.model import Model

SAMPLES = (
    ("shapes.png", "Make a table of the shapes."),
    ("chart.png", "Which bar is the tallest?"),
    ("sign.png", "What does the text say?"),
)


class Sample(QAbstractButton):
    """A card with a picture and the question that a click asks about it."""

    def __init__(self, file: Path, question: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setText(question)
        self.setAccessibleName(f"Try it: {question}")
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._picture = QPixmap(str(file))
        theme.changed.connect(self.updateGeometry)
        self._ground = self._picture.toImage().pixelColor(0, 0)

    def sizeHint(self) -> QSize:
        return QSize(208, self._height())

    def minimumSizeHint(self) -> QSize:
        return QSize(96, self._height())

    def _height(self) -> int:
        """Room for two lines of the question, at any size of text."""
        return 140 + scaled(56)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        frame = QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
        painter.setPen(QPen(color("accent" if self.hasFocus() else "line"), 2 if self.hasFocus() else 1))
        painter.setBrush(color("hover" if self.underMouse() else "raised"))
        painter.drawRoundedRect(frame, 10, 10)
        self._show_picture(painter, QRectF(8, 8, self.width() - 16, 124))
        painter.setPen(color("text"))
        painter.setFont(ui_font(UI_PX))
        flags = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter | Qt.TextFlag.TextWordWrap
        painter.drawText(QRectF(12, 136, self.width() - 24, scaled(56)), int(flags), self.text())

    def _show_picture(self, painter: QPainter, place: QRectF) -> None:
        """The whole picture, on a surface of its own background's colour."""
        shape = QPainterPath()
        shape.addRoundedRect(place, 6, 6)
        painter.setPen(color("line"))
        painter.setBrush(self._ground)
        painter.drawPath(shape)
        size = QSizeF(self._picture.size()).scaled(place.size() * 0.9, Qt.AspectRatioMode.KeepAspectRatio)
        inner = QRectF(QPointF(0, 0), size)
        inner.moveCenter(place.center())
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
        painter.drawPixmap(inner, self._picture, QRectF(self._picture.rect()))


class Empty(QWidget):
    """The invitation in a new chat."""

    def __init__(self, conversation: Conversation, model: Model, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._chat, self._model = conversation, model
        self._title = QLabel("Ask about a picture", self)
        set_font(self._title, 22, strong=True)
        self._hint = QLabel(self)
        self._hint.setObjectName("muted")
        self._hint.setWordWrap(True)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 48, 0, 24)
        column.setSpacing(8)
        column.addWidget(self._title)
        column.addWidget(self._hint)
        column.addSpacing(16)
        row = QHBoxLayout()
        row.setSpacing(16)
        column.addLayout(row)
        for name, question in SAMPLES:
            file = RESOURCES / "samples" / name
            card = Sample(file, question, self)
            card.clicked.connect(partial(self._ask, file, question))
            row.addWidget(card)
        column.addSpacing(24)
        self.lessons = FirstRun(self)
        column.addWidget(self.lessons)
        model.changed.connect(self._explain)
        self._explain()

    def _explain(self) -> None:
        failed = self._model.status == "failed"
        self._hint.setText(
            f"{self._model.name} could not be loaded. {self._model.error or ''}".strip()
            if failed
            else "Drop, paste or attach your own, or try one of these."
        )
        name = "error" if failed else "muted"
        if self._model.takes:  # not while another one is loaded
            self.lessons.follow(self._model.takes)
        if self._hint.objectName() != name:
            self._hint.setObjectName(name)
            self._hint.style().polish(self._hint)

    def _ask(self, file: Path, question: str) -> None:
        """Send the sample with its question as soon as it was read; words already typed stay, unsent."""
        draft = self._chat.composer
        untouched = not draft.text.strip() and not draft.chips
        draft.add_files([file])
        if not untouched:
            return
        draft.set_text(question)

        def when_ready() -> None:
            if draft.text != question or any(chip.state == "failed" for chip in draft.chips):
                draft.changed.disconnect(when_ready)
            elif draft.can_send:
                draft.changed.disconnect(when_ready)
                draft.send()

        draft.changed.connect(when_ready)
        when_ready()
