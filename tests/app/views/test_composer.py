from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QColor, QDesktopServices, QGuiApplication, QImage, QMouseEvent
from PySide6.QtWidgets import QApplication

from app.state.attachment import Excerpt
from app.state.forecast import Before, Cost
from app.state.preview import Look, Still
from app.state.turn import Turn
from app.views.composer import ComposerView
from app.views.cost import short
from tests.app.views.fakes import attachment

ENTER, SHIFT = Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier


@pytest.fixture
def made(stage):
    return stage("Kitchen")


@pytest.fixture
def composer(made) -> ComposerView:
    return made.window.page.composer


def cost(tokens: int, parts: dict[str, int]) -> Cost:
    return Cost(tokens, 8192, 300, 12_000_000, 90_000_000, parts, seconds=3.0)


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


def test_a_narrow_field_invites_in_fewer_words(made, composer) -> None:
    field = composer.field
    said = []
    for width in (700, 300, 40):
        field.resize(width, field.height())
        said.append(field.placeholderText())
        assert width == 40 or field.fontMetrics().horizontalAdvance(said[-1]) < width
    assert said[0] != said[1] != said[2] == "Ask anything"


def test_nothing_is_sent_without_words_or_while_a_picture_is_read(made, composer, qtbot) -> None:
    draft = made.chat.composer
    qtbot.keyClick(composer.field, ENTER)
    type_in(qtbot, composer, "look")
    draft.add_files([Path("oven.heic")])
    qtbot.keyClick(composer.field, ENTER)
    assert draft.sent == []
    assert not composer._send.isEnabled()
    assert composer._hint.text() == "Reading 1 file …"
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
    names = [composer.chips.views[chip.id].accessibleName() for chip in (good, bad)]
    assert names == ["oven.heic: 320 × 240 · 312 tok", f"torn.jpg: {draft.chips[1].error}"]
    assert composer.obstacle.isVisible()
    assert composer.obstacle.accessibleName() == draft.chips[1].error
    assert not composer._send.isEnabled()
    qtbot.mouseClick(composer.chips.views[bad.id].remove, Qt.MouseButton.LeftButton)
    assert [chip.name for chip in draft.chips] == ["oven.heic"]
    assert not composer.obstacle.isVisible()
    assert composer._send.isEnabled()


def test_a_half_readable_picture_can_be_sent_anyway_or_removed(made, composer, qtbot, monkeypatch) -> None:
    draft = made.chat.composer
    draft.add_files([Path("torn.jpg")])
    said = "torn.jpg is damaged: only about 42 % of it could be read. Send it anyway, or remove it."
    draft.finish(draft.chips[0].id, None, said, partial=True)
    assert (composer.obstacle.accessibleName(), composer.obstacle.accept_button.isVisible()) == (said, True)
    qtbot.mouseClick(composer.obstacle.accept_button, Qt.MouseButton.LeftButton)
    assert draft.chips[0].state == "reading"
    draft.finish(draft.chips[0].id, None, said, partial=True)
    qtbot.mouseClick(composer.obstacle.remove_button, Qt.MouseButton.LeftButton)
    assert draft.chips == ()


def test_what_the_model_cannot_take_is_marked_at_once_and_removed_by_one_button(made, composer, qtbot) -> None:
    draft = made.chat.composer
    made.model.take("image", "video")
    draft.attach(attachment("a.png"), attachment("b.mp4", kind="video", seconds=4.0))
    assert composer._send.isEnabled()
    made.model.take("image")
    picture, clip = (composer.chips.views[chip.id].accessibleName() for chip in draft.chips)
    assert (picture.startswith("a.png: 320"), clip) == (True, "b.mp4: Pocket cannot watch clips")
    assert composer.obstacle.accessibleName().startswith("Pocket cannot watch clips.")
    assert not composer._send.isEnabled()
    assert composer.obstacle.remove_button.text() == "Remove what it cannot read"
    assert composer.obstacle.accept_button.text() == "Send first frame"
    qtbot.mouseClick(composer.obstacle.accept_button, Qt.MouseButton.LeftButton)
    assert [chip.state for chip in draft.chips] == ["ready", "reading"]
    assert not composer.obstacle.isVisible()
    draft.finish(draft.chips[1].id, attachment("b.mp4", kind="video", seconds=4.0))
    qtbot.mouseClick(composer.obstacle.remove_button, Qt.MouseButton.LeftButton)
    assert [chip.name for chip in draft.chips] == ["a.png"]
    assert composer._send.isEnabled()


