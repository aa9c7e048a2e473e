from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication

from app.state.turn import AnswerFacts, Turn
from app.views.answer import Answer
from app.views.facts import duration, facts_line, facts_sheet
from app.views.text import TextView
from tests.app.views.test_transcript import answers, settle


def facts(**more: object) -> AnswerFacts:
    return AnswerFacts(212, 41.3, 0.42, 640, 614, "stop", **more)  # type: ignore[arg-type]


def thoughts(answer: Answer) -> str:
    return "\n".join(piece.toPlainText() for piece in answer._thinking.prose.pieces)


@pytest.fixture
def thinker(stage, qtbot):
    """A stage whose chat has an answer that still thinks."""
    made = stage("Kitchen")
    made.chat.ask("Why?")
    turn = made.chat.begin()
    turn.reasoning = "Let me **see**"
    turn.facts = facts(thinking_s=3.4)
    made.chat.turn_changed.emit(turn.id)
    settle(qtbot, made.window.page.transcript)
    return made, turn, answers(made.window.page.transcript)[0]


def test_thoughts_stay_folded_and_undrawn_until_the_person_opens_them(thinker, qtbot, monkeypatch) -> None:
    made, turn, answer = thinker
    fold = answer._thinking
    assert fold.head.text() == "Thinking for 3 s"
    assert not fold.prose.isVisible()
    assert fold.prose.pieces == []
    qtbot.mouseClick(fold.head, Qt.MouseButton.LeftButton)
    assert thoughts(answer) == "Let me see"
    turn.reasoning += " what is there"
    made.chat.turn_changed.emit(turn.id)
    settle(qtbot, made.window.page.transcript)
    assert thoughts(answer) == "Let me see what is there"
    assert fold.prose.pieces[0] in answer.stops()


@pytest.mark.parametrize("stopped", [False, True])
def test_the_fold_closes_when_the_thoughts_end_also_by_a_stop(thinker, qtbot, stopped: bool) -> None:
    made, turn, answer = thinker
    qtbot.mouseClick(answer._thinking.head, Qt.MouseButton.LeftButton)
    turn.facts = facts(thinking_s=12.3)
    if stopped:
        made.chat.end(turn, "stopped")
    else:
        made.chat.write(turn, "Because.")
    settle(qtbot, made.window.page.transcript)
    assert answer._thinking.head.text() == "Thought for 12 s"
    assert not answer._thinking.prose.isVisible()
    assert not any(piece._live for piece in answer._thinking.prose.pieces)
    qtbot.mouseClick(answer._thinking.head, Qt.MouseButton.LeftButton)
    assert thoughts(answer) == "Let me see"
    made.chat.write(turn, " More.")
    settle(qtbot, made.window.page.transcript)
    assert answer._thinking.prose.isVisible()  # what the person opened afterwards stays open


def test_the_fold_is_reached_and_turned_with_the_keyboard(thinker, qtbot) -> None:
    made, _turn, answer = thinker
    head = answer._thinking.head
    head.setFocus()
    qtbot.keyClick(head, Qt.Key.Key_Space)
    assert answer._thinking.prose.isVisible()
    assert head.accessibleName() == "Thinking for 3 s"
    settle(qtbot, made.window.page.transcript)
    qtbot.keyClick(head, Qt.Key.Key_Tab)
    assert QApplication.focusWidget() is answer._thinking.prose.pieces[0]


def test_restored_thoughts_come_folded_with_their_time(stage, qtbot) -> None:
    made = stage("Kitchen")
    made.chat.add(Turn(role="assistant", text="Yes.", reasoning="Hm.", facts=facts(thinking_s=65.0)))
    made.chat.add(Turn(role="assistant", text="Yes.", reasoning="Hm."))
    made.chat.add(Turn(role="assistant", text="No."))
    settle(qtbot, made.window.page.transcript)
    timed, untimed, none = answers(made.window.page.transcript)
    assert timed._thinking.head.text() == "Thought for 1 min 5 s"
    assert untimed._thinking.head.text() == "Thoughts"
    assert none._thinking is None
    made_pieces = [view for view in made.window.findChildren(TextView) if view.accessibleName() == "Thoughts"]
    assert made_pieces == []


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.44, "0.4 s"), (12.3, "12 s"), (59.7, "1 min"), (60, "1 min"), (125, "2 min 5 s")]
)
def test_time_is_told_as_it_is_spoken(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def test_the_sheet_tells_every_figure_that_was_measured(thinker, qtbot) -> None:
    made, turn, answer = thinker
    turn.text = "Yes."
    turn.facts = facts(mtp_drafts=100, mtp_accepted=82, thinking_s=3.0)
    assert facts_line(turn.facts).endswith("reused · MTP 82 %")
    made.chat.end(turn)
    settle(qtbot, made.window.page.transcript)
    sheet = answer.footer.label.toolTip()
    assert sheet == facts_sheet(turn.facts) == answer.footer.label.accessibleDescription()
    whole = answer.footer.label.text()
    label, metrics = answer.footer.label, answer.footer.label.fontMetrics()
    first, second, _ = whole.split(" · ", 2)
    # Beside another chat there may be no room for the line: whole facts go, the last first.
    label.resize(metrics.horizontalAdvance(f"{first} · {second}") + 20, 20)
    assert label.text() == f"{first} · {second}"
    label.resize(metrics.horizontalAdvance(first) // 2, 20)
    assert label.text() == metrics.elidedText(first, Qt.TextElideMode.ElideRight, label.width())
    assert label.text().endswith("…")
    assert label.toolTip() == sheet
    for line in (
        "Thinking: 3 s",
        "Reused: 614 tokens (96 % of the prompt)",
        "MTP: 82 of 100 drafted tokens accepted (82 %)",
        "Ended by: the model was done",
    ):
        assert line in sheet.splitlines()
    assert "MTP: off: other chats" in facts_sheet(facts(mtp_off="batch"))
    assert "MTP" not in facts_sheet(facts())
