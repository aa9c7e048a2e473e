"""One tab: sign, title, what is going on, close; double click renames."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QEnterEvent, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen, QResizeEvent
from PySide6.QtWidgets import QAbstractButton, QLineEdit, QMenu, QWidget

from app.views import glyph
from app.views.buttons import IconButton
from app.views.escape import claims_escape
from app.views.theme import SMALL_PX, UI_PX, color, ui_font

if TYPE_CHECKING:
    from app.state.conversation import Conversation

HEIGHT = 32
_DRAG_PX = 8


class Title(QLineEdit):
    """The field in which a title is changed; Escape and leaving empty keep the old one.

    Signals:
        left: editing is over.
    """

    left = Signal()

    def event(self, event: QEvent) -> bool:
        """Take Escape before the window's shortcut does."""
        return claims_escape(event) or super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.clear()
            self.left.emit()
        else:
            super().keyPressEvent(event)


class Tab(QAbstractButton):
    """The tab of one conversation.

    Signals:
        closed: its cross was pressed (or the middle button).
        dragged: it was moved to x, px in the strip.
        dropped: the move is over.
        pulled: it is held at this place of the screen, below the strip; True when it was let go there.
        configured: the person wants to choose how the chat is answered.
        beside: the person wants to see it beside another one.
    """

    closed = Signal(str)
    dragged = Signal(str, float)
    dropped = Signal(str)
    pulled = Signal(str, QPointF, bool)
    configured = Signal(str)
    beside = Signal(str)

    def __init__(self, chat: Conversation, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.chat = chat
        self.setCheckable(True)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)
        self._close = IconButton("close", "Close", self)
        self._close.setIconSize(QSize(12, 12))
        self._close.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # the tab has its key and its menu for this
        self._close.clicked.connect(lambda: self.closed.emit(self.chat.id))
        self._editor: Title | None = None
        self._grabbed: QPointF | None = None
        self.moving = False
        self._aside = False
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.customContextMenuRequested.connect(self._menu)
        chat.title_changed.connect(self.refresh)
        chat.activity_changed.connect(self.refresh)
        self.toggled.connect(self._mark_close)
        self._mark_close()
        self.refresh()

    def refresh(self) -> None:
        """Draw the conversation's title and activity as they are now."""
        state = self.chat.activity or ("unread answer" if self.chat.unread else "")
        self.setAccessibleName(", ".join(part for part in (self.chat.title, state) if part))
        self._close.rename(f"Close {self.chat.title}")
        self.setToolTip(self.chat.title)
        self.update()

    def mark_aside(self, aside: bool) -> None:
        """Show whether the chat is seen beside the current one."""
        if aside != self._aside:
            self._aside = aside
            self.update()

    def rename(self) -> None:
        """Let the title be changed in place."""
        if self._editor is not None:
            return
        editor = self._editor = Title(self.chat.title, self)
        editor.setAccessibleName("Title of the chat")
        editor.setAcceptDrops(False)
        editor.setGeometry(self.rect().adjusted(4, 2, -4, -2))
        editor.selectAll()
        editor.editingFinished.connect(self._renamed)
        editor.left.connect(self._renamed)
        editor.show()
        editor.setFocus()

    def _renamed(self) -> None:
        editor, self._editor = self._editor, None
        if editor is None:
            return
        title = editor.text().strip()
        editor.hide()
        editor.deleteLater()
        if title and title != self.chat.title:
            self.chat.rename(title)

    def _menu(self, place: object) -> None:
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.addAction("Rename", self.rename)
        menu.addAction("Chat settings …", lambda: self.configured.emit(self.chat.id))
        menu.addAction("Show beside another tab", lambda: self.beside.emit(self.chat.id))
        stop = menu.addAction("Stop answering", self.chat.stop)
        stop.setEnabled(self.chat.phase is not None)
        menu.addSeparator()
        menu.addAction("Close tab", lambda: self.closed.emit(self.chat.id))
        menu.popup(self.mapToGlobal(self.rect().bottomLeft()))

    def _mark_close(self) -> None:
        self._close.setVisible(self.isChecked() or self.underMouse())

    # Drawing

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._surface(painter)
        left = 12.0
        phase = self.chat.phase.value if self.chat.phase is not None else None
        if phase is not None:
            glyph.paint(painter, QRectF(left, (self.height() - 10) / 2, 10, 10), phase)
            left += 18
        right = self.width() - (30.0 if self._close.isVisible() else 12.0)
        if self.chat.unread:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(color("accent"))
            painter.drawEllipse(QRectF(right - 8, (self.height() - 8) / 2, 8, 8))
            right -= 14
        self._words(painter, left, right)

    def _surface(self, painter: QPainter) -> None:
        frame = QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
        painter.setPen(Qt.PenStyle.NoPen)
        if self.isChecked():
            painter.setPen(QPen(color("line"), 1))
            painter.setBrush(color("surface"))
            painter.drawRoundedRect(frame, 8, 8)
        elif self._aside or self.underMouse():
            painter.setPen(QPen(color("line"), 1) if self._aside else Qt.PenStyle.NoPen)
            painter.setBrush(color("hover"))
            painter.drawRoundedRect(frame, 8, 8)
        if self.hasFocus():
            painter.setPen(QPen(color("accent"), 2))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(frame.adjusted(0.5, 0.5, -0.5, -0.5), 8, 8)

    def _words(self, painter: QPainter, left: float, right: float) -> None:
        middle = Qt.AlignmentFlag.AlignVCenter
        painter.setFont(ui_font(SMALL_PX))
        activity = self.chat.activity
        wide = painter.fontMetrics().horizontalAdvance(activity) if activity else 0
        if activity and right - left - wide > 48:
            painter.setPen(color("muted"))
            painter.drawText(QRectF(right - wide, 0, wide + 1, self.height()), middle, activity)
            right -= wide + 8
        painter.setFont(ui_font(UI_PX, strong=self.isChecked() or self.chat.unread))
        painter.setPen(color("text" if self.isChecked() or self.chat.unread else "muted"))
        title = painter.fontMetrics().elidedText(self.chat.title, Qt.TextElideMode.ElideRight, int(right - left))
        painter.drawText(QRectF(left, 0, right - left, self.height()), middle, title)

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._close.setGeometry(self.width() - 26, (self.height() - 20) // 2, 20, 20)
        super().resizeEvent(event)

    # Hands

    def enterEvent(self, event: QEnterEvent) -> None:
        super().enterEvent(event)
        self._mark_close()

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self._mark_close()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Left, Qt.Key.Key_Right):
            event.ignore()  # the strip goes to the neighbour
        else:
            super().keyPressEvent(event)

    def nextCheckState(self) -> None:
        """A press never unchecks the current tab; the strip checks tabs."""

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.MiddleButton:
            self.closed.emit(self.chat.id)
        elif event.button() == Qt.MouseButton.LeftButton:
            self._grabbed = event.position()
            self.pressed.emit()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._grabbed is None:
            return
        far = abs(event.position().x() - self._grabbed.x()) > _DRAG_PX
        if self.moving or far:
            self.moving = True
            self.raise_()
            self.dragged.emit(self.chat.id, self.x() + event.position().x() - self._grabbed.x())
            self.pulled.emit(self.chat.id, event.globalPosition(), False)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        self._grabbed = None
        if self.moving:
            self.moving = False
            self.dropped.emit(self.chat.id)
            self.pulled.emit(self.chat.id, event.globalPosition(), True)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self.rename()
