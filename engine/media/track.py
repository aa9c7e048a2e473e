"""The moving pictures in a clip: their clock, their keyframes, and the way from a frame to upright pixels."""

import bisect
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import cast

import av
import numpy as np
from av.container import InputContainer
from av.error import FFmpegError
from av.video.reformatter import Interpolation, VideoReformatter
from av.video.stream import VideoStream

from engine.errors import MediaError
from engine.media.clip import VideoInfo
from engine.media.container import (
    Health,
    broken,
    container_seconds,
    decode,
    open_container,
    picture_stream,
    sound_stream,
    stream_seconds,
    unplayable,
)
from engine.media.pixels import Pixels, check_size, fit_size
from engine.media.source import Located

_FALLBACK_FPS = 25.0
# Keyframes are listed by decoding time, which runs ahead of the time on screen by a few frames.
_KEY_LEAD_SECONDS = 0.25
# How far before the first sample to begin where the keyframes are unknown.
_BLIND_LEAD_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Track:
    """What is known about a clip's pictures before they are read.

    Attributes:
        info: What a caller wants to know.
        origin: Seconds on the stream's own clock where the clip begins.
        keys: Seconds of the keyframes from there, ascending; empty if the file does not list them.
        exact_end: The duration is that of the pictures, and not of a longer sound beside them.
    """

    info: VideoInfo
    origin: float
    keys: tuple[float, ...]
    exact_end: bool


@dataclass(frozen=True, slots=True)
class Segment:
    """Times to be sampled in one go.

    Attributes:
        times: Ascending seconds.
        key: Seconds to jump to first; None to go on from where decoding stands.
    """

    times: tuple[float, ...]
    key: float | None


def probe_track(located: Located) -> Track:
    """Open a clip, decode its first frame, and close it.

    Raises:
        MediaError: Nothing in it can be shown; `sound_only` is set where there is sound.
    """
    with open_container(located, "clip") as container:
        stream = picture_stream(container)
        if stream is None:
            raise _no_pictures(located.name, container)
        if stream.codec_context is None:
            raise unplayable(located.name, "clip")
        check_size(located.name, (stream.codec_context.width, stream.codec_context.height))
        first = cast("av.VideoFrame | None", next(decode(container, stream, Health()), None))
        if first is None:
            raise broken(located.name, "clip")
        sound = sound_stream(container)
        origin, size, keys = _origin(stream, first), _upright_size(first, stream), _keyframes(stream)
        fps = _rate(stream, first)
        own_seconds = _own_seconds(container, stream, origin)
        seconds, count = own_seconds or container_seconds(container, origin), stream.frames
    if seconds is None:
        count, seconds = _scan(located, origin, fps)
    info = VideoInfo(seconds, fps, size, count or max(1, round(seconds * fps)), sound is not None)
    return Track(info, origin, tuple(key - origin for key in keys), own_seconds is not None or sound is None)


def segments(track: Track, times: list[float]) -> list[Segment]:
    """Cut the times where jumping to a keyframe skips more decoding than it costs.

    Jumping pays only if the samples are at least as far apart as the keyframes; otherwise all is decoded in one go,
    from the keyframe before the first sample.
    """
    step = (times[-1] - times[0]) / max(len(times) - 1, 1)
    if track.keys and step >= track.info.duration / len(track.keys):
        keyed = groupby(times, lambda time: _key_before(track.keys, time))
        return [Segment(tuple(group), key) for key, group in keyed]
    if track.keys:
        return [Segment(tuple(times), _key_before(track.keys, times[0]))]
    early = times[0] - _BLIND_LEAD_SECONDS
    return [Segment(tuple(times), early if early > 0 else None)]


def timed_frames(
    container: InputContainer,
    track: Track,
    segment: Segment,
    health: Health,
    should_stop: Callable[[], bool] | None,
) -> Iterator[tuple[float, av.VideoFrame]]:
    """Yield (seconds from the clip's begin, frame), from the segment's keyframe on."""
    stream = picture_stream(container)
    assert stream is not None, "a track has pictures"
    if segment.key is not None and stream.time_base:
        # Where the file cannot be searched, decoding goes on from where it stands.
        with suppress(FFmpegError):
            container.seek(round((segment.key + track.origin) / stream.time_base), stream=stream)
    for number, frame in enumerate(cast("Iterator[av.VideoFrame]", decode(container, stream, health, should_stop))):
        # A bare stream without a container has no times.
        time = number / track.info.fps if frame.time is None else frame.time - track.origin
        length = float(frame.duration * (frame.time_base or 0)) or 1 / track.info.fps
        health.reached = max(health.reached, time + length)
        yield time, frame


