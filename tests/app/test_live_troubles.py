"""The real program at bad moments: it says what is wrong, loses nothing and ends."""

from tests.app.driving import outside


def test_a_library_of_a_newer_braid_is_told_in_the_window_and_left_untouched():
    found = outside("tests.app.live_troubles", "newer")
    assert "newer Braid" in found["told"]
    assert found["states"] == ["done", "done"]
    assert found["untouched"]
    assert found["left"] == ["library.sqlite"]


def test_quitting_ends_a_download_keeps_what_came_and_finishes_what_is_being_exported():
    found = outside("tests.app.live_troubles", "busy")
    assert found["streaming"]
    assert found["took_s"] < 10
    assert not found["worker_lives"]
    assert found["received"]
    assert found["exported"]
    assert found["turns"] == [["done", 1], ["cut", 1]]
