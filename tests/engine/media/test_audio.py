"""Sounds of every format, whole and broken, as 16 kHz mono."""

import os
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from engine.errors import MediaCancelled, MediaError
from engine.media.audio import probe_audio, read_audio

Make = Callable[..., Path]


def tone(rate: int, channels: int = 1, seconds: float = 1.0, hertz: float = 440.0) -> np.ndarray:
    wave = 0.5 * np.sin(2 * np.pi * hertz * np.arange(int(rate * seconds)) / rate)
    return np.tile(wave.astype(np.float32), (channels, 1))


def peak(samples: np.ndarray, rate: int = 16_000) -> float:
    """The strongest frequency in hertz."""
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(samples.size)))
    return float(spectrum.argmax() * rate / samples.size)


def wav_header(rate: int) -> bytes:
    form = struct.pack("<HHIIHH", 1, 1, rate, rate * 2 % 2**32, 2, 16)
    return b"RIFF" + struct.pack("<I", 1036) + b"WAVEfmt \x10\0\0\0" + form + b"data\0\x04\0\0" + bytes(1024)


def refusal(source: object, **options: object) -> MediaError:
    with pytest.raises(MediaError) as caught:
        read_audio(source, **options)
    assert str(caught.value).endswith(".")
    assert "Errno" not in str(caught.value)
    return caught.value


class TestFormats:
    @pytest.mark.parametrize(
        ("name", "codec", "rate", "layout", "channels"),
        [
            ("a.wav", "pcm_s16le", 48000, "stereo", 2),
            ("a.wav", "pcm_s16le", 44100, "mono", 1),
            ("a.wav", "pcm_s16le", 8000, "mono", 1),
            ("a.wav", "pcm_s24le", 48000, "mono", 1),
            ("a.wav", "pcm_f32le", 48000, "mono", 1),
            ("a.wav", "pcm_u8", 16000, "mono", 1),
            ("a.wav", "pcm_s16le", 48000, "5.1", 6),
            ("a.mp3", "libmp3lame", 44100, "stereo", 2),
            ("a.m4a", "aac", 48000, "stereo", 2),
            ("a.flac", "flac", 96000, "mono", 1),
            ("a.ogg", "libopus", 48000, "stereo", 2),
            ("a.mka", "libopus", 48000, "mono", 1),
        ],
    )
    def test_a_second_of_any_kind_is_a_second_of_mono(
        self, make_sound: Make, name: str, codec: str, rate: int, layout: str, channels: int
    ) -> None:
        path = make_sound(name, tone(rate, channels), rate=rate, codec=codec, layout=layout)
        sound = read_audio(path)
        assert sound.samples.dtype == np.float32
        assert not sound.samples.flags.writeable
        assert sound.samples.shape[0] == pytest.approx(16_000, abs=1200)  # codecs pad their first and last block
        assert peak(sound.samples) == pytest.approx(440, abs=3)
        assert np.abs(sound.samples).max() > 0.3
        assert (sound.rate, sound.name, sound.note) == (16_000, name, None)
        info = probe_audio(path)
        assert (info.rate, info.channels) == (rate, channels)
        assert info.duration == pytest.approx(1.0, abs=0.08)

    def test_lossless_sound_keeps_its_length_exactly(self, make_sound: Make) -> None:
        assert read_audio(make_sound("a.wav", tone(16000), rate=16000)).samples.size == 16_000
        assert read_audio(make_sound("b.wav", tone(48000, 2), layout="stereo")).duration == pytest.approx(
            1.0, abs=0.002
        )

    def test_one_sided_stereo_is_heard(self, make_sound: Make) -> None:
        both = tone(48000, 2)
        both[1] = 0
        sound = read_audio(make_sound("left.wav", both, layout="stereo"))
        assert peak(sound.samples) == pytest.approx(440, abs=2)
        assert 0.2 < np.abs(sound.samples).max() < 0.5

    def test_a_file_that_turns_from_mono_to_stereo(self, make_sound: Make) -> None:
        mono = make_sound("a.aac", tone(48000), codec="aac").read_bytes()
        stereo = make_sound("b.aac", tone(48000, 2), codec="aac", layout="stereo").read_bytes()
        sound = read_audio(mono + stereo)
        assert sound.duration == pytest.approx(2.0, abs=0.15)
        assert peak(sound.samples) == pytest.approx(440, abs=2)

    def test_another_rate_can_be_asked_for(self, make_sound: Make) -> None:
        sound = read_audio(make_sound("a.wav", tone(48000)), rate=24_000)
        assert sound.samples.size == pytest.approx(24_000, abs=50)
        assert sound.duration == pytest.approx(1.0, abs=0.002)

    def test_silence_is_sound(self, make_sound: Make) -> None:
        assert not read_audio(make_sound("quiet.wav", np.zeros((1, 24000)))).samples.any()

    def test_the_sound_of_a_clip(self, make_clip: Make) -> None:
        assert read_audio(make_clip("talk.mp4", sound=True)).duration == pytest.approx(1.0, abs=0.1)

    def test_the_same_sound_has_the_same_name(self, make_sound: Make) -> None:
        path = make_sound("a.wav", tone(16000), rate=16000)
        assert read_audio(path).fingerprint() == read_audio(path.read_bytes()).fingerprint()
        assert read_audio(path).fingerprint() != read_audio(path, rate=8000).fingerprint()


