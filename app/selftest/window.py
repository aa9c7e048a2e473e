"""Uses the window as a person does: looks at it, drops a picture, asks about it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication, QMimeData, QPointF, Qt, QUrl, SignalInstance
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QGuiApplication

from app.selftest.report import Failed

if TYPE_CHECKING:
    from app.views.window import Window

PICTURE = Path(__file__).parents[2] / "resources" / "samples" / "sign.png"
QUESTION = "What does the text say?"
ANSWER = "TAXI"
_COLOURS = 8
"""Fewer in the whole window would be an empty one."""


def check_shown(window: Window) -> str:
    """The window is there and drawn.

    Raises:
        Failed: it is hidden or empty.
    """
    image = window.grab().toImage()
    width, height = image.width(), image.height()
    colours = {image.pixel(x, y) for x in range(0, width, 3) for y in range(0, height, 3)}
    if not window.isVisible() or len(colours) < _COLOURS:
        raise Failed(f"The window is not drawn: it shows {len(colours)} colours.")
    return f"{width} × {height} pixels, {len(colours)} colours, by {QGuiApplication.platformName()}"


async def check_answer(window: Window) -> str:
    """A dropped picture is read, shown and answered about.

    Raises:
        Failed: the drop was not taken, or the answer is wrong.
    """
    chat = window.library.current
    drop(window, PICTURE)
    await until(lambda: chat.composer.can_send, chat.composer.changed)
    chip = chat.composer.chips[0]
    if chip.state != "ready":
        raise Failed(f"The dropped picture was not taken: {chip.error}")
    chat.composer.set_text(QUESTION)
    chat.composer.send()
    await until(lambda: not chat.answering, chat.activity_changed)
    answer = chat.turns[-1]
    if answer.state != "done" or ANSWER not in answer.text:
        raise Failed(f"“{QUESTION}” was answered with “{answer.text}” ({answer.error or answer.state}).")
    return f"{QUESTION} {answer.text}"


def drop(window: Window, file: Path) -> None:
    """Drop a file on the middle of the window."""
    mime = QMimeData()
    mime.setUrls([QUrl.fromLocalFile(str(file))])
    middle = window.rect().center()
    held = (Qt.DropAction.CopyAction, mime, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier)
    QCoreApplication.sendEvent(window, QDragEnterEvent(middle, *held))
    QCoreApplication.sendEvent(window, QDropEvent(QPointF(middle), *held))


async def until(condition: Callable[[], bool], *signals: SignalInstance) -> None:
    """Wait for a condition that can only change when one of the signals comes."""
    changed = asyncio.Event()
    with ExitStack() as connected:
        for signal in signals:
            signal.connect(changed.set)
            connected.callback(signal.disconnect, changed.set)
        while not condition():
            changed.clear()
            await changed.wait()