def test_a_chip_is_free_again_when_another_model_takes_it(made, composer) -> None:
    made.model.take()
    made.chat.composer.attach(attachment("a.png"))
    assert not composer._send.isEnabled()
    made.model.take("image")
    assert composer._send.isEnabled()
    assert not composer.obstacle.isVisible()


def test_the_cost_is_shown_before_sending_and_turns_amber_when_it_does_not_fit(made, composer, qtbot) -> None:
    draft = made.chat.composer
    draft.attach(attachment("a.png"), attachment("b.png"))
    items = [chip.attachment.id for chip in draft.chips]
    draft.price(cost(512, parts={items[0]: 100, items[1]: 400}))
    assert composer._cost.text() == "512 / 8k"
    assert "512 of 8,192 tokens" in composer._cost.toolTip()
    assert "12 MB for the chat, 90 MB for a moment" in composer._cost.toolTip()
    assert composer._cost.objectName() == "muted"
    draft.price(cost(8300, parts={items[0]: 100, items[1]: 400}))
    assert (composer._cost.text(), composer._cost.objectName()) == ("8,300 / 8k", "warning")
    assert "Remove b.png (400 tokens)" in composer.obstacle.accessibleName()
    assert not composer._send.isEnabled()
    qtbot.mouseClick(composer.obstacle.remove_button, Qt.MouseButton.LeftButton)
    assert [chip.name for chip in draft.chips] == ["a.png"]


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, "0"),
        (512, "512"),
        (1024, "1k"),
        (8192, "8k"),
        (9120, "9,120"),
        (32768, "32k"),
        (12345, "12.3k"),
        (262144, "256k"),
    ],
)
def test_counts_of_tokens_are_short(count: int, said: str) -> None:
    assert short(count) == said


def test_chips_change_places_by_key_and_by_dragging(made, composer, qtbot) -> None:
    draft = made.chat.composer
    draft.attach(*(attachment(f"{name}.png") for name in "abc"))

    def order() -> str:
        return "".join(chip.name[0] for chip in draft.chips)

    first = composer.chips.views[draft.chips[0].id]
    qtbot.keyClick(first, Qt.Key.Key_Right, Qt.KeyboardModifier.AltModifier)
    assert order() == "bac"
    qtbot.keyClick(first, Qt.Key.Key_Left, Qt.KeyboardModifier.AltModifier)
    qtbot.keyClick(first, Qt.Key.Key_Left, Qt.KeyboardModifier.AltModifier)
    assert order() == "abc"
    QApplication.processEvents()
    views = [composer.chips.views[chip.id] for chip in draft.chips]
    left, none = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    qtbot.mousePress(views[0], left, pos=views[0].rect().center())
    for x in range(90, 300, 20):
        place = views[0].mapFrom(composer.chips._inner, QPoint(x, 28))
        moved = QMouseEvent(
            QEvent.Type.MouseMove, QPointF(place), views[0].mapToGlobal(QPointF(place)), left, left, none
        )
        QApplication.sendEvent(views[0], moved)
    qtbot.mouseRelease(views[0], left)
    assert order() == "bac"
    assert draft.preview.chip_id == ""
    QApplication.processEvents()
    shown = [(view.y(), view.x()) for view in (views[1], views[0], views[2])]
    assert sorted(shown) == shown


