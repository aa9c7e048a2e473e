"""The model picker: what it shows, what its buttons do, and that the keyboard reaches everything."""

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton, QApplication, QFileDialog, QLineEdit

from app.views import model_words as words
from app.views.download_row import DownloadRow
from app.views.model_row import ModelRow
from tests.app.views.fakes import FITS, GB, POCKET, Transfer, entry

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")


@pytest.fixture
def made(stage):
    return stage("Kitchen")


@pytest.fixture
def picker(made, qtbot):
    """The opened picker with three models: the embedded one, which is loaded, another, and an incomplete one."""
    unfinished = entry("Torn", problem="“Torn” is not complete: b.safetensors is missing.", missing=["b.safetensors"])
    made.models.entries = (POCKET, entry(), unfinished)
    made.model.path = POCKET.model.folder
    made.window.open_models()
    qtbot.waitUntil(lambda: len(made.window._picker.rows) == 3)
    return made.window._picker


@pytest.fixture
def download(made, picker, qtbot):
    """Show a download among the models."""

    def show(transfer):
        made.models.downloads = (transfer,)
        made.models.changed.emit()
        qtbot.waitUntil(lambda: any(isinstance(row, DownloadRow) for row in picker.rows))
        return picker.rows[0]

    return show


def rows(picker):
    return {row.entry.name: row for row in picker.rows if isinstance(row, ModelRow)}


def said(row):
    """The row's words without their colours."""
    from PySide6.QtGui import QTextDocumentFragment

    return QTextDocumentFragment.fromHtml(row._said.text()).toPlainText()


def click(qtbot, button):
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)


def test_the_chip_and_the_key_open_it(made, qtbot) -> None:
    qtbot.keyClick(made.window, Qt.Key.Key_M, Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier)
    qtbot.waitUntil(lambda: made.window._picker is not None and made.window._picker.isVisible())
    assert made.models.calls == [("refresh",)]  # the disk may have changed
    made.window._picker.close()
    click(qtbot, made.window.sidebar.model)
    qtbot.waitUntil(made.window._picker.isVisible)
    assert made.models.calls == [("refresh",)] * 2


def test_rows_say_what_a_model_is_and_whether_it_fits(picker) -> None:
    shown = rows(picker)
    assert said(shown["Pocket"]) == "Ready · 3 GB on disk · 256k tokens of context · Fits: needs 3.5 GB of 14 GB"
    assert said(shown["Torn"]) == "“Torn” is not complete: b.safetensors is missing."
    assert words.badges(POCKET) == ("Pictures", "Clips", "4 bit", "MTP")
    assert words.badges(entry(takes=())) == ("Text only", "4 bit")
    assert [row.button.text() for row in shown.values()] == ["Unload", "Load", "Resume"]


@pytest.mark.parametrize(("need", "word"), [(5 * GB, "Fits"), (12 * GB, "Tight"), (15 * GB, "Too large")])
def test_the_fit_is_a_word_and_numbers(need, word) -> None:
    found = entry(fit=replace(FITS, weights=need, chat=0))
    assert words.fit(found) == (word, f"needs {need // GB} GB of 14 GB")
    assert f"{need // GB} GB for the model" in words.fit_explained(found)


def test_buttons_do_what_they_say(made, picker, qtbot) -> None:
    made.models.calls.clear()
    shown = rows(picker)
    for name in ("Pocket", "Qwen", "Torn"):
        click(qtbot, shown[name].button)
    assert made.model.calls == ["unload"]
    assert made.models.calls == [("choose", Path("/models/qwen")), ("download", "owner/Torn")]


def test_loading_shows_its_stage_and_can_be_stopped(made, picker, qtbot) -> None:
    made.model.path, made.model.status = Path("/models/qwen"), "loading"
    made.model.stage, made.model.progress = "Loading weights", 0.63
    made.model.changed.emit()
    row = rows(picker)["Qwen"]
    assert said(row) == "Loading weights · 63 %"
    assert row.button.accessibleName() == "Stop loading Qwen"
    click(qtbot, row.button)
    assert made.model.calls == ["unload"]
    assert rows(picker)["Pocket"].button.text() == "Load"


