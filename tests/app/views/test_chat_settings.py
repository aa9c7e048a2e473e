from __future__ import annotations

import pytest
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtWidgets import QApplication

from app.presets import Preset, Sampling
from app.views.chat_settings import ChatSettings

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")
LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def made(stage):
    made = stage("Kitchen", "Street")
    made.preferences.settings.generation.temperature = 0.6
    yield made
    if made.window._chat_dialog is not None:
        made.window._chat_dialog.close()
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)


def opened(made) -> ChatSettings:
    made.window.open_chat_settings()
    return made.window._chat_dialog


def enter(qtbot, field, text: str) -> None:
    field.setText(text)
    qtbot.keyClick(field, Qt.Key.Key_Return)


def pressed(panel: ChatSettings) -> list[str]:
    return [name for name, button in panel._row._pills.items() if button.isChecked()]


def test_an_empty_field_shows_what_the_settings_say(made) -> None:
    panel = opened(made)
    assert panel.windowTitle() == "Chat settings – Kitchen"
    shown = {name: (field.text(), field.placeholderText()) for name, field in panel.numbers.items()}
    assert shown == {
        "temperature": ("", "0.6"),
        "top_p": ("", "0.9"),
        "max_tokens": ("", "256"),
        "seed": ("", "Random"),
    }
    made.preferences.choose("generation.temperature", 0.3)
    assert panel.numbers["temperature"].placeholderText() == "0.3"


def test_what_is_chosen_holds_for_this_chat_and_can_be_taken_back(made, qtbot) -> None:
    panel = opened(made)
    enter(qtbot, panel.numbers["temperature"], "0,2")
    enter(qtbot, panel.numbers["max_tokens"], "64")
    panel.thinking.chosen.emit(True)
    assert made.chat.sampling == Sampling(temperature=0.2, max_tokens=64, thinking=True)
    enter(qtbot, panel.numbers["temperature"], "")
    panel.thinking.chosen.emit(None)
    assert made.chat.sampling == Sampling(max_tokens=64)
    assert made.library.tabs[1].sampling == Sampling()


def test_a_number_that_cannot_be_is_refused_in_place(made, qtbot) -> None:
    panel = opened(made)
    enter(qtbot, panel.numbers["temperature"], "9")
    assert made.chat.sampling == Sampling()
    assert panel._trouble.isVisible()
    assert panel._trouble.text() == "Temperature: 9 does not fit here: type a number from 0 to 5."
    enter(qtbot, panel.numbers["temperature"], "1")
    assert not panel._trouble.isVisible()


def test_the_system_prompt_is_taken_when_typing_pauses_and_at_the_end(made, qtbot) -> None:
    panel = opened(made)
    qtbot.keyClicks(panel.prompt, "Answer briefly.")
    qtbot.waitUntil(lambda: made.chat.system_prompt == "Answer briefly.")
    qtbot.keyClicks(panel.prompt, " In French.")
    panel.close()
    assert made.chat.system_prompt == "Answer briefly. In French."


def test_choices_become_a_preset_that_other_chats_follow(made, qtbot) -> None:
    panel = opened(made)
    panel.prompt.setPlainText("Name the colours.")
    enter(qtbot, panel.numbers["temperature"], "0")
    qtbot.keyClicks(panel._row.name, " Painter ")
    qtbot.keyClick(panel._row.name, Qt.Key.Key_Return)
    preset = Preset(name="Painter", system_prompt="Name the colours.", sampling=Sampling(temperature=0.0))
    assert made.settings.presets == (preset,)
    assert pressed(panel) == ["Painter"]
    made.library.select(made.library.tabs[1].id)
    panel = opened(made)
    assert pressed(panel) == []
    qtbot.mouseClick(panel._row._pills["Painter"], LEFT)
    assert (made.chat.system_prompt, made.chat.sampling) == (preset.system_prompt, preset.sampling)
    assert panel.prompt.toPlainText() == "Name the colours."
    assert pressed(panel) == ["Painter"]
    qtbot.mouseClick(panel._row.remove, LEFT)
    assert made.settings.presets == ()
    assert made.chat.system_prompt == preset.system_prompt


def test_a_preset_saved_under_a_known_name_takes_its_place_and_a_name_has_its_limit(made, qtbot) -> None:
    panel = opened(made)
    for name, temperature in (("b", "0"), ("A", "1"), ("b", "2")):
        enter(qtbot, panel.numbers["temperature"], temperature)
        assert panel.save_as(name)
    assert [(each.name, each.sampling.temperature) for each in made.settings.presets] == [("A", 1.0), ("b", 2.0)]
    assert not panel.save_as("x" * 81)
    assert "at most 80 characters" in panel._trouble.text()


def test_it_opens_from_the_tab_s_menu_for_that_chat_and_closes_with_it(made) -> None:
    chat = made.library.tabs[1]
    tab = made.window.strip.row.tabs[chat.id]
    tab.customContextMenuRequested.emit(QPoint(5, 5))
    menu = QApplication.activePopupWidget()
    next(action for action in menu.actions() if action.text() == "Chat settings …").trigger()
    menu.close()
    panel = made.window._chat_dialog
    assert panel.chat is chat
    made.library.close_tab(chat.id)
    assert not panel.isVisible()


def test_every_control_has_a_name(made) -> None:
    panel = opened(made)
    panel._presets.save("Painter", "", Sampling())
    stops = [panel.prompt, *panel.numbers.values(), panel._row.name, panel._row.save, *panel._row._pills.values()]
    assert all(stop.accessibleName() for stop in stops)
