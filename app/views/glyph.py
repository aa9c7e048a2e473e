"""The little signs for what a conversation is doing; each has a word beside it, never colour alone."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QPainter, QPen

from app.views.theme import color

PARTS = {"preparing": 0.25, "vision": 0.5, "prefill": 0.75}


def paint(painter: QPainter, rect: QRectF, phase: str | None) -> None:
    """Draw the sign of a phase (``Phase.value``; None is idle) in a square.

    Idle is nothing, queued a ring, preparing, vision and prefill a filling pie, generation a full disc.
    """
    if phase is None:
        return
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    ring = rect.adjusted(1, 1, -1, -1)
    painter.setPen(QPen(color("muted" if phase == "queued" else "accent"), 1.5))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.drawEllipse(ring)
    part = PARTS.get(phase, 1.0 if phase == "generation" else 0.0)
    if part:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(color("accent"))
        inner = ring if part == 1.0 else ring.adjusted(1, 1, -1, -1)
        painter.drawPie(inner, 90 * 16, -round(part * 360 * 16))
