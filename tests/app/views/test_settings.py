from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton, QApplication, QFileDialog, QLineEdit, QWidget

from app.state.options import PAGES, of_page, options
from app.views.settings import SettingsDialog
from app.views.settings_row import Row
from app.views.theme import DARK, theme

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")
CONTROL = Qt.KeyboardModifier.ControlModifier


class Desk:
    """The settings of a shown window, and hands for them."""

    def __init__(self, made, qtbot) -> None:
        self.made, self.qtbot = made, qtbot
        self.preferences, self.scheduler = made.preferences, made.model.scheduler
        qtbot.keyClick(made.window, Qt.Key.Key_Comma, CONTROL)
        self.dialog: SettingsDialog = made.window._dialog
        qtbot.waitUntil(self.dialog.isActiveWindow)

    def row(self, key: str) -> Row:
        page = options()[key].page
        self.dialog.show_page(page)
        rows = self.dialog.pages[page].rows
        self.qtbot.waitUntil(lambda: len(rows) == len(of_page(page)))
        return next(row for row in rows if row.option.key == key)

    def type(self, row: Row, text: str) -> None:
        row.field.setFocus()
        row.field.selectAll()
        self.qtbot.keyClicks(row.field, text)
        self.qtbot.keyClick(row.field, Qt.Key.Key_Return)


@pytest.fixture
def desk(stage, qtbot) -> Desk:
    return Desk(stage("Kitchen"), qtbot)


def test_the_key_opens_it_beside_a_window_that_stays_in_use(stage, qtbot, monkeypatch) -> None:
    monkeypatch.setattr(SettingsDialog, "exec", None)
    made = stage("Kitchen")
    qtbot.keyClick(made.window.page.composer.field, Qt.Key.Key_Comma, CONTROL)
    dialog = made.window._dialog
    qtbot.waitUntil(dialog.isActiveWindow)
    assert not dialog.isModal()
    qtbot.keyClick(dialog, Qt.Key.Key_Escape)
    assert not dialog.isVisible()
    made.window.open_settings()
    assert made.window._dialog is dialog
    made.window.hide()
    assert not dialog.isVisible()


def test_every_option_has_its_row_in_order(desk) -> None:
    for page in PAGES:
        first = of_page(page)[0]
        desk.row(first.key)
        assert [row.option for row in desk.dialog.pages[page].rows] == list(of_page(page))


def test_a_typed_number_is_in_force_at_once_and_marked_as_changed(desk) -> None:
    row = desk.row("engine.cache_memory_mb")
    assert (row._dot.on, row.reset.isVisible(), row.chip.text) == (False, False, "now")
    desk.type(row, "900")
    assert desk.scheduler.config.cache_memory_mb == 900
    assert (row._dot.on, row.reset.isVisible(), row.automatic.isChecked()) == (True, True, False)
    desk.qtbot.mouseClick(row.reset, Qt.MouseButton.LeftButton)
    assert desk.scheduler.config.cache_memory_mb is None
    assert (row._dot.on, row.field.text(), row.automatic.isChecked()) == (False, "", True)


def test_a_bad_number_is_refused_in_place_and_escape_brings_the_old_one_back(desk) -> None:
    row = desk.row("engine.max_num_seqs")
    desk.type(row, "4000")
    assert row.refusal.text() == "4000 does not fit here: type a whole number from 1 to 1024."
    assert (row.refusal.isVisible(), row.help.isVisible()) == (True, False)
    assert row.field.text() == "4000"
    assert desk.preferences.value("engine.max_num_seqs") == 16
    desk.qtbot.keyClick(row.field, Qt.Key.Key_Escape)
    assert (row.field.text(), row.refusal.isVisible(), row.help.isVisible()) == ("16", False, True)
    assert desk.dialog.isVisible()


def test_arrows_step_within_the_range(desk) -> None:
    row = desk.row("generation.temperature")
    for key, value in ((Qt.Key.Key_Up, 0.8), (Qt.Key.Key_Down, 0.7)):
        desk.qtbot.keyClick(row.field, key)
        assert desk.preferences.value("generation.temperature") == value
    desk.type(row, "5")
    desk.qtbot.keyClick(row.field, Qt.Key.Key_Up)
    assert desk.preferences.value("generation.temperature") == 5.0
    assert row.refusal.isVisible()


def test_automatic_shows_what_braid_has_chosen_and_starts_from_it(desk) -> None:
    desk.scheduler.figures = {"vision_embedding_cache": {"max_memory_mb": 155.2}}
    row = desk.row("engine.vision_cache_mb")
    row.refresh()
    assert (row.automatic.isChecked(), row.field.placeholderText()) == (True, "155")
    desk.qtbot.mouseClick(row.automatic, Qt.MouseButton.LeftButton)
    assert desk.preferences.value("engine.vision_cache_mb") == 155
    assert row.field.hasFocus()
    desk.qtbot.mouseClick(row.automatic, Qt.MouseButton.LeftButton)
    assert desk.preferences.value("engine.vision_cache_mb") is None


def test_leaving_automatic_without_a_number_changes_nothing(desk) -> None:
    row = desk.row("unload_after_minutes")
    desk.qtbot.mouseClick(row.automatic, Qt.MouseButton.LeftButton)
    assert not row.automatic.isChecked()
    row.reset.setFocus()
    desk.dialog.search.setFocus()
    assert row.automatic.isChecked()
    assert desk.preferences.value("unload_after_minutes") is None


