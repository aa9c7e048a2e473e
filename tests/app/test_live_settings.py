"""The settings and the panel on the real program: changed while two tabs stream, shown as the engine measures."""

import pytest

from tests.app.driving import outside


@pytest.fixture(scope="module")
def found():
    """One walk through the settings of the real program; its file held an impossible value."""
    return outside("tests.app.live_settings")


def test_cache_size_and_mtp_change_while_two_tabs_stream_and_both_go_on(found):
    assert found["streaming"] == [True, True]
    before, after = found["budget_mb"]
    assert before > after == 64.0
    assert found["mtp"] == [False, True]
    assert found["ended"] == ["done", "done"]
    assert found["lone"][0] == "done"


def test_every_number_in_the_panel_is_the_engine_s(found):
    assert len(found["figures"]) == 10
    assert [name for name, told, measured in found["figures"] if told != measured] == []


def test_choices_are_on_disk_while_the_program_runs(found):
    assert found["saved"] == [64, True, 16]


def test_a_bad_value_in_the_file_boots_with_a_note(found):
    assert len(found["notes"]) == 1
    assert "engine.max_num_seqs" in found["notes"][0]


def test_clear_empties_the_cache(found):
    assert found["entries"] == 0