def test_a_failure_stays_in_its_row_and_offers_the_embedded_model(made, picker, qtbot) -> None:
    model = made.model
    model.path, model.name, model.status, model.can_fall_back = Path("/models/qwen"), "Qwen", "failed", True
    model.error = "The weights <cannot> be read."
    model.changed.emit()
    row = rows(picker)["Qwen"]
    assert said(row) == "The weights <cannot> be read."
    assert row.button.text() == "Try again"
    assert picker.failure._text.text() == "“Qwen” could not be loaded."
    assert picker.failure.button.text() == "Load Pocket instead"
    click(qtbot, picker.failure.button)
    assert model.calls == ["fall back"]
    model.status, model.can_fall_back = "loading", False
    model.changed.emit()
    assert not picker.failure.isVisible()


def test_a_model_that_is_not_listed_fails_with_its_whole_sentence(made, picker) -> None:
    model = made.model
    model.path, model.name, model.status, model.error = Path("/gone"), "Gone", "failed", "There is no folder."
    model.changed.emit()
    assert picker.failure._text.text() == "“Gone” could not be loaded. There is no folder."
    assert not picker.failure.button.isVisible()


def test_enter_downloads_what_was_typed_and_a_refusal_stays_above_the_field(made, picker, qtbot) -> None:
    made.models.calls.clear()
    made.models.refused = "Type a model's id."
    qtbot.keyClicks(picker.field, "nonsense")
    qtbot.keyClick(picker.field, Qt.Key.Key_Return)
    assert made.models.calls == [("download", "nonsense")]
    assert (picker.notice._text.text(), picker.field.text()) == ("Type a model's id.", "nonsense")
    qtbot.keyClicks(picker.field, "!")
    assert not picker.notice.isVisible()
    made.models.refused = None
    qtbot.keyClick(picker.field, Qt.Key.Key_Return)
    assert picker.field.text() == ""
    assert picker.isVisible()


def test_a_download_has_a_row_with_pause_and_cancel(made, picker, download, qtbot) -> None:
    transfer = Transfer("owner/Torn", done=GB, total=4 * GB)
    row = download(transfer)
    assert "Torn" not in rows(picker)  # the download stands for it
    transfer.rate = 10_000_000
    transfer.changed.emit()
    assert row._said.text() == "1 GB of 4 GB · 10 MB/s · 5 min left"
    click(qtbot, row.pause)
    transfer.state = "paused"
    transfer.changed.emit()
    assert (row.pause.text(), row._said.text()) == ("Resume", "Paused · 1 GB of 4 GB")
    click(qtbot, row.pause)
    transfer.state, transfer.error = "failed", "The connection was lost. Resume to go on where it stopped."
    transfer.changed.emit()
    assert (row.pause.text(), row._said.text()) == ("Try again", transfer.error)
    click(qtbot, row.cancel)
    assert transfer.calls == ["pause", "resume"]
    assert made.models.calls[-1] == ("cancel", "owner/Torn")


def test_progress_redraws_one_row_and_builds_none(made, picker, download) -> None:
    transfer = Transfer("owner/New", total=GB)
    download(transfer)
    before = list(picker.rows)
    for _ in range(3):
        transfer.done += 1000
        transfer.changed.emit()
        made.models.changed.emit()
    assert picker._coming is None
    assert picker.rows == before


def test_the_menu_shows_the_folder_and_removes_but_never_what_comes_with_braid(
    made, picker, qtbot, monkeypatch
) -> None:
    opened = []
    monkeypatch.setattr("app.views.model_row.QDesktopServices.openUrl", lambda url: opened.append(url.toLocalFile()))
    made.models.calls.clear()
    for name, actions in (
        ("Pocket", ["Show in file manager"]),
        ("Qwen", ["Show in file manager", "", "Move to trash"]),
    ):
        click(qtbot, rows(picker)[name].more)
        menu = QApplication.activePopupWidget()
        assert [action.text() for action in menu.actions()] == actions
        for action in menu.actions():
            action.trigger()
        menu.close()
    assert opened == ["/models/pocket", "/models/qwen"]
    assert made.models.calls == [("trash", Path("/models/qwen"))]