def test_what_takes_effect_later_says_so(desk) -> None:
    row = desk.row("engine.max_num_seqs")
    assert row.chip.text == "next load"
    desk.type(row, "4")
    assert row.chip.accessibleName() == "Waits until a model is loaded"
    assert desk.dialog._later.text() == "These take effect when a model is loaded again: Answers at once."
    desk.qtbot.mouseClick(row.reset, Qt.MouseButton.LeftButton)
    assert not desk.dialog._later.isVisible()
    desk.type(row, "4")
    desk.qtbot.mouseClick(desk.dialog._again, Qt.MouseButton.LeftButton)
    assert (desk.dialog._later.isVisible(), desk.dialog._again.isVisible()) == (False, False)
    assert row.chip.accessibleName() == "Takes effect: next load"


def test_switches_and_segments_choose(desk) -> None:
    switch = desk.row("engine.enable_mtp").control
    desk.qtbot.keyClick(switch, Qt.Key.Key_Space)
    assert desk.scheduler.config.enable_mtp is True
    segments = desk.row("engine.mtp_policy").control
    desk.qtbot.mouseClick(segments._buttons["always"], Qt.MouseButton.LeftButton)
    assert desk.preferences.value("engine.mtp_policy") == "always"


def test_the_window_looks_as_chosen_at_once_and_its_menu_agrees(desk) -> None:
    desk.qtbot.mouseClick(desk.row("appearance").control._buttons["dark"], Qt.MouseButton.LeftButton)
    assert theme.tokens is DARK
    assert [action.data() for action in desk.made.window.look_actions if action.isChecked()] == ["dark"]
    desk.type(desk.row("font_scale"), "150")
    assert desk.made.window.page.composer.field.font().pixelSize() == 22
    desk.preferences.reset("font_scale")
    desk.made.window.dress("light")
    assert desk.row("appearance").control._buttons["light"].isChecked()


def test_a_page_is_reset_alone(desk) -> None:
    desk.type(desk.row("engine.cache_memory_mb"), "900")
    desk.preferences.choose("engine.enable_mtp", True)
    page = desk.dialog.pages["Cache"]
    reset = next(each for each in page.findChildren(QAbstractButton) if each.text() == "Reset page")
    desk.qtbot.mouseClick(reset, Qt.MouseButton.LeftButton)
    assert desk.preferences.is_default("engine.cache_memory_mb")
    assert not desk.preferences.is_default("engine.enable_mtp")


def test_searching_keeps_only_what_speaks_of_it(desk) -> None:
    desk.row("engine.cache_memory_mb")
    desk.qtbot.keyClicks(desk.dialog.search, "disk")
    shown = [row.option.key for row in desk.dialog.pages["Cache"].rows if row.isVisible()]
    assert shown == ["engine.ssd_cache_dir", "engine.ssd_cache_max_gb"]
    assert desk.dialog.list.item(PAGES.index("MTP")).isHidden()
    desk.dialog.search.setText("zebra")
    assert desk.dialog._nothing.text() == "No setting is about “zebra”"
    assert desk.dialog._nothing.isVisible()
    desk.dialog.search.clear()
    assert desk.dialog.pages["Cache"].isVisible()


@pytest.mark.parametrize("word", ["dark", "theme", "appearance"])
def test_the_colours_are_found_under_the_words_people_use(desk, word) -> None:
    desk.row("appearance")
    desk.dialog.search.setText(word)
    assert any(row.option.key == "appearance" and row.isVisible() for row in desk.dialog.pages["Appearance"].rows)


def test_folders_are_picked_without_blocking(desk, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(QFileDialog, "exec", None)
    row = desk.row("model_folders")
    row.control._add.click()
    picker = row.control.findChild(QFileDialog)
    assert picker.isVisible()
    picker.fileSelected.emit(str(tmp_path))
    picker.close()
    assert desk.preferences.value("model_folders") == (str(tmp_path),)
    remove = next(each for each in row.control.findChildren(QAbstractButton) if "Remove" in each.accessibleName())
    remove.click()
    assert desk.preferences.value("model_folders") == ()
    cold = desk.row("engine.ssd_cache_dir")
    cold.control.chosen.emit(str(tmp_path / "none"))
    assert "may not write" in cold.refusal.text()
    cold.control.chosen.emit(str(tmp_path))
    assert not cold.automatic.isChecked()


def stop(child: QWidget) -> object:
    """What Tab stops at: a control, or its segments as one, between which arrows move."""
    return (isinstance(child, QAbstractButton) and child.group()) or child


def test_every_control_has_a_name_and_is_reached_by_tab(desk) -> None:
    for page in PAGES:
        desk.row(of_page(page)[0].key)
        controls = [
            child
            for child in desk.dialog.findChildren(QWidget)
            if isinstance(child, QAbstractButton | QLineEdit) and child.focusPolicy() != Qt.FocusPolicy.NoFocus
        ]
        unnamed = [child for child in controls if not (child.accessibleName() or getattr(child, "text", str)())]
        assert unnamed == []
        wanted = {stop(child) for child in controls if child.isVisible()}
        desk.dialog.search.setFocus()
        seen = set()
        for _ in range(len(wanted) + 20):
            focused = QApplication.focusWidget()
            seen.add(stop(focused))
            desk.qtbot.keyClick(focused, Qt.Key.Key_Tab)
        assert wanted - seen == set()
