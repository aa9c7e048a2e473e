from __future__ import annotations

import gc
import time
import weakref
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication, QWheelEvent
from PySide6.QtWidgets import QApplication

from app.state.turn import AnswerFacts, Turn
from app.views import data_table
from app.views.answer import Answer
from app.views.facts import facts_line
from app.views.markdown import Piece
from app.views.pictures import Picture
from app.views.question import SHOWN_CHARS, Question
from app.views.text import TextView
from app.views.theme import DARK, LIGHT, theme
from app.views.transcript import BUILT, Transcript
from engine.request import Phase
from tests.app.views.fakes import attachment

PARAGRAPH = "The seal is torn and the glass is marked by steam, so heat is lost at the lower edge.\n\n"


def settle(qtbot, transcript: Transcript) -> None:
    qtbot.waitUntil(lambda: not transcript._frame.isActive() and not transcript._builder.isActive())
    QApplication.processEvents()


def answers(transcript: Transcript) -> list[Answer]:
    return [message for message in transcript._messages.values() if isinstance(message, Answer)]


def inks(view: TextView) -> set[str]:
    """Colours that were laid over the text."""
    found, block = set(), view.document().begin()
    while block.isValid():
        found |= {made.format.foreground().color().name() for made in block.layout().formats()}
        block = block.next()
    return found


def shown(message: Answer) -> str:
    return "\n".join(view.toPlainText() for view in message.views())


def test_a_turn_and_its_answer_appear_with_pictures_and_facts(stage, qtbot) -> None:
    window = stage("Kitchen").window
    chat = window.library.current
    chat.ask("What is this?", attachment("oven.heic"), attachment("hall.png"))
    chat.answer("A **torn** seal.", AnswerFacts(212, 41.3, 0.42, 640, 614, "stop"))
    settle(qtbot, window.page.transcript)
    user, answer = window.page.transcript._messages.values()
    assert isinstance(user, Question)
    assert shown(answer) == "A torn seal."
    assert (
        answer.footer.label.text() == "212 tokens · 41 tok/s · 0.4 s to first token · 96 % of 640 prompt tokens reused"
    )
    names = [child.accessibleName() for child in user.findChildren(object) if hasattr(child, "accessibleName")]
    assert "Picture 2: hall.png, 320 × 240" in names


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        (AnswerFacts(1, None, None, 0, 0, "stop"), "1 token"),
        (AnswerFacts(3, 5.25, 12.3, 100, 0, "stop"), "3 tokens · 5.2 tok/s · 12 s to first token · 100 prompt tokens"),
    ],
)
def test_facts_say_only_what_was_measured(facts: AnswerFacts, line: str) -> None:
    assert facts_line(facts) == line


def test_outputs_are_drawn_at_most_thirty_times_a_second(stage, qtbot, monkeypatch) -> None:
    chat = (made := stage("Kitchen")).chat
    turn = chat.begin()
    settle(qtbot, made.window.page.transcript)
    drawn = []
    monkeypatch.setattr(TextView, "setHtml", lambda view, html: drawn.append(time.monotonic()))
    until = time.monotonic() + 0.5
    while time.monotonic() < until:
        chat.write(turn, "word ")
        QApplication.processEvents()
    assert 2 <= len(drawn) <= 17


def test_the_cost_of_an_output_does_not_grow_with_the_answer(stage, qtbot, monkeypatch) -> None:
    chat = (made := stage("Kitchen")).chat
    turn = chat.begin(PARAGRAPH * 300 + "A")
    settle(qtbot, made.window.page.transcript)
    sizes = []
    plain = TextView.setHtml
    monkeypatch.setattr(TextView, "setHtml", lambda view, html: (sizes.append(len(html)), plain(view, html))[1])
    for _ in range(5):
        chat.write(turn, "word ")
        settle(qtbot, made.window.page.transcript)
    assert len(sizes) == 5
    assert max(sizes) < 500
    message = answers(made.window.page.transcript)[0]
    assert shown(message).count("The seal is torn") == 300