class TestLimits:
    def test_a_long_sound_is_cut_and_says_so(self, make_sound: Make) -> None:
        path = make_sound("talk.wav", np.zeros((1, 8000 * 180)), rate=8000)
        sound = read_audio(path, max_seconds=60)
        assert sound.samples.size == 16_000 * 60
        assert sound.note == "only the first 1 of 3 minutes"

    def test_a_sound_as_long_as_the_limit_is_whole(self, make_sound: Make) -> None:
        assert read_audio(make_sound("a.wav", tone(16000), rate=16000), max_seconds=1.0).note is None

    @pytest.mark.parametrize("samples", [0, 160, 1500])
    def test_too_short_is_refused(self, make_sound: Make, samples: int) -> None:
        sentence = str(refusal(make_sound("beep.wav", np.zeros((1, samples)), rate=16000)))
        assert sentence.startswith("beep.wav is too short")

    def test_a_tenth_of_a_second_is_enough(self, make_sound: Make) -> None:
        assert read_audio(make_sound("beep.wav", np.zeros((1, 1600)), rate=16000)).duration == 0.1

    def test_reading_can_be_stopped(self, make_sound: Make) -> None:
        with pytest.raises(MediaCancelled):
            read_audio(make_sound("a.wav", tone(16000), rate=16000), should_stop=lambda: True)


class TestBroken:
    @pytest.mark.parametrize(
        ("content", "word"),
        [
            (b"", "empty"),
            (b"hello " * 99, "plain text"),
            (b"RIFF\x24\0\0\0WAVEfmt ", "damaged"),
            (wav_header(rate=1), "damaged"),
            (wav_header(rate=4_000_000_000), "damaged"),
            (b"\x89PNG\r\n\x1a\n", "a picture"),
            (bytes(range(256)) * 9, "is not a sound"),
        ],
    )
    def test_what_is_no_sound_is_refused(self, tmp_path: Path, content: bytes, word: str) -> None:
        (tmp_path / "a.wav").write_bytes(content)
        assert word in str(refusal(tmp_path / "a.wav"))

    def test_a_cut_file_keeps_what_decodes_and_says_so(self, make_sound: Make) -> None:
        data = make_sound("a.flac", np.random.default_rng(0).normal(0, 0.1, (1, 48000)), codec="flac").read_bytes()
        sound = read_audio(data[: len(data) // 2])
        assert 0.3 < sound.duration < 0.6
        assert sound.note is not None
        assert sound.note.startswith("damaged: about")

    def test_a_clip_without_sound(self, make_clip: Make) -> None:
        assert str(refusal(make_clip("mute.mp4", 4))) == "mute.mp4 holds no sound. Add a file with sound in it."

    def test_files_are_closed_whatever_happens(self, make_sound: Make, make_clip: Make) -> None:
        good, mute = make_sound("a.wav", tone(16000), rate=16000), make_clip("mute.mp4", 2)
        before = len(os.listdir("/dev/fd"))
        for _ in range(10):
            read_audio(good)
            probe_audio(good)
            refusal(mute)
        assert len(os.listdir("/dev/fd")) == before
