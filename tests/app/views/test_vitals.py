from __future__ import annotations

import pytest

from app.state.vitals import Sample
from app.views.vitals import figure, gigabytes, milliseconds

SAMPLE = Sample(118.4, 2, 1, 6_900_000_000, 130_000_000, 9_100_000_000, 16_000_000_000, "metal", 0.1, 3.2, 1180.0)


def test_the_panel_asks_for_samples_only_while_it_is_seen(stage) -> None:
    made = stage("Kitchen")
    assert made.vitals.watched == [True]
    made.window.panel_actions[1].setChecked(False)
    assert made.vitals.watched == [True, False]
    made.window.panel_actions[1].setChecked(True)
    assert made.vitals.watched == [True, False, True]


def test_figures_are_the_sampled_ones_with_their_units(stage) -> None:
    made = stage("Kitchen")
    made.vitals.latest, made.vitals.history = SAMPLE, (1.0, 50.0, 118.4)
    made.vitals.sampled.emit()
    panel = made.window.vitals
    assert panel._speed.text() == "118"
    assert panel._batch._values["Answering"].text() == "2"
    assert panel._batch._values["Waiting"].text() == "1"
    memory = {name: label.text() for name, label in panel._memory._values.items()}
    assert memory == {"In use": "6.90 GB", "Reusable": "130 MB", "Peak": "9.10 GB", "Limit": "16.0 GB"}
    assert panel._loop._values["Longest"].text() == "1.18 s"
    assert panel._device._values["Runs on"].text() == "Metal"
    made.window.grab()


def test_nothing_measured_shows_no_number(stage) -> None:
    made = stage("Kitchen")
    made.vitals.sampled.emit()
    assert made.window.vitals._speed.text() == "–"


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0"), (3.14159, "3.14"), (9.999, "10.0"), (41.27, "41.3"), (118.4, "118")]
)
def test_three_significant_digits_at_most(value: float, shown: str) -> None:
    assert figure(value) == shown


def test_units_change_with_the_size() -> None:
    assert (gigabytes(999_000_000), gigabytes(16_000_000_000)) == ("999 MB", "16.0 GB")
    assert (milliseconds(3.24), milliseconds(250.4), milliseconds(1500)) == ("3.2 ms", "250 ms", "1.50 s")