@pytest.mark.parametrize("step", [1, 13])
def test_a_growing_code_block_is_appended_to_and_looks_as_if_drawn_at_once(stage, qtbot, monkeypatch, step) -> None:
    made = stage("Kitchen")
    source = "~~~~python\ndef f(x):\n\n\tif x < 1:  # ~~~\n        return 'a\n~~~ b'\n" + "    x = 1 & 2\n" * 40
    turn = made.chat.begin()
    for start in range(0, len(source), step):
        turn.text += source[start : start + step]
        made.window.page.transcript._touch(turn.id)
        made.window.page.transcript._draw()
    grown = answers(made.window.page.transcript)[0].views()[0]
    fresh = TextView("fresh")
    qtbot.addWidget(fresh)
    fresh.show_markdown(Piece(turn.text))
    assert grown.toPlainText() == fresh.toPlainText()
    assert grown._rendered.blocks == fresh._rendered.blocks
    drawn = []
    monkeypatch.setattr(TextView, "setHtml", lambda view, html: drawn.append(html))
    made.chat.write(turn, "more = 1")
    settle(qtbot, made.window.page.transcript)
    assert drawn == []
    made.chat.write(turn, "\n~~~~\n")
    made.chat.write(turn, "\nAnd")
    qtbot.waitUntil(lambda: bool(inks(grown)))
    assert drawn == ["<p>And</p>"]
    assert inks(grown) == {getattr(LIGHT, name) for name in ("keyword", "string", "number", "muted", "function")}


def test_the_finished_answer_reads_the_same_as_the_growing_one(stage, qtbot) -> None:
    chat = (made := stage("Kitchen")).chat
    turn = chat.begin()
    for piece in (PARAGRAPH * 60, "- one\n- two\n\n", "```python\nx = 1\n```\n\nDone."):
        chat.write(turn, piece)
        settle(qtbot, made.window.page.transcript)
    message = answers(made.window.page.transcript)[0]
    live = shown(message).split()
    chat.end(turn)
    settle(qtbot, made.window.page.transcript)
    assert shown(message).split() == live
    assert not any(view._pulse.isActive() for view in message.views())


def test_a_hidden_tab_draws_nothing_until_it_is_shown(stage, qtbot, monkeypatch) -> None:
    made = stage("Kitchen", "Street")
    hidden = made.library.tabs[0]
    turn = hidden.begin("Start.")
    transcript = made.window.page.transcript
    settle(qtbot, transcript)
    made.library.select(made.library.tabs[1].id)
    drawn = []
    plain = TextView.setHtml
    monkeypatch.setattr(TextView, "setHtml", lambda view, html: (drawn.append(html), plain(view, html))[1])
    for _ in range(20):
        hidden.write(turn, " more")
    theme.apply("dark")
    qtbot.wait(80)
    assert drawn == []
    made.library.select(hidden.id)
    settle(qtbot, transcript)
    assert shown(answers(transcript)[0]).endswith("more")
    assert DARK.text != LIGHT.text


