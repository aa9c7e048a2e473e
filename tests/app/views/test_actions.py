"""What can be done with a message: from its buttons, by keyboard and from its menu."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QContextMenuEvent, QEnterEvent, QKeySequence
from PySide6.QtWidgets import QApplication, QMenu

from app.state.turn import AnswerFacts, Turn
from app.views.message import Message
from tests.app.views.fakes import attachment

LEFT = Qt.MouseButton.LeftButton
AT_LIMIT = AnswerFacts(64, 41.0, 0.4, 640, 0, "length")


@pytest.fixture
def made(stage, qtbot):
    made = stage("Kitchen")
    made.chat.ask("What is wrong?", attachment("oven.heic"))
    made.chat.answer("A torn seal.", AT_LIMIT)
    transcript = made.window.page.transcript
    qtbot.waitUntil(lambda: not transcript._frame.isActive() and not transcript._builder.isActive())
    QApplication.processEvents()
    return made


def messages(made) -> list[Message]:
    shown = made.window.page.transcript._messages
    return [shown[turn.id] for turn in made.chat.turns]


def menu_of(message: Message) -> QMenu:
    place = QPoint(2, 2)
    QApplication.sendEvent(
        message, QContextMenuEvent(QContextMenuEvent.Reason.Mouse, place, message.mapToGlobal(place))
    )
    menu = QApplication.activePopupWidget()
    assert isinstance(menu, QMenu)
    return menu


def entries(menu: QMenu) -> list[str]:
    found = [action.text() for action in menu.actions() if not action.isSeparator()]
    menu.close()
    return found


def test_buttons_ask_the_chat_for_what_they_say(made, qtbot) -> None:
    question, answer = messages(made)
    for button in (answer._again, answer._resume, answer._fork, question._fork):
        qtbot.mouseClick(button, LEFT)
    assert made.chat.retried == [answer.turn.id]
    assert made.chat.calls == [("resume", answer.turn.id), ("fork", answer.turn.id), ("fork", question.turn.id)]


@pytest.mark.qt_log_ignore("This plugin does not support")
def test_the_menu_offers_everything_that_the_buttons_do(made) -> None:
    question, answer = messages(made)
    made.chat.positions[answer.turn.id] = (2, 3)
    made.window.page.transcript._settle()
    assert entries(menu_of(question)) == ["Copy message", "Edit and send again", "Fork into a new tab"]
    assert entries(menu_of(answer)) == [
        "Copy message",
        "Continue the answer",
        "Answer again",
        "Fork into a new tab",
        "Previous variant",
        "Next variant",
    ]
    menu = menu_of(answer)
    for action in menu.actions():
        action.trigger()
    menu.close()
    assert made.chat.retried == [answer.turn.id]
    assert [call[0] for call in made.chat.calls] == ["resume", "fork", "variant", "variant"]


@pytest.mark.qt_log_ignore("This plugin does not support")
def test_while_it_answers_only_copies_and_forks_are_offered(made) -> None:
    made.chat.ask("And now?")
    made.chat.begin("The")
    question, answer, *_ = messages(made)
    assert not any(button.isVisible() for button in (answer._again, answer._resume, question._edit))
    assert entries(menu_of(answer)) == ["Copy message", "Fork into a new tab"]
    made.chat.end(made.chat.turns[-1])
    assert answer._again.isVisible()
    assert not answer._resume.isVisible()  # only the last answer can be gone on with


def test_arrows_step_through_the_variants(made, qtbot) -> None:
    answer = messages(made)[1]
    assert answer.footer.variants is None
    made.chat.positions[answer.turn.id] = (1, 2)
    made.window.page.transcript._settle()
    variants = answer.footer.variants
    assert variants.isVisible()
    assert variants._label.text() == "1/2"
    assert not variants.back.isEnabled()
    qtbot.mouseClick(variants.on, LEFT)
    assert made.chat.calls == [("variant", answer.turn.id, 1)]


def test_another_branch_takes_the_place_of_what_is_shown(made, qtbot) -> None:
    chat = made.chat
    gone = chat.turns[1]
    kept = messages(made)[0]
    chat.turns = chat.turns[:1]
    chat.turns.append(type(gone)(role="assistant", text="Another answer."))
    chat.branch_changed.emit()
    assert gone.id not in made.window.page.transcript._messages
    assert messages(made)[0] is kept
    assert messages(made)[1].views()[0].toPlainText() == "Another answer."


def test_the_keyboard_stays_on_the_arrows_from_one_variant_to_the_next(made, qtbot, monkeypatch) -> None:
    chat = made.chat
    variants = [chat.turns[1], *(Turn(role="assistant", text=text) for text in ("Another.", "A third."))]
    chat.positions = {turn.id: (place, 3) for place, turn in enumerate(variants, 1)}

    def show(turn_id: str, by: int) -> None:
        chat.turns[1] = variants[chat.positions[turn_id][0] - 1 + by]
        chat.branch_changed.emit()

    monkeypatch.setattr(chat, "show_variant", show)
    made.window.page.transcript._settle()
    messages(made)[1].footer.variants.on.setFocus()
    for text in ("Another.", "A third."):
        qtbot.keyClick(QApplication.focusWidget(), Qt.Key.Key_Space)
        assert messages(made)[1].turn.text == text
    assert QApplication.focusWidget() is messages(made)[1].footer.variants.back  # there is no fourth


def test_actions_are_drawn_under_the_mouse_and_under_the_keyboard(made, qtbot) -> None:
    answer = messages(made)[1]
    buttons = answer.footer.buttons
    assert not any(button._shown for button in buttons)
    place = QPointF(5, 5)
    QApplication.sendEvent(answer, QEnterEvent(place, place, place))
    assert all(button._shown for button in buttons)
    QApplication.sendEvent(answer, QEvent(QEvent.Type.Leave))
    assert not any(button._shown for button in buttons)
    answer._again.setFocus(Qt.FocusReason.TabFocusReason)
    assert all(button._shown for button in buttons)
    made.window.page.composer.field.setFocus()
    assert not any(button._shown for button in buttons)


# --- a question in other words


def test_a_question_is_changed_in_place_and_sent_with_enter(made, qtbot) -> None:
    question = messages(made)[0]
    qtbot.mouseClick(question._edit, LEFT)
    editor = question._editor
    assert editor.field.hasFocus()
    assert editor.field.toPlainText() == "What is wrong?"
    assert editor._hint.text() == "The attachment stays"
    assert not question._bubble.isVisible()
    qtbot.keyClicks(editor.field, " Look")
    qtbot.keyClick(editor.field, Qt.Key.Key_Return)
    assert made.chat.calls == [("edit", question.turn.id, "What is wrong? Look")]
    assert question._bubble.isVisible()


def test_writing_goes_on_in_the_composer_after_a_changed_question_was_sent(made, qtbot, monkeypatch) -> None:
    chat = made.chat

    def edit(turn_id: str, text: str) -> None:
        chat.turns = []
        chat.branch_changed.emit()
        chat.ask(text)

    monkeypatch.setattr(chat, "edit", edit)
    question = messages(made)[0]
    question.edit()
    qtbot.keyClicks(question._editor.field, " Look")
    qtbot.keyClick(question._editor.field, Qt.Key.Key_Return)
    assert messages(made)[0].turn.text == "What is wrong? Look"
    assert made.window.page.composer.field.hasFocus()


@pytest.mark.parametrize("leave", ["escape", "cancel", "unchanged"])
def test_leaving_the_editor_asks_nothing(made, qtbot, leave) -> None:
    question = messages(made)[0]
    question.edit()
    editor = question._editor
    if leave == "escape":
        editor.field.setPlainText("half")
        qtbot.keyClick(editor.field, Qt.Key.Key_Escape)
    elif leave == "cancel":
        editor.field.setPlainText("half")
        qtbot.mouseClick(editor._cancel, LEFT)
    else:
        qtbot.keyClick(editor.field, Qt.Key.Key_Return)
    assert made.chat.calls == []
    assert question._editor is None
    assert question._bubble.isVisible()
    assert question._edit.hasFocus()


def test_arrow_up_in_the_empty_composer_edits_the_last_question(made, qtbot) -> None:
    field = made.window.page.composer.field
    qtbot.keyClicks(field, "x")
    qtbot.keyClick(field, Qt.Key.Key_Up)
    question = messages(made)[0]
    assert question._editor is None
    qtbot.keySequence(field, QKeySequence.StandardKey.DeleteStartOfWord)
    qtbot.keyClick(field, Qt.Key.Key_Up)
    assert question._editor.field.hasFocus()


def test_an_answer_that_begins_meanwhile_closes_the_editor(made) -> None:
    question = messages(made)[0]
    question.edit()
    made.chat.begin("The")
    assert question._editor is None


# --- how it ended


@pytest.mark.parametrize(
    ("state", "facts", "said", "resume"),
    [
        ("done", AT_LIMIT, "Reached the length limit · 64 tokens", True),
        ("cut", None, "Interrupted", True),
        ("stopped", None, "Stopped", True),
        ("done", None, "", False),
    ],
)
def test_an_early_end_is_named_and_can_be_gone_on_with(made, qtbot, state, facts, said, resume) -> None:
    turn = made.chat.turns[1]
    turn.facts = facts
    made.chat.end(turn, state)
    made.window.page.transcript._settle()
    answer = messages(made)[1]
    qtbot.waitUntil(lambda: answer.footer.label.text().startswith(said))
    assert answer._resume.isVisible() == resume
    assert answer._resume.accessibleName() == "Continue the answer"
