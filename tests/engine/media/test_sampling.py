"""Moments of a clip, and the frames that show them."""

import pytest

from engine.media.sampling import frame_times, pick


class TestFrameTimes:
    def test_samples_are_one_over_fps_apart_from_the_start(self) -> None:
        assert frame_times(3.0, 2.0, 128) == [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]

    def test_a_long_clip_is_sampled_more_thinly(self) -> None:
        assert frame_times(100.0, 2.0, 4) == [0.0, 25.0, 50.0, 75.0]

    def test_a_short_clip_gives_two(self) -> None:
        assert frame_times(0.1, 2.0, 128) == [0.0, 0.05]
        assert frame_times(0.0, 2.0, 128) == [0.0, 0.0]

    def test_a_range(self) -> None:
        assert frame_times(60.0, 1.0, 128, start=10.0, end=13.0) == [10.0, 11.0, 12.0]
        assert frame_times(12.0, 1.0, 128, start=10.0, end=99.0) == [10.0, 11.0]

    def test_one_frame_is_possible(self) -> None:
        assert frame_times(60.0, 2.0, 1) == [0.0]

    @pytest.mark.parametrize(("fps", "most"), [(0.0, 8), (-1.0, 8), (2.0, 0)])
    def test_impossible_wishes(self, fps: float, most: int) -> None:
        with pytest.raises(ValueError, match="max_frames"):
            frame_times(10.0, fps, most)


class TestPick:
    FRAMES = ((0.0, "a"), (0.4, "b"), (1.1, "c"), (5.0, "d"))

    def test_the_frame_on_screen_at_each_time(self) -> None:
        assert list(pick(self.FRAMES, [0.0, 0.5, 1.2])) == [(0.0, "a"), (0.4, "b"), (1.1, "c")]

    def test_a_frame_on_screen_for_long_is_given_once(self) -> None:
        assert [frame for _, frame in pick(self.FRAMES, [1.2, 2.0, 3.0, 4.0, 5.0])] == ["c", "d"]

    def test_a_frame_exactly_on_time_is_on_screen(self) -> None:
        assert [frame for _, frame in pick(self.FRAMES, [0.4])] == ["b"]

    def test_times_outside_get_the_nearest_frame(self) -> None:
        assert [frame for _, frame in pick(self.FRAMES, [-1.0, 9.0])] == ["a", "d"]

    def test_nothing_is_read_beyond_the_last_time(self) -> None:
        read = []
        frames = ((time, read.append(time)) for time in (0.0, 1.0, 2.0, 3.0))
        assert [time for time, _ in pick(frames, [0.5])] == [0.0]
        assert read == [0.0, 1.0]

    def test_no_frames(self) -> None:
        assert list(pick([], [0.0])) == []