def test_the_view_follows_until_the_person_scrolls_up_and_again_on_demand(stage, qtbot) -> None:
    made = stage("Kitchen")
    transcript, bar = made.window.page.transcript, made.window.page.transcript.verticalScrollBar()
    turn = made.chat.begin(PARAGRAPH * 30)
    qtbot.waitUntil(lambda: bar.value() == bar.maximum() > 0)
    wheel = QWheelEvent(
        QPointF(300, 300),
        QPointF(transcript.mapToGlobal(QPoint(300, 300))),
        QPoint(0, 240),
        QPoint(0, 240),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(transcript.viewport(), wheel)
    place = bar.value()
    assert place < bar.maximum()
    made.chat.write(turn, PARAGRAPH * 5)
    settle(qtbot, transcript)
    assert bar.value() == place
    assert transcript._jump.isVisible()
    qtbot.mouseClick(transcript._jump, Qt.MouseButton.LeftButton)
    assert bar.value() == bar.maximum()
    assert not transcript._jump.isVisible()
    made.chat.write(turn, PARAGRAPH * 5)
    settle(qtbot, transcript)
    assert bar.value() == bar.maximum()


def test_only_the_newest_messages_are_built_and_older_ones_on_scrolling_up(stage, qtbot) -> None:
    made = stage("Kitchen", "Long")
    long = made.library.tabs[1]
    long.turns = [Turn(role="user" if i % 2 == 0 else "assistant", text=f"Turn {i}") for i in range(120)]
    made.library.select(long.id)
    transcript = made.window.page.transcript
    settle(qtbot, transcript)
    assert len(transcript._messages) == BUILT
    assert transcript.verticalScrollBar().value() == transcript.verticalScrollBar().maximum()
    transcript.verticalScrollBar().setValue(300)
    settle(qtbot, transcript)
    assert len(transcript._messages) >= 2 * BUILT
    assert transcript.verticalScrollBar().value() > 300
    order = [transcript._column.itemAt(i).widget() for i in range(transcript._column.count())]
    texts = [widget.turn.text for widget in order if hasattr(widget, "turn")]
    assert texts == [f"Turn {i}" for i in range(120 - len(texts), 120)]


def test_a_failed_answer_says_why_and_offers_another_try(stage, qtbot) -> None:
    made = stage("Kitchen")
    made.chat.ask("Hello")
    turn = made.chat.begin()
    made.chat.end(turn, "failed", "There was not enough memory. Close a chat, then try again.")
    settle(qtbot, made.window.page.transcript)
    message = answers(made.window.page.transcript)[0]
    assert message._trouble is not None
    assert message._trouble.isVisible()
    assert message._trouble.text.toPlainText() == turn.error
    qtbot.mouseClick(message._trouble.again, Qt.MouseButton.LeftButton)
    assert made.chat.retried == [turn.id]
    made.chat.turns.remove(turn)
    made.chat.turn_removed.emit(turn.id)
    assert answers(made.window.page.transcript) == []


def test_waiting_turns_say_what_they_wait_for(stage, qtbot) -> None:
    made = stage("Kitchen")
    made.model.status = "loading"
    made.chat.ask("Hello").state = "queued"
    made.chat.act(Phase.QUEUED, "queued")
    transcript = made.window.page.transcript
    settle(qtbot, transcript)
    (message,) = transcript._messages.values()
    assert message.footer.label.text() == "Waits for the model to load"
    made.model.status = "ready"
    made.model.changed.emit()
    settle(qtbot, transcript)
    assert message.footer.label.text() == "Waits for the answer above"


def test_code_and_messages_can_be_copied(stage, qtbot) -> None:
    made = stage("Kitchen")
    made.chat.answer("Look:\n\n```python\nx = '1'\n```")
    settle(qtbot, made.window.page.transcript)
    message = answers(made.window.page.transcript)[0]
    message.views()[0].anchorClicked.emit(QUrl("copy:0"))
    assert QGuiApplication.clipboard().text() == "x = '1'"
    message._copy.click()
    assert QGuiApplication.clipboard().text() == message.turn.text


def test_a_huge_message_shows_its_beginning_and_says_so(stage, qtbot) -> None:
    made = stage("Kitchen")
    made.chat.ask("word " * 200_000)
    settle(qtbot, made.window.page.transcript)
    (message,) = made.window.page.transcript._messages.values()
    assert len(message.views()[0].toPlainText()) <= SHOWN_CHARS + 2
    assert message.footer.label.text() == "Shows the first 20,000 of 1,000,000 characters"
    message.copy_text()
    assert len(QGuiApplication.clipboard().text()) == 1_000_000


def test_closing_a_tab_while_it_answers_leaves_nothing_behind(stage, qtbot) -> None:
    made = stage("Kitchen", "Street")
    for _ in range(10):
        chat = made.library.new_chat()
        turn = chat.begin("Hello")
        chat.write(turn, " there")
        made.library.close_tab(chat.id)
        chat.write(turn, " and more")
        QApplication.processEvents()
    assert len(made.window.panes._pages) <= 2


def test_pages_of_closed_tabs_are_freed(stage, qtbot) -> None:
    made = stage("Kitchen")
    pages = []
    for _ in range(5):
        chat = made.library.new_chat()
        chat.ask("Look", attachment("a.png"))
        chat.begin("```python\nx = 1\n")
        chat.composer.add_files([Path("a.png")])
        pages.append(weakref.ref(made.window.page))
        QApplication.processEvents()
        made.library.close_tab(chat.id)
    del chat
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    gc.collect()
    assert [page() for page in pages] == [None] * 5


def test_page_keys_in_the_composer_scroll_the_conversation(stage, qtbot) -> None:
    made = stage("Kitchen")
    bar = made.window.page.transcript.verticalScrollBar()
    made.chat.answer(PARAGRAPH * 60)
    settle(qtbot, made.window.page.transcript)
    qtbot.waitUntil(lambda: bar.value() == bar.maximum() > 0)
    qtbot.keyClick(made.window.page.composer.field, Qt.Key.Key_PageUp)
    assert 0 < bar.value() < bar.maximum() - 200
    qtbot.keyClick(made.window.page.composer.field, Qt.Key.Key_PageDown)
    assert bar.value() == bar.maximum()


def test_a_sample_is_sent_as_soon_as_it_was_read(stage, qtbot, monkeypatch) -> None:
    from app.views.empty import Sample

    made = stage("New chat")
    draft = made.chat.composer
    card = made.window.page.findChildren(Sample)[0]
    qtbot.mouseClick(card, Qt.MouseButton.LeftButton)
    assert draft.sent == []
    (chip,) = draft.chips
    assert draft.asked[0].is_file()
    draft.finish(chip.id, attachment("shapes.png"))
    assert [(text, len(chips)) for text, chips in draft.sent] == [("Make a table of the shapes.", 1)]
    draft.changed.emit()
    assert len(draft.sent) == 1


def test_a_sample_leaves_typed_words_alone(stage, qtbot) -> None:
    from app.views.empty import Sample

    made = stage("New chat")
    made.chat.composer.set_text("My own question")
    qtbot.mouseClick(made.window.page.findChildren(Sample)[1], Qt.MouseButton.LeftButton)
    made.chat.composer.finish(made.chat.composer.chips[0].id, attachment("chart.png"))
    assert made.chat.composer.text == "My own question"
    assert made.chat.composer.sent == []


def test_the_invitation_leaves_with_the_first_turn(stage, qtbot) -> None:
    made = stage("New chat")
    empty = made.window.page.transcript._empty
    assert empty.isVisible()
    made.chat.ask("Hello")
    assert not empty.isVisible()


def test_a_turn_that_is_looked_for_is_built_and_scrolled_to(stage, qtbot) -> None:
    made = stage("Kitchen", "Long")
    long = made.library.tabs[1]
    long.turns = [Turn(role="user" if i % 2 == 0 else "assistant", text=f"Turn {i}") for i in range(120)]
    made.library.select(long.id)
    transcript = made.window.page.transcript
    settle(qtbot, transcript)
    long.revealed.emit(long.turns[10].id)
    qtbot.waitUntil(lambda: long.turns[10].id in transcript._messages and not transcript._builder.isActive())
    message = transcript._messages[long.turns[10].id]
    qtbot.waitUntil(lambda: 0 <= message.mapTo(transcript.viewport(), QPoint(0, 0)).y() < 100)
    settle(qtbot, transcript)
    assert 0 <= message.mapTo(transcript.viewport(), QPoint(0, 0)).y() < 100
    long.revealed.emit("unknown")


def test_the_invitation_teaches_what_goes_in_and_is_read_from_its_top(stage, qtbot) -> None:
    made = stage("New chat")
    made.window.resize(720, 480)
    theme.resize(150)
    transcript = made.window.page.transcript
    settle(qtbot, transcript)
    assert transcript.verticalScrollBar().maximum() > 0
    assert transcript.verticalScrollBar().value() == 0
    assert transcript._empty.width() <= transcript.viewport().width()
    lessons = transcript._empty.lessons
    assert lessons.drop.text.text().startswith("Pictures, PDFs and whole folders.")
    made.model.takes = frozenset({"image", "video", "audio"})
    made.model.changed.emit()
    assert lessons.drop.text.text().startswith("Pictures, clips, sounds, PDFs and whole folders.")
    made.model.takes = frozenset({"audio"})
    made.model.changed.emit()
    assert lessons.drop.text.text().startswith("Sounds, text files and whole folders.")
    assert "Ctrl+T" in lessons.tabs.text.text()


@pytest.mark.parametrize(("size", "percent"), [((1200, 800), 100), ((1200, 800), 150), ((720, 480), 125)])
def test_the_invitation_is_never_cut(stage, qtbot, size, percent) -> None:
    made = stage("New chat")
    made.window.resize(*size)
    theme.resize(percent)
    made.library.new_chat()
    settle(qtbot, made.window.page.transcript)
    lessons = made.window.page.transcript._empty.lessons
    labels = [label for tip in (lessons.drop, lessons.paste, lessons.tabs) for label in (tip.title, tip.text)]
    assert all(label.height() >= label.heightForWidth(label.width()) for label in labels)


def test_what_is_no_picture_opens_in_its_own_program(stage, qtbot, monkeypatch) -> None:
    asked = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: asked.append(url.toLocalFile()))
    made = stage("Kitchen")
    made.chat.ask(
        "Look",
        attachment("/tmp/a.mov", kind="video", seconds=12.0),
        attachment("/tmp/b.pdf", kind="pdf", pages=3),
        attachment("/tmp/c.wav", kind="audio", seconds=74.0),
    )
    settle(qtbot, made.window.page.transcript)
    buttons = made.window.findChildren(Picture)
    assert [button.accessibleName() for button in buttons] == [
        "Clip 1: /tmp/a.mov, 0:12",
        "Document 2: /tmp/b.pdf, 3 pages",
        "Sound 3: /tmp/c.wav, 1:14",
    ]
    for button in buttons:
        qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert asked == ["/tmp/a.mov", "/tmp/b.pdf", "/tmp/c.wav"]
    made.window.grab()


