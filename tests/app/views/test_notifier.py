from __future__ import annotations

import pytest
from PySide6.QtWidgets import QApplication

from app.state.turn import Turn
from app.views.notifier import Notifier, summary


@pytest.fixture
def alerts(monkeypatch):
    found = []
    monkeypatch.setattr(QApplication, "alert", lambda *window: found.append(window[0]))
    return found


@pytest.fixture
def away(monkeypatch):
    """Another program is in front."""
    monkeypatch.setattr(QApplication, "activeWindow", lambda: None)


def test_an_answer_is_told_while_another_program_is_in_front(stage, alerts, away) -> None:
    made = stage("Kitchen", "Street")
    made.library.answered.emit(made.library.tabs[1].id)
    made.library.answered.emit("closed meanwhile")
    assert alerts == [made.window]


def test_nothing_is_told_to_a_person_who_is_here_or_does_not_want_it(stage, alerts, monkeypatch) -> None:
    made = stage("Kitchen")
    made.library.answered.emit(made.chat.id)
    monkeypatch.setattr(QApplication, "activeWindow", lambda: None)
    made.settings.notifications = False
    made.library.answered.emit(made.chat.id)
    assert alerts == []


@pytest.mark.qt_log_ignore("This plugin does not support")
def test_a_click_on_the_message_shows_the_chat(stage, away) -> None:
    made = stage("Kitchen", "Street")
    notifier = made.window.findChild(Notifier)
    notifier._told = made.library.tabs[1].id
    notifier._go()
    assert made.chat.title == "Street"


@pytest.mark.parametrize(
    ("turns", "said"),
    [
        ([], ""),
        ([Turn(role="assistant", text="A **torn**\nseal.")], "A **torn** seal."),
        ([Turn(role="assistant", state="failed", error="Not enough memory.")], "Not enough memory."),
        ([Turn(role="assistant", text="first"), Turn(role="assistant", text="se", state="live")], "first"),
        ([Turn(role="assistant", text="word " * 60)], ("word " * 60)[:119] + "…"),
    ],
)
def test_the_message_is_the_answer_s_beginning(stage, turns, said) -> None:
    made = stage("Kitchen")
    made.chat.turns = turns
    assert summary(made.chat) == said
