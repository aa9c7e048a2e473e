"""Clips of every container, whole and broken, as frames sampled by time."""

import base64
import io
import os
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from engine.errors import MediaCancelled, MediaError
from engine.media.video import Clip, probe_video, read_video

Make = Callable[..., Path]


def numbers(clip: Clip) -> list[int]:
    """Which frames of the test clip these are, by their brightness."""
    _, height, width, _ = clip.frames.shape
    middle = clip.frames[:, height // 3 : 2 * height // 3, width // 3 : 2 * width // 3].mean(axis=(1, 2, 3))
    return [round(value / 8) for value in middle]


def refusal(source: object, **options: object) -> MediaError:
    with pytest.raises(MediaError) as caught:
        read_video(source, **options)
    assert str(caught.value).endswith(".")
    assert "Errno" not in str(caught.value)
    return caught.value


class TestSampling:
    @pytest.mark.parametrize(
        ("name", "codec"),
        [
            ("a.mp4", "libx264"),
            ("a.mov", "libx264"),
            ("a.webm", "libvpx"),
            ("a.mkv", "libx264"),
            ("a.ts", "libx264"),
            ("a.avi", "mpeg4"),
            ("a.h264", "libx264"),
        ],
    )
    def test_every_container_gives_the_frames_on_screen(self, make_clip: Make, name: str, codec: str) -> None:
        path = make_clip(name, 20, codec=codec)
        clip = read_video(path, fps=2)
        assert np.allclose(clip.timestamps, [0.0, 0.5, 1.0, 1.5], atol=0.002)
        assert numbers(clip) == [0, 5, 10, 15]
        assert clip.frames.shape == (4, 48, 64, 3)
        assert not clip.frames.flags.writeable
        assert clip.duration == pytest.approx(2.0, abs=0.01)
        assert (clip.source_fps, clip.name, clip.note) == (10.0, name, None)
        info = probe_video(path)
        assert (info.size, info.fps, info.has_audio) == ((64, 48), 10.0, False)
        assert info.frames_estimate == 20

    def test_variable_rate_is_sampled_by_time(self, make_clip: Make) -> None:
        clip = read_video(make_clip("v.mp4", 6, rate=30, times=[0, 33, 66, 1000, 5000, 5033]), fps=2)
        assert clip.timestamps == pytest.approx([0.0, 0.066, 1.0, 5.0], abs=0.001)
        assert numbers(clip) == [0, 2, 3, 4]

    def test_times_count_from_where_the_clip_begins(self, make_clip: Make) -> None:
        clip = read_video(make_clip("late.mkv", 20, times=range(10_000, 12_000, 100)), fps=2)
        assert clip.timestamps == pytest.approx([0.0, 0.5, 1.0, 1.5], abs=0.002)
        assert numbers(clip) == [0, 5, 10, 15]

    def test_broadcast_rate(self, make_clip: Make) -> None:
        clip = read_video(make_clip("ntsc.mp4", 30, rate=Fraction(30000, 1001)), fps=4)
        assert clip.source_fps == pytest.approx(29.97, abs=0.001)
        assert clip.timestamps == pytest.approx(
            [0.0, 7 * 1.001 / 30, 14 * 1.001 / 30, 22 * 1.001 / 30, 29 * 1.001 / 30]
        )

    def test_a_part_of_the_clip(self, make_clip: Make) -> None:
        clip = read_video(make_clip("a.mp4", 30), fps=5, start=1.0, end=2.0)
        assert numbers(clip) == [10, 12, 14, 16, 18]
        assert clip.timestamps == pytest.approx([1.0, 1.2, 1.4, 1.6, 1.8])

    @pytest.mark.parametrize("part", [(9.0, None), (2.0, 1.0), (1.0, 1.0)])
    def test_a_part_that_is_not_there(self, make_clip: Make, part: tuple[float, float | None]) -> None:
        assert "is 3.0 s long" in str(refusal(make_clip("a.mp4", 30), start=part[0], end=part[1]))

    @pytest.mark.parametrize(
        ("name", "codec"), [("long.mp4", "libx264"), ("long.mkv", "libx264"), ("long.avi", "mpeg4")]
    )
    @pytest.mark.parametrize("start", [None, 14.0])
    def test_jumping_between_keyframes_gives_the_same_frames(
        self, make_clip: Make, name: str, codec: str, start: float | None
    ) -> None:
        path = make_clip(name, 250, gop=10, codec=codec)
        clip = read_video(path, max_frames=5, start=start)
        first, step = (start or 0.0), (25.0 - (start or 0.0)) / 5
        assert clip.timestamps == pytest.approx([first + number * step for number in range(5)], abs=0.1)
        assert numbers(clip) == [round(time * 10) % 32 for time in clip.timestamps]

    def test_the_budget_of_a_frame(self, make_clip: Make) -> None:
        clip = read_video(make_clip("a.mp4", 20, size=(320, 240)), max_pixels=3000)
        assert clip.frames.shape == (4, 47, 63, 3)
        assert numbers(clip) == [0, 5, 10, 15]

    def test_the_same_clip_by_path_bytes_and_data_url(self, make_clip: Make) -> None:
        data = make_clip("a.mp4").read_bytes()
        url = f"data:video/mp4;base64,{base64.b64encode(data).decode()}"
        names = {read_video(source).fingerprint("p14") for source in (data, url)}
        assert names == {read_video(make_clip("b%03d:c.mp4")).fingerprint("p14")}
        assert read_video(data).name == "Pasted clip"

    def test_sound_beside_the_pictures_is_told(self, make_clip: Make) -> None:
        assert probe_video(make_clip("talk.mp4", sound=True)).has_audio


class TestUpright:
    @pytest.mark.parametrize("rotation", [0, 90, 180, -90])
    def test_phone_clips_are_turned(self, make_clip: Make, rotation: int) -> None:
        path = make_clip("phone.mp4", 4, rotation=rotation)
        clip, info = read_video(path), probe_video(path)
        turned = np.rot90(np.arange(48 * 64).reshape(48, 64), rotation // 90)
        assert clip.frames.shape[1:3] == turned.shape
        assert info.size == turned.shape[::-1]
        height, width = turned.shape
        corners = {
            0: (2, width // 3),
            90: (height // 2, 2),
            180: (height - 3, width // 2),
            -90: (height // 2, width - 3),
        }
        red, green, blue = clip.frames[0][corners[rotation]].astype(int)
        assert red > 180
        assert max(green, blue) < 80


class TestShortAndDamaged:
    def test_one_frame_is_shown_twice_and_says_so(self, make_clip: Make) -> None:
        clip = read_video(make_clip("one.mp4", 1))
        assert clip.frames.shape[0] == 2
        assert np.array_equal(clip.frames[0], clip.frames[1])
        assert clip.note == "one frame only, shown twice"

    @pytest.mark.parametrize(("frames", "rate"), [(3, 60), (2, Fraction(1, 5))])
    def test_few_frames_are_never_more_than_there_are(self, make_clip: Make, frames: int, rate: Fraction | int) -> None:
        clip = read_video(make_clip("few.mp4", frames, rate=rate))
        assert 2 <= len(clip.timestamps) <= frames
        assert len(set(clip.timestamps)) == len(clip.timestamps)
        assert clip.note is None

    def test_a_damaged_last_packet_costs_one_frame(self, make_clip: Make) -> None:
        path = make_clip("a.mp4", 30, codec="mpeg4", movflags="faststart")
        data = path.read_bytes()
        clip = read_video(data[:-40], fps=10)
        assert 29 <= len(clip.timestamps) <= 30
        assert clip.note is None

    @pytest.mark.parametrize(
        ("name", "codec", "options"),
        [("a.mp4", "libx264", {"movflags": "faststart"}), ("a.webm", "libvpx", {}), ("a.avi", "mpeg4", {})],
    )
    def test_a_cut_tail_keeps_what_decodes_and_says_so(
        self, make_clip: Make, name: str, codec: str, options: dict[str, str]
    ) -> None:
        data = make_clip(name, 60, codec=codec, size=(160, 120), gop=60, **options).read_bytes()
        clip = read_video(data[: len(data) * 3 // 5], fps=2)
        assert 2 <= len(clip.timestamps) < 12
        assert numbers(clip) == [round(time * 10) % 32 for time in clip.timestamps]
        assert clip.note is not None
        assert "damaged: about" in clip.note

    @pytest.mark.parametrize(
        "content", [b"", b"some words " * 50, bytes(range(256)) * 8, b"\0\0\0\x18ftypmp42" + b"\0" * 99]
    )
    def test_what_is_no_clip_is_refused(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "clip.mov").write_bytes(content)
        error = refusal(tmp_path / "clip.mov")
        assert str(error).startswith("clip.mov ")
        assert not error.sound_only
        with pytest.raises(MediaError):
            probe_video(tmp_path / "clip.mov")

    def test_a_clip_whose_index_is_lost_is_refused(self, make_clip: Make) -> None:
        data = make_clip("a.mp4", 30).read_bytes()
        assert "damaged or incomplete" in str(refusal(data[: len(data) // 2]))

    def test_a_playlist_reaches_no_other_file(self, tmp_path: Path) -> None:
        (tmp_path / "list.mp4").write_text("#EXTM3U\n#EXTINF:1,\nhttp://localhost:9/a.ts\n")
        assert "plain text" in str(refusal(tmp_path / "list.mp4"))

    def test_sound_without_pictures_says_so(self, make_sound: Make) -> None:
        tone = np.sin(np.arange(48000) / 10)[None]
        error = refusal(make_sound("talk.mp4", tone, codec="aac"))
        assert error.sound_only
        assert str(error) == "talk.mp4 holds only sound and no pictures. Add it as sound."

    def test_a_still_picture_is_not_a_clip(self) -> None:
        stream = io.BytesIO()
        Image.new("RGB", (8, 8)).save(stream, "PNG")
        assert "single picture" in str(refusal(stream.getvalue()))


class TestCleanUp:
    def test_reading_can_be_stopped(self, make_clip: Make) -> None:
        path = make_clip("a.mp4", 60)
        asked = iter([False] * 10)
        with pytest.raises(MediaCancelled):
            read_video(path, should_stop=lambda: next(asked, True))

    def test_files_are_closed_whatever_happens(self, make_clip: Make, make_sound: Make) -> None:
        good, bad = make_clip("good.mp4", 4), make_clip("bad.mp4", 4)
        bad.write_bytes(bad.read_bytes()[:500])
        mute = make_sound("mute.mp4", np.zeros((1, 4800)), codec="aac")
        before = len(os.listdir("/dev/fd"))
        for _ in range(10):
            read_video(good)
            probe_video(good)
            refusal(bad)
            refusal(mute)
            with pytest.raises(MediaCancelled):
                read_video(good, should_stop=lambda: True)
        assert len(os.listdir("/dev/fd")) == before


class TestAnimations:
    COLOURS = ((255, 0, 0), (0, 255, 0), (0, 0, 255))

    def animation(self, image_format: str, duration: int = 500, frames: int = 3) -> bytes:
        stream = io.BytesIO()
        first, *rest = (Image.new("RGB", (16, 16), self.COLOURS[number % 3]) for number in range(frames))
        options = {"lossless": True} if image_format == "WEBP" else {}
        first.save(stream, image_format, save_all=True, append_images=rest, duration=duration, **options)
        return stream.getvalue()

    @pytest.mark.parametrize("image_format", ["GIF", "WEBP", "PNG", "AVIF"])
    def test_animations_are_clips(self, image_format: str) -> None:
        data = self.animation(image_format)
        clip = read_video(data, fps=2)
        assert clip.timestamps == pytest.approx((0.0, 0.5, 1.0))
        assert np.abs(clip.frames[:, 8, 8].astype(int) - self.COLOURS).max() < 12
        info = probe_video(data)
        assert (info.size, info.frames_estimate, info.duration) == ((16, 16), 3, pytest.approx(1.5))

    def test_many_frames_stay_within_the_limit(self) -> None:
        clip = read_video(self.animation("GIF", duration=20, frames=300), max_frames=8)
        assert len(clip.timestamps) == 8
        assert clip.duration == pytest.approx(6.0)

    def test_frames_without_a_duration_last_a_tenth_of_a_second(self) -> None:
        assert read_video(self.animation("GIF", duration=0)).duration == pytest.approx(0.3)

    def test_a_cut_animation_keeps_what_decodes(self) -> None:
        data = self.animation("PNG", frames=20)
        clip = read_video(data[: len(data) * 3 // 4], fps=2)
        assert 10 < len(clip.timestamps) < 20
        assert clip.note is not None
        assert "damaged" in clip.note

    def test_an_animation_of_more_pixels_than_anybody_waits_for_is_refused_at_once(self) -> None:
        data = bytearray(self.animation("GIF", frames=300))
        data[6:10] = (4000).to_bytes(2, "little") * 2
        for look in (read_video, probe_video):
            with pytest.raises(
                MediaError, match="has 300 frames of 4000 x 4000, and Braid reads up to 250 of this size"
            ):
                look(bytes(data), name="bomb.gif")

    def test_an_animation_can_be_stopped(self) -> None:
        with pytest.raises(MediaCancelled):
            read_video(self.animation("GIF"), should_stop=lambda: True)