class Scaler:
    """Turns decoded frames into upright RGB of one size."""

    def __init__(self, upright: tuple[int, int], max_pixels: int) -> None:
        """Fit frames whose upright size is (width, height) into `max_pixels`."""
        self._size = fit_size(*upright, max_pixels)
        self._reformatter = VideoReformatter()

    def convert(self, frame: av.VideoFrame) -> Pixels:
        """Return (H, W, 3) uint8 pixels."""
        turns = round(frame.rotation / 90) % 4
        width, height = self._size if turns % 2 == 0 else self._size[::-1]
        shrinks = width * height < frame.width * frame.height
        # Scaled while still in the decoder's format: a full-size RGB copy of every frame would fill the memory.
        small = self._reformatter.reformat(
            frame, width, height, "rgb24", interpolation=Interpolation.AREA if shrinks else Interpolation.BICUBIC
        )
        return np.ascontiguousarray(np.rot90(small.to_ndarray(), turns))


def _no_pictures(name: str, container: InputContainer) -> MediaError:
    if sound_stream(container) is None:
        return broken(name, "clip")
    return MediaError(f"{name} holds only sound and no pictures. Add it as sound.", sound_only=True)


def _origin(stream: VideoStream, first: av.VideoFrame) -> float:
    if stream.start_time is not None and stream.time_base:
        return float(stream.start_time * stream.time_base)
    return first.time or 0.0


def _rate(stream: VideoStream, first: av.VideoFrame) -> float:
    # A bare stream has no times to take an average from: its own headers know better.
    rates = (stream.average_rate, stream.guessed_rate)
    return float(next(filter(None, rates if first.time is not None else reversed(rates)), _FALLBACK_FPS))


def _own_seconds(container: InputContainer, stream: VideoStream, origin: float) -> float | None:
    """Return how long the pictures last, or None.

    MP4 adds up decoding times, which end early where frames are reordered and unevenly spaced: a frame beyond the
    stated end is believed.
    """
    seconds = stream_seconds(container, stream, origin)
    if seconds is None or not stream.time_base:
        return seconds
    last = 0.0
    with suppress(FFmpegError, IndexError):
        container.seek(round((seconds + origin) / stream.time_base), stream=stream)
        times = [packet.pts * stream.time_base for packet in container.demux(stream) if packet.pts is not None]
        last = float(max(times, default=0))
    return max(seconds, last - origin)


def _keyframes(stream: VideoStream) -> list[float]:
    """Return the seconds of the listed keyframes on the stream's clock, on the safe side of when they are shown."""
    unit = float(stream.time_base or 0)
    return sorted(entry.timestamp * unit for entry in stream.index_entries if entry.is_keyframe)


def _key_before(keys: tuple[float, ...], time: float) -> float | None:
    """Return the keyframe to start from for a time; None for the first one, where decoding begins anyway."""
    at = bisect.bisect_right(keys, time - _KEY_LEAD_SECONDS)
    return keys[at - 1] if at > 1 else None


def _upright_size(frame: av.VideoFrame, stream: VideoStream) -> tuple[int, int]:
    """Return (width, height) as meant to be seen: square pixels, turned."""
    width = max(1, round(frame.width * float(stream.sample_aspect_ratio or 1)))
    return (width, frame.height) if round(frame.rotation / 90) % 2 == 0 else (frame.height, width)


def _scan(located: Located, origin: float, fps: float) -> tuple[int, float]:
    """Return the packets and the seconds of a clip that tells neither, from its packets alone."""
    count, last = 0, None
    with open_container(located, "clip") as container, suppress(FFmpegError, IndexError):
        for packet in container.demux(picture_stream(container)):
            count += packet.size > 0
            if packet.pts is not None and packet.time_base:
                last = max(last or 0.0, float(packet.pts * packet.time_base))
    return count, (count / fps if last is None else last - origin + 1 / fps)
