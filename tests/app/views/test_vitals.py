from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication

from app.state.vitals import CacheFigures, MtpFigures, Sample, StreamFigures
from app.views.charts import Gauge, Sparkline
from app.views.numbers import count, figure, gigabytes, milliseconds, of_gigabytes, percent

SAMPLE = Sample(118.4, 2, 1, 6_900_000_000, 130_000_000, 9_100_000_000, 16_000_000_000, "metal", 0.1, 3.2, 1180.0)
FULL = replace(
    SAMPLE,
    wait_reason="Waiting for memory.",
    streams=(StreamFigures("a", "Kitchen", 41.27, (40.0, 41.0)), StreamFigures("b", "Street", 77.1, (70.0,))),
    prefix=CacheFigures(1_240_000_000, 4_000_000_000, 12, 0.964, 182_345),
    vision=CacheFigures(312_000_000, 500_000_000, 1, 0.5),
    mtp=MtpFigures(0.823, 1.807, None),
)


def shown(stage, sample: Sample):
    made = stage("Kitchen")
    made.vitals.latest = sample
    made.vitals.sampled.emit()
    return made, made.window.vitals


def test_the_panel_asks_for_samples_only_while_it_is_seen(stage) -> None:
    made = stage("Kitchen")
    assert made.vitals.watched == [True]
    made.window.panel_actions[1].setChecked(False)
    assert made.vitals.watched == [True, False]
    made.window.panel_actions[1].setChecked(True)
    assert made.vitals.watched == [True, False, True]


def test_the_unit_stands_beside_the_speed_at_rest_and_still_while_it_changes(stage) -> None:
    made = stage("Kitchen")
    speed = made.window.vitals._speed
    row = speed.parentWidget().layout()

    def unit_x(text: str) -> int:
        speed.say(text)
        row.activate()
        return row.itemAt(1).widget().x()

    assert unit_x("0") < unit_x("9.1") == unit_x("41.5")
    assert unit_x("0") - speed.fontMetrics().horizontalAdvance("0") < 16


def test_figures_are_the_sampled_ones_with_their_units(stage) -> None:
    made = stage("Kitchen")
    made.vitals.latest, made.vitals.history = SAMPLE, (1.0, 50.0, 118.4)
    made.vitals.sampled.emit()
    panel = made.window.vitals
    assert panel._speed.text() == "118"
    assert panel._batch.values() == {"Answering": "2", "Waiting": "1"}
    assert (panel._used.text(), panel._more.text()) == ("6.9 of 16 GB", "Peak 9.10 GB · 130 MB reusable")
    assert panel._gauge._parts == (6.9 / 16, 0.13 / 16, 9.1 / 16)
    assert panel._spark._values == (1.0, 50.0, 118.4)
    assert panel._loop.values()["Longest"] == "1.18 s"
    assert panel._device.text() == "on Metal"
    made.window.grab()


def test_what_is_not_measured_has_no_place(stage) -> None:
    _, panel = shown(stage, SAMPLE)
    assert not panel._kept.isVisible()
    assert not panel._ahead.isVisible()
    assert not panel._streams.isVisible()
    assert not panel._reason.isVisible()


def test_caches_tell_how_full_they_are_and_what_they_brought(stage) -> None:
    _, panel = shown(stage, FULL)
    prefix, vision, ssd = panel._caches.values()
    assert (prefix._size.text(), prefix.facts) == ("1.2 of 4.0 GB", "96 % hits · 12 chats · 182k saved")
    assert (vision._size.text(), vision.facts) == ("312 of 500 MB", "50 % hits · 1 picture")
    assert not ssd.isVisible()


def test_a_cache_that_bytes_do_not_limit_has_no_gauge_and_a_problem_is_told(stage) -> None:
    problem = "The disk is full: nothing more is kept on it."
    _, panel = shown(
        stage, replace(FULL, prefix=CacheFigures(2_000_000, 0, 1, None, 0), ssd=CacheFigures(1, 2, 3, problem=problem))
    )
    prefix, _, ssd = panel._caches.values()
    assert (prefix._size.text(), prefix.facts, prefix.gauge.isVisible()) == ("2 MB", "1 chat", False)
    assert (ssd._problem.isVisible(), ssd._problem.text()) == (True, problem)


def test_a_cache_with_nothing_in_it_is_one_quiet_line(stage) -> None:
    made, panel = shown(stage, replace(FULL, vision=CacheFigures(0, 500_000_000, 0)))
    vision = panel._caches["vision"]
    assert (vision._size.text(), vision._size.objectName()) == ("Empty", "muted")
    assert not any(part.isVisible() for part in (vision.gauge, vision._facts, vision.button))
    made.vitals.latest = FULL
    made.vitals.sampled.emit()
    assert (vision._size.text(), vision._size.objectName()) == ("312 of 500 MB", "")
    assert all(part.isVisible() for part in (vision.gauge, vision._facts, vision.button))


def test_everything_fits_a_small_window_while_three_chats_answer(stage, qtbot) -> None:
    made = stage("Kitchen")
    made.window.resize(1200, 760)
    disk = CacheFigures(4_000_000_000, 10_000_000_000, 230, None, 41_000)
    mtp = MtpFigures(0.823, 1.81, "Resting while several answers are written")
    third = StreamFigures("c", "Bird at the feeder, which one is it?", 3.14, (3.0,))
    reason = "Waiting for memory: it needs 3.2 GB, 1.1 GB is free."
    made.vitals.latest = replace(FULL, streams=(*FULL.streams, third), ssd=disk, mtp=mtp, wait_reason=reason)
    made.vitals.sampled.emit()
    panel = made.window.vitals
    qtbot.waitUntil(lambda: panel._inside.height() >= panel._inside.minimumSizeHint().height())
    assert all(line.isVisible() for line in panel._streams.lines)
    assert panel._inside.sizeHint().height() <= panel.viewport().height()
    assert not panel.verticalScrollBar().isVisible()


