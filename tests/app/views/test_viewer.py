from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image
from PySide6.QtCore import QPoint, QPointF, Qt, QThreadPool
from PySide6.QtGui import QGuiApplication, QWheelEvent
from PySide6.QtWidgets import QApplication, QFileDialog

from app.state.originals import originals
from app.views.pictures import Picture
from app.views.viewer import Viewer
from tests.app.views.fakes import attachment


def kept(folder: Path, name: str, size: tuple[int, int], colour: str):
    """A picture with a file of its own."""
    image = Image.new("RGB", size, colour)
    image.putpixel((0, 0), (1, 2, 3))
    image.save(folder / name)
    return attachment(str(folder / name), image=image)


@pytest.fixture
def gallery(stage, qtbot, tmp_path):
    """A stage with three pictures in two questions, and the buttons that show them."""
    made = stage("Kitchen", "Street")
    made.chat.ask("These", kept(tmp_path, "a.png", (2400, 1200), "red"), kept(tmp_path, "b.png", (300, 200), "lime"))
    made.chat.answer("Yes.")
    made.chat.ask("And this?", kept(tmp_path, "c.png", (5000, 4000), "blue"))
    QApplication.processEvents()
    yield made, made.window.findChildren(Picture)
    QThreadPool.globalInstance().waitForDone()


def opened(made) -> Viewer:
    (viewer,) = made.window.findChildren(Viewer)
    return viewer


def press(qtbot, key: Qt.Key, held=Qt.KeyboardModifier.NoModifier) -> None:
    qtbot.keyClick(QApplication.focusWidget(), key, held)


def test_a_click_shows_the_picture_in_full_size_over_the_window(gallery, qtbot) -> None:
    made, pictures = gallery
    qtbot.mouseClick(pictures[0], Qt.MouseButton.LeftButton)
    viewer = opened(made)
    assert viewer.geometry() == made.window.rect()
    assert viewer.canvas.fits
    qtbot.waitUntil(lambda: viewer.canvas.image is not None)
    assert viewer.canvas.image.size().toTuple() == (2400, 1200)
    assert viewer.accessibleName().endswith("a.png, picture 1 of 3")
    assert viewer._place.text().startswith("1 of 3 · 2400 × 1200 · ")
    made.window.resize(1000, 700)
    assert viewer.geometry() == made.window.rect()


def test_it_opens_with_the_keyboard_and_gives_the_keyboard_back(gallery, qtbot) -> None:
    made, pictures = gallery
    pictures[1].setFocus()
    press(qtbot, Qt.Key.Key_Space)
    viewer = opened(made)
    assert viewer.hasFocus()
    seen = set()
    for _ in range(12):
        press(qtbot, Qt.Key.Key_Tab)
        assert viewer.isAncestorOf(QApplication.focusWidget())
        seen.add(QApplication.focusWidget().accessibleName())
    assert {"Previous picture", "Next picture", "Zoom in", "Fit the window", "Save as …", "Close"} <= seen
    press(qtbot, Qt.Key.Key_Escape)
    assert not viewer.isVisible()
    assert QApplication.focusWidget() is pictures[1]
    assert originals._kept == {}


def test_arrows_walk_through_all_pictures_of_the_chat_while_the_whole_is_seen(gallery, qtbot) -> None:
    made, pictures = gallery
    qtbot.mouseClick(pictures[0], Qt.MouseButton.LeftButton)
    viewer = opened(made)
    names = []
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Right, Qt.Key.Key_Right, Qt.Key.Key_Left, Qt.Key.Key_Home):
        press(qtbot, key)
        names.append(Path(viewer.picture.name).name)
    assert names == ["b.png", "c.png", "c.png", "b.png", "a.png"]
    qtbot.waitUntil(lambda: viewer.canvas.image is not None and viewer.canvas.image.width() == 2400)


def test_zoom_keeps_its_place_and_stays_on_the_picture(gallery, qtbot) -> None:
    made, pictures = gallery
    qtbot.mouseClick(pictures[2], Qt.MouseButton.LeftButton)
    viewer = opened(made)
    canvas = viewer.canvas
    QApplication.processEvents()
    fitted = canvas.scale
    place = QPointF(200, 150)
    before = canvas._picture_at(place)
    wheel = QWheelEvent(
        place,
        QPointF(canvas.mapToGlobal(place.toPoint())),
        QPoint(0, 240),
        QPoint(0, 240),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(canvas, wheel)
    assert canvas.scale == pytest.approx(fitted * 1.25**2)
    assert (canvas._picture_at(place) - before).manhattanLength() < 1
    press(qtbot, Qt.Key.Key_1)
    assert canvas.scale == 1.0
    middle = canvas._middle.x()
    press(qtbot, Qt.Key.Key_Right)
    assert canvas._middle.x() > middle
    assert Path(viewer.picture.name).name == "c.png"
    for _ in range(200):
        press(qtbot, Qt.Key.Key_Down)
    assert canvas._middle.y() == 4000
    qtbot.waitUntil(lambda: canvas.image is not None)
    assert canvas.scale == 1.0
    press(qtbot, Qt.Key.Key_0)
    assert canvas.fits
    assert canvas.scale == pytest.approx(fitted, rel=0.01)
    assert canvas.image.width() * canvas.image.height() <= 4096 * 4096  # the engine reads no more than this
    levels = [level.width() for level in canvas._levels]
    assert levels[1:] == [levels[0] // 2, levels[0] // 4]
    assert levels[-1] <= 2048


def test_copy_and_save_give_the_picture_as_it_was_attached(gallery, qtbot, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(QFileDialog, "open", lambda dialog: None)
    made, pictures = gallery
    qtbot.mouseClick(pictures[1], Qt.MouseButton.LeftButton)
    viewer = opened(made)
    qtbot.waitUntil(lambda: viewer.canvas.image is not None)
    press(qtbot, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    copied = QGuiApplication.clipboard().image()
    assert copied.size().toTuple() == (300, 200)
    assert copied.pixelColor(0, 0).getRgb()[:3] == (1, 2, 3)
    assert viewer._note.text() == "Copied."
    press(qtbot, Qt.Key.Key_S, Qt.KeyboardModifier.ControlModifier)
    dialog = viewer.findChild(QFileDialog)
    target = tmp_path / "out.png"
    with qtbot.waitSignal(originals.saved):
        dialog.fileSelected.emit(str(target))
    assert target.read_bytes() == (tmp_path / "b.png").read_bytes()
    assert viewer._note.text() == "Saved as out.png."
    dialog.close()
    with qtbot.waitSignal(originals.saved):
        originals.save(viewer.picture, tmp_path / "nowhere" / "x.png")
    assert "could not be saved" in viewer._note.text()


def test_a_picture_that_is_gone_says_so_and_the_preview_stays(gallery, qtbot, tmp_path) -> None:
    made, pictures = gallery
    (tmp_path / "a.png").unlink()
    qtbot.mouseClick(pictures[0], Qt.MouseButton.LeftButton)
    viewer = opened(made)
    qtbot.waitUntil(lambda: "a.png" in viewer._note.text())
    assert viewer.canvas._levels
    press(qtbot, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert viewer._note.text() == "The picture is still being read."


def test_the_window_s_own_keys_go_on_working_under_it(gallery, qtbot) -> None:
    made, pictures = gallery
    qtbot.mouseClick(pictures[0], Qt.MouseButton.LeftButton)
    press(qtbot, Qt.Key.Key_W, Qt.KeyboardModifier.ControlModifier)
    assert len(made.library.tabs) == 1