def test_removing_a_chip_by_key_leaves_the_keyboard_on_its_neighbour(made, composer, qtbot) -> None:
    draft = made.chat.composer
    draft.attach(*(attachment(f"{name}.png") for name in "abc"))
    view = composer.chips.views[draft.chips[1].id]
    view.setFocus()
    qtbot.keyClick(view, Qt.Key.Key_Delete)
    assert [chip.name for chip in draft.chips] == ["a.png", "c.png"]
    assert composer.chips.views[draft.chips[1].id].hasFocus()


def test_a_hundred_chips_stay_within_three_rows(made, composer) -> None:
    made.chat.composer.attach(*(attachment(f"{i}.png", (8, 8)) for i in range(100)))
    QApplication.processEvents()
    assert composer.chips.height() <= 3 * 64
    assert composer.field.isVisible()


def test_a_closer_look_at_a_clip_shows_its_frames_and_takes_another_part(made, composer, qtbot) -> None:
    made.model.take("image", "video", "audio")
    draft = made.chat.composer
    draft.attach(attachment("b.mp4", kind="video", seconds=8.0))
    chip = draft.chips[0]
    assert composer.chips.views[chip.id].accessibleName() == "b.mp4: 8.0 s · 16 frames · 312 tok"
    qtbot.mouseClick(composer.chips.views[chip.id], Qt.MouseButton.LeftButton)
    strip = composer.closer.clip
    assert strip.isVisible()
    draft.see(Look(tuple(Still(f"0:0{i}.0", 4, 3, bytes(36)) for i in range(5))))
    assert strip.strip.labels[4] == "0:04.0"
    assert strip._note.text() == "5 frames are sent"
    strip.start.setValue(2.0)
    strip.end.setValue(4.0)
    strip.fps.setValue(1.0)
    assert draft.chips[0].attachment.excerpt == Excerpt(fps=1.0, start=2.0, end=4.0)
    assert composer.chips.views[chip.id].accessibleName() == "b.mp4: 8.0 s · 2 frames"
    strip.end.setValue(1.0)
    assert draft.chips[0].attachment.excerpt == Excerpt(fps=1.0, start=0.9, end=1.0)
    strip.start.setValue(0.0)
    strip.end.setValue(8.0)
    strip.fps.setValue(2.0)
    assert draft.chips[0].attachment.excerpt == Excerpt()
    qtbot.mouseClick(composer.chips.views[chip.id], Qt.MouseButton.LeftButton)
    assert not composer.closer.isVisible()


def test_a_closer_look_at_a_document_takes_pages_at_most_twenty(made, composer, qtbot) -> None:
    draft = made.chat.composer
    draft.attach(attachment("c.pdf", kind="pdf", pages=45, excerpt=Excerpt(first=1, last=20)))
    chip = draft.chips[0]
    qtbot.keyClick(composer.chips.views[chip.id], Qt.Key.Key_Return)
    pages = composer.closer.pages
    assert (pages.first.value(), pages.last.value()) == (1, 20)
    pages.last.setValue(40)
    assert draft.chips[0].attachment.excerpt == Excerpt(first=21, last=40)
    pages.first.setValue(3)
    assert draft.chips[0].attachment.excerpt == Excerpt(first=3, last=22)
    assert composer.chips.views[chip.id].accessibleName() == "c.pdf: pages 3–22 of 45"


def test_a_closer_look_at_a_sound_plays_it_or_opens_it_elsewhere(made, composer, qtbot, monkeypatch) -> None:
    made.model.take("image", "video", "audio")
    opened: list[QUrl] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", opened.append)
    draft = made.chat.composer
    draft.attach(attachment("d.xyz", kind="audio", seconds=75.0))
    chip = draft.chips[0]
    assert composer.chips.views[chip.id].accessibleName() == "d.xyz: 1:15 · 312 tok"
    draft.preview.open(chip.id)
    qtbot.mouseClick(composer.closer.sound.button, Qt.MouseButton.LeftButton)
    assert opened == [QUrl.fromLocalFile("d.xyz")]


def test_a_long_pasted_text_is_attached_and_a_short_one_typed(made, composer, qtbot) -> None:
    mime = QMimeData()
    mime.setText("word " * 10_000)
    paste(qtbot, composer, mime)
    assert composer.field.toPlainText() == ""
    assert [chip.name for chip in made.chat.composer.chips] == ["Pasted text.txt"]
    assert made.chat.composer.asked == [b"word " * 10_000]


