from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, Qt, QUrl
from PySide6.QtGui import QColor, QGuiApplication, QImage
from PySide6.QtWidgets import QApplication

from app.views.composer import ComposerView
from tests.app.views.fakes import attachment

ENTER, SHIFT = Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier


@pytest.fixture
def made(stage):
    return stage("Kitchen")


@pytest.fixture
def composer(made) -> ComposerView:
    return made.window.page.composer


def type_in(qtbot, composer: ComposerView, text: str) -> None:
    qtbot.keyClicks(composer.field, text)


def paste(qtbot, composer: ComposerView, mime: QMimeData) -> None:
    QGuiApplication.clipboard().setMimeData(mime)
    qtbot.keyClick(composer.field, Qt.Key.Key_V, Qt.KeyboardModifier.ControlModifier)


def test_enter_sends_and_shift_enter_breaks_the_line(made, composer, qtbot, monkeypatch) -> None:
    draft = made.chat.composer
    type_in(qtbot, composer, "one")
    qtbot.keyClick(composer.field, ENTER, SHIFT)
    type_in(qtbot, composer, "two")
    assert draft.text == "one\ntwo"
    qtbot.keyClick(composer.field, ENTER)
    assert [text for text, _ in draft.sent] == ["one\ntwo"]
    assert composer.field.toPlainText() == ""


def test_nothing_is_sent_without_words_or_while_a_picture_is_read(made, composer, qtbot) -> None:
    draft = made.chat.composer
    qtbot.keyClick(composer.field, ENTER)
    type_in(qtbot, composer, "look")
    draft.add_files([Path("oven.heic")])
    qtbot.keyClick(composer.field, ENTER)
    assert draft.sent == []
    assert not composer._send.isEnabled()
    assert composer._hint.text() == "Reading 1 picture …"
    draft.finish(draft.chips[0].id, attachment("oven.heic"))
    assert composer._send.isEnabled()
    qtbot.mouseClick(composer._send, Qt.MouseButton.LeftButton)
    assert [(text, len(chips)) for text, chips in draft.sent] == [("look", 1)]


def test_the_button_stops_while_answering_and_sends_when_there_is_something_to_queue(made, composer, qtbot) -> None:
    made.chat.begin()
    assert composer._send.accessibleName() == "Stop"
    qtbot.mouseClick(composer._send, Qt.MouseButton.LeftButton)
    assert made.chat.stopped == 1
    type_in(qtbot, composer, "next")
    assert composer._send.accessibleName() == "Send"
    qtbot.keyClick(composer.field, ENTER)
    assert [text for text, _ in made.chat.composer.sent] == ["next"]
    made.chat.act(None, "")
    assert composer._send.accessibleName() == "Send"
    assert not composer._send.isEnabled()


def test_a_pasted_picture_becomes_an_attachment_without_stopping_the_window(made, composer, qtbot) -> None:
    image = QImage(40, 30, QImage.Format.Format_RGB32)
    image.fill(QColor("blue"))
    mime = QMimeData()
    mime.setImageData(image)
    draft = made.chat.composer
    with qtbot.waitSignal(draft.changed):
        paste(qtbot, composer, mime)
    (data,) = draft.asked
    assert QImage.fromData(data).pixelColor(1, 1) == QColor("blue")


def test_raw_picture_bytes_on_the_clipboard_are_taken_as_they_are(made, composer, qtbot) -> None:
    mime = QMimeData()
    mime.setData("image/png", b"bytes of a picture")
    mime.setImageData(QImage(2, 2, QImage.Format.Format_RGB32))
    paste(qtbot, composer, mime)
    assert made.chat.composer.asked == [b"bytes of a picture"]


def test_pasted_files_and_data_urls_are_attached_and_text_is_typed(made, composer, qtbot) -> None:
    files = QMimeData()
    files.setUrls([QUrl.fromLocalFile("/tmp/a b.png")])
    paste(qtbot, composer, files)
    url = QMimeData()
    url.setText("data:image/png;base64,AAAA")
    paste(qtbot, composer, url)
    assert made.chat.composer.asked == [Path("/tmp/a b.png"), "data:image/png;base64,AAAA"]
    text = QMimeData()
    text.setText("plain")
    text.setHtml("<b>plain</b>")
    paste(qtbot, composer, text)
    assert made.chat.composer.text == "plain"


def test_text_wins_over_the_picture_of_it_that_office_programs_add(made, composer, qtbot) -> None:
    mime = QMimeData()
    mime.setText("12\t13")
    mime.setImageData(QImage(20, 20, QImage.Format.Format_RGB32))
    paste(qtbot, composer, mime)
    assert made.chat.composer.text == "12\t13"
    assert made.chat.composer.asked == []


def test_a_chip_says_its_cost_or_its_fault_and_can_be_removed(made, composer, qtbot) -> None:
    draft = made.chat.composer
    draft.add_files([Path("oven.heic"), Path("torn.jpg")])
    good, bad = draft.chips
    draft.finish(good.id, attachment("oven.heic"))
    draft.finish(bad.id, None, "torn.jpg is damaged: nothing of it could be read.")
    names = [composer._chips[chip.id].accessibleName() for chip in (good, bad)]
    assert names == ["oven.heic: 320 × 240 · 312 tokens", f"torn.jpg: {draft.chips[1].error}"]
    assert composer.notice.isVisible()
    assert composer.notice.accessibleName() == draft.chips[1].error
    qtbot.mouseClick(composer._chips[bad.id].remove, Qt.MouseButton.LeftButton)
    assert [chip.name for chip in draft.chips] == ["oven.heic"]


def test_a_notice_stays_until_it_is_dismissed(made, composer, qtbot) -> None:
    made.chat.composer.notice.emit("notes.zip is an archive.")
    assert composer.notice.isVisible()
    qtbot.keyClick(made.window, Qt.Key.Key_Escape)
    assert not composer.notice.isVisible()


def test_the_field_grows_with_its_lines_up_to_eight(made, composer, qtbot) -> None:
    heights = []
    for _ in range(12):
        QApplication.processEvents()
        heights.append(composer.field.height())
        qtbot.keyClick(composer.field, ENTER, SHIFT)
    assert heights[:8] == sorted(set(heights))
    assert len(set(heights[7:])) == 1


def test_a_text_only_model_is_named_before_sending(made, composer, qtbot) -> None:
    made.model.takes_images = False
    made.chat.composer.add_files([Path("a.png")])
    made.chat.composer.finish(made.chat.composer.chips[0].id, attachment("a.png"))
    assert composer._hint.text() == "Pocket cannot see pictures"


def test_a_draft_put_back_is_shown(made, composer) -> None:
    made.chat.composer.set_text("put back")
    assert composer.field.toPlainText() == "put back"


def test_each_tab_has_its_own_draft(stage, qtbot) -> None:
    made = stage("Kitchen", "Street")
    type_in(qtbot, made.window.page.composer, "oven")
    made.library.select(made.library.tabs[1].id)
    assert made.window.page.composer.field.toPlainText() == ""
    made.library.select(made.library.tabs[0].id)
    assert made.window.page.composer.field.toPlainText() == "oven"