def test_what_cannot_be_done_is_told_in_place(made, picker) -> None:
    made.models.notice.emit("“Qwen” is in use.")
    assert picker.notice.isVisible()
    assert picker.notice._text.text() == "“Qwen” is in use."


def test_a_folder_is_chosen_without_blocking(made, picker, qtbot) -> None:
    click(qtbot, picker.folder)
    dialog = picker.findChild(QFileDialog)
    dialog.fileSelected.emit("/somewhere/models")
    dialog.close()
    assert made.models.calls[-1] == ("add", Path("/somewhere/models"))


def test_nothing_found_yet_is_said(made, qtbot) -> None:
    made.window.open_models()
    labels = [label.text() for label in made.window._picker.area.widget().children() if hasattr(label, "text")]
    assert labels == ["Looking for models …"]


def test_every_control_has_a_name_and_tab_reaches_it(picker, download, qtbot) -> None:
    download(Transfer("owner/New"))
    controls = [each for each in picker.findChildren(QAbstractButton) if each.isVisible()]
    controls = [each for each in controls if each.focusPolicy() != Qt.FocusPolicy.NoFocus] + [picker.field]
    assert all(each.accessibleName() for each in [*controls, picker.area, *picker.rows])
    reached = []
    picker.folder.setFocus()
    for _ in range(len(controls) + 4):
        reached.append(picker.focusWidget())
        qtbot.keyClick(picker.focusWidget(), Qt.Key.Key_Tab)
    assert set(controls) <= set(reached)
    wanted = [picker.folder, *_stops(picker), picker.field, picker.fetch]
    assert [each for each in reached if each in wanted][: len(wanted)] == wanted
    assert isinstance(picker.field, QLineEdit)


def _stops(picker):
    for row in picker.rows:
        yield from (row.button, row.more) if isinstance(row, ModelRow) else (row.pause, row.cancel)


def test_many_models_are_listed_a_few_in_each_turn_of_the_loop(made, picker, qtbot) -> None:
    made.models.entries = tuple(entry(f"Model {number}") for number in range(40))
    made.models.changed.emit()
    assert len(picker.rows) == 3  # the old list stays until the new one is whole
    assert len(picker.findChildren(ModelRow)) == 3 + 2
    qtbot.waitUntil(lambda: len(picker.rows) == 40)


def test_a_newer_list_takes_over_and_closing_stops_the_making(made, picker, qtbot) -> None:
    for count in (30, 20, 10):
        made.models.entries = tuple(entry(f"Model {number}") for number in range(count))
        made.models.changed.emit()
    qtbot.waitUntil(lambda: len(picker.rows) == 10)
    qtbot.waitUntil(lambda: len(picker.findChildren(ModelRow)) == 10)
    made.models.entries = made.models.entries[:8]
    made.models.changed.emit()
    picker.close()
    assert picker._coming is None
    made.window.open_models()
    qtbot.waitUntil(lambda: len(picker.rows) == 8)


@pytest.mark.parametrize(
    ("count", "text"),
    [(19_134_927, "19.1 MB"), (999_600_000, "1 GB"), (2_960_000_000, "2.96 GB"), (123_400_000_000, "123 GB")],
)
def test_sizes_have_three_digits_at_most(count, text) -> None:
    assert words.size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "1 s"), (59.4, "59 s"), (90, "2 min"), (3600, "1 h"), (5400, "1 h 30 min"), (40_000, "11 h")],
)
def test_durations_have_one_or_two_units(seconds, text) -> None:
    assert words.duration(seconds) == text