def test_pictures_inside_a_piece_of_a_web_page_are_attached(made, composer, qtbot) -> None:
    mime = QMimeData()
    mime.setHtml('<p><img alt="x" src="data:image/png;base64,AAA="><img src="https://example.org/b.png"></p>')
    paste(qtbot, composer, mime)
    assert made.chat.composer.asked == ["data:image/png;base64,AAA="]


def test_waiting_messages_can_be_changed_moved_and_taken_back(made, composer, qtbot) -> None:
    chat = made.chat
    chat.ask("first")
    answer = chat.begin()
    assert not composer.queue.isVisible()
    second, third = (chat.add(Turn(text=text, state="queued")) for text in ("second", "third"))
    rows = composer.queue.rows
    assert [row.accessibleName() for row in rows.values()] == [
        "Waiting message 1 of 2: second",
        "Waiting message 2 of 2: third",
    ]
    assert not {second.id, third.id} & set(made.window.page.transcript._messages)
    qtbot.mouseClick(rows[third.id].up, Qt.MouseButton.LeftButton)
    assert [turn.text for turn in chat.turns] == ["first", "", "third", "second"]
    qtbot.mouseClick(rows[second.id].edit, Qt.MouseButton.LeftButton)
    qtbot.keyClicks(rows[second.id]._field, ", please")
    qtbot.keyClick(rows[second.id]._field, ENTER)
    assert second.text == "second, please"
    qtbot.mouseClick(composer.queue.rows[third.id].cancel, Qt.MouseButton.LeftButton)
    assert list(composer.queue.rows) == [second.id]
    chat.end(answer)
    second.state = "done"
    chat.turn_added.emit(second.id)
    assert not composer.queue.isVisible()
    assert second.id in made.window.page.transcript._messages


def test_the_screenshot_button_asks_for_one(made, composer, qtbot, monkeypatch) -> None:
    taken: list[object] = []
    monkeypatch.setattr(made.window._screenshot, "take", taken.append)
    qtbot.mouseClick(composer._shot, Qt.MouseButton.LeftButton)
    qtbot.keyClick(made.window, Qt.Key.Key_P, Qt.KeyboardModifier.ControlModifier | SHIFT)
    assert taken == [made.chat.composer] * 2


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


def test_pictures_of_an_old_chat_are_named_when_the_model_cannot_see_them(made, composer) -> None:
    made.model.take()
    draft = made.chat.composer
    draft._before = lambda: Before((Turn(text="old", attachments=(attachment("a.png"),)),))
    draft.set_text("And now?")
    said = "Pocket cannot read the pictures earlier in this chat, and answers without them."
    assert composer.obstacle.accessibleName() == said
    assert not composer.obstacle.remove_button.isVisible()
    assert composer._send.isEnabled()


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


@pytest.mark.parametrize("size", [(1200, 800), (900, 600), (720, 480)])
def test_nothing_lies_over_anything_in_a_full_composer(made, composer, qtbot, size) -> None:
    made.window.resize(*size)
    made.chat.composer.attach(*(attachment(f"{i}.png", (8, 8)) for i in range(30)))
    made.chat.composer.add_files([Path("/nowhere/a long name of a file.png")])
    made.chat.composer.finish(made.chat.composer.chips[-1].id, None, "It is too large. Scale it down or cut it.")
    composer.field.setPlainText("\n".join("words" for _ in range(20)))
    for _ in range(5):
        QApplication.processEvents()
    parts = [composer.chips, composer.obstacle, composer.field, composer._send]
    assert all(part.isVisible() for part in parts)
    edges = [edge for part in parts for edge in (part.y(), part.y() + part.height())]
    assert edges == sorted(edges)
    page = made.window.page
    assert page.transcript.height() > 60
    assert composer.geometry().bottom() <= page.height()
    assert composer.height() >= composer.minimumSizeHint().height()
