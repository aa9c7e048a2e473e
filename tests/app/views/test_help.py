"""The sheet of keys, the window that tells versions, and the choice of less movement."""

from __future__ import annotations

import logging
from logging.handlers import RotatingFileHandler
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QDesktopServices, QGuiApplication, QKeySequence
from PySide6.QtWidgets import QApplication, QLabel, QPushButton

from app import __version__
from app.state.versions import log_folder, versions
from app.views import motion
from app.views.about import About
from app.views.shortcuts import Shortcuts
from app.views.theme import theme
from tests.app.views.test_transcript import answers, settle

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")
CONTROL = Qt.KeyboardModifier.ControlModifier


def action(window, text: str):
    menus = [entry.menu() for entry in window.menuBar().actions()]
    return next(found for menu in menus for found in menu.actions() if found.text() == text)


@pytest.fixture
def log(tmp_path):
    handler = RotatingFileHandler(tmp_path / "braid.log")
    logging.getLogger().addHandler(handler)
    yield tmp_path
    logging.getLogger().removeHandler(handler)
    handler.close()


def test_the_sheet_lists_every_key_of_the_menus(stage, qtbot) -> None:
    window = stage("Kitchen").window
    qtbot.keyClick(window.page.composer.field, Qt.Key.Key_Slash, CONTROL)
    (sheet,) = window.findChildren(Shortcuts)
    said = {label.text() for label in sheet.findChildren(QLabel)}
    for entry in window.menuBar().actions():
        for found in entry.menu().actions():
            if found.shortcuts() and not found.shortcuts()[0].isEmpty():
                assert found.text().removesuffix(" …") in said
                assert found.shortcuts()[0].toString(QKeySequence.SequenceFormat.NativeText) in said
    assert {"Send", "Edit the last question, in an empty field", "Zoom"} <= said
    action(window, "Keyboard shortcuts").trigger()
    assert len(window.findChildren(Shortcuts)) == 1
    qtbot.waitUntil(sheet.isActiveWindow)
    qtbot.keyClick(sheet, Qt.Key.Key_Escape)
    assert not sheet.isVisible()


def test_a_question_mark_is_typed_where_words_are_and_opens_the_sheet_elsewhere(stage, qtbot) -> None:
    window = stage("Kitchen").window
    qtbot.keyClick(window.page.composer.field, Qt.Key.Key_Question)
    assert window.findChildren(Shortcuts) == []
    assert window.page.composer.field.toPlainText() == "?"
    window.strip.add.setFocus()
    qtbot.keyClick(window.strip.add, Qt.Key.Key_Question)
    assert len(window.findChildren(Shortcuts)) == 1


def test_the_versions_can_be_copied(stage, qtbot) -> None:
    window = stage("Kitchen").window
    action(window, "About Braid").trigger()
    (about,) = window.findChildren(About)
    copy = next(button for button in about.findChildren(QPushButton) if button.text() == "Copy details")
    copy.click()
    lines = QGuiApplication.clipboard().text().splitlines()
    assert lines[0] == f"Braid: {__version__}"
    assert [line.partition(":")[0] for line in lines] == [name for name, _ in versions()] + ["Model"]
    assert {"MLX", "mlx-vlm", "Qt", "Python", "System"} <= {name for name, _ in versions()}
    assert lines[-1] == "Model: Pocket"
    assert copy.text() == "Copied"
    about.close()


def test_the_log_s_folder_opens_where_there_is_one(stage, log, monkeypatch) -> None:
    asked = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: asked.append(Path(url.toLocalFile())))
    action(stage("Kitchen").window, "Open log folder").trigger()
    assert asked == [log] == [log_folder()]


def test_without_a_log_there_is_no_folder(stage, monkeypatch) -> None:
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: pytest.fail("opened"))
    assert log_folder() is None
    window = stage("Kitchen").window
    action(window, "Open log folder").trigger()
    action(window, "About Braid").trigger()
    (about,) = window.findChildren(About)
    assert not next(b for b in about.findChildren(QPushButton) if b.text() == "Open log folder").isEnabled()


def test_the_caret_stands_still_for_who_wants_less_movement(stage, qtbot) -> None:
    made = stage("Kitchen")
    try:
        made.preferences.choose("reduce_motion", True)
        turn = made.chat.begin("Words")
        settle(qtbot, made.window.page.transcript)
        (piece,) = answers(made.window.page.transcript)[0].views()
        assert piece._live
        assert not piece._pulse.isActive()
        made.chat.end(turn)
        made.preferences.choose("reduce_motion", False)
        made.chat.begin("More")
        settle(qtbot, made.window.page.transcript)
        assert answers(made.window.page.transcript)[1].views()[0]._pulse.isActive()
    finally:
        motion.choose(False)


def test_the_system_s_wish_for_a_caret_that_stands_still_is_heard(qapp) -> None:
    usual = QApplication.cursorFlashTime()
    try:
        QApplication.setCursorFlashTime(0)
        assert motion.reduced()
        QApplication.setCursorFlashTime(usual or 1000)
        assert not motion.reduced()
    finally:
        QApplication.setCursorFlashTime(usual)


def test_both_windows_follow_the_colours_and_the_size_of_text(stage, qtbot) -> None:
    window = stage("Kitchen").window
    for name in ("About Braid", "Keyboard shortcuts"):
        action(window, name).trigger()
    (about,), (sheet,) = window.findChildren(About), window.findChildren(Shortcuts)
    before = [dialog.sizeHint().height() for dialog in (about,)]
    theme.resize(150)
    theme.apply("dark")
    QApplication.processEvents()
    assert about.sizeHint().height() > before[0]
    assert sheet.isVisible()
