"""A picture that can be zoomed and moved, drawn from smaller copies where it is shown small."""

from __future__ import annotations

from PySide6.QtCore import QObject, QPointF, QRectF, QSize, QSizeF, Qt, QThreadPool, Signal
from PySide6.QtGui import QImage, QMouseEvent, QPainter, QPaintEvent, QResizeEvent, QWheelEvent
from PySide6.QtWidgets import QWidget

from app.state.originals import Original

_SMALLEST_PX = 1024
_STEP = 1.25
_MOST = 16.0


class Shrinker(QObject):
    """Makes a picture out of pixels and halves it until it is small, in the thread pool.

    Signals:
        done: a number that was given with the pixels, and the picture at falling sizes.
    """

    done = Signal(int, list)

    def start(self, number: int, found: Original) -> None:
        """Begin."""
        QThreadPool.globalInstance().start(lambda: self.done.emit(number, _halves(found)))


shrinker = Shrinker()
"""There is one, so that work under way never outlives what it reports to."""


def _halves(found: Original) -> list[QImage]:
    borrowed = QImage(found.data, found.width, found.height, 3 * found.width, QImage.Format.Format_RGB888)
    levels = [borrowed.convertToFormat(QImage.Format.Format_RGB32)]
    while max(levels[-1].width(), levels[-1].height()) > 2 * _SMALLEST_PX:
        size = QSize(max(1, levels[-1].width() // 2), max(1, levels[-1].height() // 2))
        smooth = Qt.TransformationMode.SmoothTransformation
        levels.append(levels[-1].scaled(size, Qt.AspectRatioMode.IgnoreAspectRatio, smooth))
    return levels


class Canvas(QWidget):
    """Shows one picture.

    Signals:
        zoomed: the scale is another one.

    Attributes:
        scale: pixels of the screen for one of the picture, in the size that it was said to have.
        image: the picture itself; None while only its preview is there.
    """

    zoomed = Signal()
    _count = 0

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._levels: list[QImage] = []
        self._size = QSizeF(1, 1)
        self._middle = QPointF(0, 0)
        """What of the picture is in the middle of the canvas, in its pixels."""
        self._number = 0
        self._fits = True
        self._grabbed: QPointF | None = None
        self.scale = 1.0
        self.image: QImage | None = None
        shrinker.done.connect(self._take)

    @property
    def fits(self) -> bool:
        """Whether the whole picture is shown."""
        return self._fits

    def show_preview(self, image: QImage, size: QSize) -> None:
        """Show a small copy of a picture of this size, as a whole."""
        Canvas._count += 1
        self._number = Canvas._count
        self._levels, self._size, self.image = [image], QSizeF(size), None
        self.fit()

    def show_original(self, found: Original) -> None:
        """Show the picture itself in place of its preview, as soon as it is made; how it is zoomed stays."""
        shrinker.start(self._number, found)

    def _take(self, number: int, levels: list[QImage]) -> None:
        if number == self._number:
            self._levels, self.image = levels, levels[0]
            self.update()

    # Zoom

    def fit(self) -> None:
        """Show the whole picture, never larger than it is."""
        self._fits = True
        room, ratio = QSizeF(self.size()) * self.devicePixelRatioF(), self._size
        self._middle = QPointF(self._size.width() / 2, self._size.height() / 2)
        self._set(min(1.0, room.width() / ratio.width(), room.height() / ratio.height()))

    def zoom(self, scale: float, at: QPointF | None = None) -> None:
        """Show it at a scale; what lies at a place of the canvas stays there."""
        self._fits = False
        at = at or QPointF(self.rect().center())
        before = self._picture_at(at)
        self._set(min(max(scale, 0.02), _MOST))
        self._move(before - self._picture_at(at))

    def step(self, by: int, at: QPointF | None = None) -> None:
        """Zoom in (1) or out (-1) a little."""
        self.zoom(self.scale * _STEP**by, at)

    def pan(self, by: QPointF) -> None:
        """Move what is seen, by px of the canvas."""
        self._move(by * (self.devicePixelRatioF() / self.scale))

    def _set(self, scale: float) -> None:
        self.scale = max(scale, 1e-4)
        self.setCursor(Qt.CursorShape.ArrowCursor if self._fits else Qt.CursorShape.OpenHandCursor)
        self.update()
        self.zoomed.emit()

    def _move(self, by: QPointF) -> None:
        place = self._middle + by
        self._middle = QPointF(min(max(place.x(), 0), self._size.width()), min(max(place.y(), 0), self._size.height()))
        self.update()

    def _picture_at(self, place: QPointF) -> QPointF:
        off = (place - QPointF(self.rect().center())) * (self.devicePixelRatioF() / self.scale)
        return self._middle + off

    def _place(self) -> QRectF:
        """Where the whole picture lies on the canvas."""
        scale = self.scale / self.devicePixelRatioF()
        corner = QPointF(self.rect().center()) - self._middle * scale
        return QRectF(corner, self._size * scale)

    # Events

    def paintEvent(self, event: QPaintEvent) -> None:
        place = self._place()
        seen = place.intersected(QRectF(self.rect()))
        if not self._levels or seen.isEmpty():
            return
        # The smallest copy that still has a pixel for each of the screen.
        enough = [level for level in self._levels if level.width() >= self._size.width() * self.scale * 0.99]
        level = min(enough or self._levels[:1], key=QImage.width)
        across, down = level.width() / place.width(), level.height() / place.height()
        source = QRectF(
            (seen.x() - place.x()) * across, (seen.y() - place.y()) * down, seen.width() * across, seen.height() * down
        )
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, self.scale < 4)
        painter.drawImage(seen, level, source)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self._fits:
            self.fit()

    def wheelEvent(self, event: QWheelEvent) -> None:
        turns = event.angleDelta().y() / 120
        self.zoom(self.scale * _STEP**turns, event.position())
        event.accept()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if not self._fits and event.button() == Qt.MouseButton.LeftButton:
            self._grabbed = event.position()
            self.setCursor(Qt.CursorShape.ClosedHandCursor)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._grabbed is not None:
            self.pan(self._grabbed - event.position())
            self._grabbed = event.position()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        self._grabbed = None
        self.setCursor(Qt.CursorShape.ArrowCursor if self._fits else Qt.CursorShape.OpenHandCursor)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        if self._fits:
            self.zoom(1.0, event.position())
        else:
            self.fit()