def test_each_cache_is_cleared_alone(stage, qtbot) -> None:
    made, panel = shown(stage, FULL)
    for cache in ("vision", "prefix"):
        qtbot.mouseClick(panel._caches[cache].button, Qt.MouseButton.LeftButton)
    assert made.vitals.cleared == ["vision", "prefix"]


def test_answers_are_told_apart_by_their_chat(stage) -> None:
    made, panel = shown(stage, FULL)
    assert [line.accessibleName() for line in panel._streams.lines] == [
        "Kitchen: 41.3 tokens per second",
        "Street: 77.1 tokens per second",
    ]
    assert [line._spark._values for line in panel._streams.lines] == [(40.0, 41.0), (70.0,)]
    made.vitals.latest = replace(FULL, streams=FULL.streams[:1])
    made.vitals.sampled.emit()
    assert [line.isVisible() for line in panel._streams.lines] == [True, False]
    made.vitals.latest = replace(FULL, streams=FULL.streams * 5)
    made.vitals.sampled.emit()
    assert (len(panel._streams.lines), panel._streams._more.text()) == (8, "and 2 more")


@pytest.mark.parametrize(
    ("mtp", "drafts", "said"),
    [
        (MtpFigures(0.823, 1.807, None), {"Accepted": "82 %", "Tokens per step": "1.81"}, ""),
        (
            MtpFigures(0.5, 1.5, "Off in the settings"),
            {"Accepted": "50 %", "Tokens per step": "1.50"},
            "Off in the settings",
        ),
        (MtpFigures(None, None, "Off in the settings"), None, "Off in the settings"),
        (MtpFigures(None, None, None), None, "Nothing predicted yet"),
    ],
)
def test_drafts_are_told_as_counted_or_why_there_are_none(stage, mtp, drafts, said) -> None:
    _, panel = shown(stage, replace(SAMPLE, mtp=mtp))
    assert panel._drafts.isVisible() == (drafts is not None)
    assert drafts is None or panel._drafts.values() == drafts
    assert (panel._off.text(), panel._off.isVisible()) == (said, bool(said))


def test_nothing_measured_shows_no_number(stage) -> None:
    made, panel = shown(stage, FULL)
    made.vitals.latest = None  # the model was unloaded
    made.vitals.sampled.emit()
    assert panel._speed.text() == "–"
    assert (panel._used.text(), panel._more.text(), panel._device.text()) == ("–", "", "")
    assert set(panel._loop.values().values()) == {"–"}
    assert not panel._kept.isVisible()


def test_figures_stand_still_while_they_change(stage) -> None:
    made, panel = shown(stage, FULL)

    def places() -> list[object]:
        QApplication.processEvents()
        parts = [panel._spark, panel._gauge, *panel._streams.lines, *panel._caches.values(), panel._loop]
        return [part.geometry() for part in parts] + [line._spark.geometry() for line in panel._streams.lines]

    before = places()
    streams = tuple(replace(stream, tokens_per_second=3.14159) for stream in FULL.streams)
    made.vitals.latest = replace(FULL, tokens_per_second=9.0, active_bytes=1, streams=streams, stall_p50_ms=99.9)
    made.vitals.sampled.emit()
    assert places() == before


def test_the_same_sample_again_draws_nothing(stage, monkeypatch) -> None:
    made, _ = shown(stage, FULL)
    QApplication.processEvents()
    drawn = []
    for kind in (Gauge, Sparkline):
        monkeypatch.setattr(kind, "update", lambda self: drawn.append(self))
    made.vitals.sampled.emit()
    assert drawn == []


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (3.14159, "3.14"), (9.999, "10.0"), (41.27, "41.3"), (118.4, "118"), (1234, "1.23k"), (2.5e6, "2.50M")],
)
def test_three_significant_digits_at_most(value: float, shown: str) -> None:
    assert figure(value) == shown


def test_units_change_with_the_size() -> None:
    assert (gigabytes(999_000_000), gigabytes(999_900_000), gigabytes(16_000_000_000)) == (
        "999 MB",
        "1.00 GB",
        "16.0 GB",
    )
    assert (milliseconds(3.24), milliseconds(250.4), milliseconds(1500)) == ("3.2 ms", "250 ms", "1.50 s")
    assert of_gigabytes(1_240_000_000, 16_000_000_000) == "1.2 of 16 GB"
    assert of_gigabytes(0, 155_000_000) == "0 of 155 MB"
    assert of_gigabytes(0, 16_000_000_000) == "0 of 16 GB"
    assert of_gigabytes(1_600_000, 5_040_000_000) == "2 MB of 5 GB"
    assert of_gigabytes(300_000, 715_000_000) == "0.3 of 715 MB"
    assert [percent(share) for share in (0, 0.001, 0.964, 0.999, 1)] == ["0 %", "1 %", "96 %", "99 %", "100 %"]
    assert [count(number) for number in (12, 999, 182_345)] == ["12", "999", "182k"]