def test_a_long_table_goes_on_in_columns_as_wide_as_its_first_ones(stage, qtbot) -> None:
    made = stage("Kitchen")
    turn = made.chat.begin("Look:\n\n| part | state |\n| --- | --- |\n")
    for number in range(300):
        made.chat.write(turn, f"| part {number} | {'**torn** badly' if number == 120 else 'fine'} |\n")
    made.chat.write(turn, "\nThat is all.")
    transcript = made.window.page.transcript
    settle(qtbot, transcript)
    pieces = answers(transcript)[0].views()

    def aligned() -> bool:
        QApplication.processEvents()
        found = [widths for piece in pieces if (widths := data_table.widths(piece.document()))]
        return len(found) > 2 and all(each == pytest.approx(found[0], abs=0.5) for each in found)

    assert aligned()
    assert sum(piece.toPlainText().count("fine") + piece.toPlainText().count("torn badly") for piece in pieces) == 300
    assert sum(piece.toPlainText().count("state") for piece in pieces) == 1
    assert pieces[-1].toPlainText().rstrip().endswith("That is all.")
    for change in (lambda: made.window.resize(900, 700), lambda: theme.resize(130), lambda: theme.apply("dark")):
        change()
        settle(qtbot, transcript)
        assert aligned()


def test_another_answer_in_place_of_a_long_table_forgets_its_columns(stage, qtbot) -> None:
    made = stage("Kitchen")
    turn = made.chat.begin("| part | state |\n| --- | --- |\n" + "| seal | torn |\n" * 150)
    settle(qtbot, made.window.page.transcript)
    turn.text = ""
    made.chat.write(
        turn, "\n\n".join([PARAGRAPH * 20, "| a | b | c |\n| - | - | - |\n| 1 | 2 | 3 |\n", PARAGRAPH * 20])
    )
    made.chat.end(turn)
    settle(qtbot, made.window.page.transcript)
    message = answers(made.window.page.transcript)[0]
    assert all(view._before is None and not view._goes_on for view in message.views())
    assert "torn" not in shown(message).replace(PARAGRAPH.strip(), "")


def test_very_long_code_looks_like_one_block_and_is_copied_as_a_whole(stage, qtbot) -> None:
    made = stage("Kitchen")
    lines = [f"value_{number} = {number}" for number in range(900)]
    turn = made.chat.begin("Look:\n\n```python\n")
    for line in lines:
        made.chat.write(turn, f"{line}\n")
        if len(line) % 7 == 0:
            made.window.page.transcript._draw()
    made.chat.write(turn, "```\n\nDone.")
    transcript = made.window.page.transcript
    settle(qtbot, transcript)
    first, *others = [view for view in answers(transcript)[0].views() if view._rendered.blocks]
    assert others
    first._open(QUrl("copy:0"))
    assert QGuiApplication.clipboard().text() == "\n".join(lines)
    QApplication.processEvents()
    line = others[0].height() / len(others[0].blocks[0].text.split("\n"))
    assert line == pytest.approx(others[1].height() / len(others[1].blocks[0].text.split("\n")), abs=0.02)
    for view in (first, *others[:-1]):
        shown_now = view.grab().toImage()
        assert shown_now.pixelColor(0, view.height() - 1).name() == LIGHT.line  # the hairline at the side goes through
        assert shown_now.pixelColor(5, view.height() - 1).name() == LIGHT.code
