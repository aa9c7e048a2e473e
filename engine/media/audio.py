"""Sound as the model will hear it: 16 kHz mono samples."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast

import av
import numpy as np
from av.audio.stream import AudioStream
from av.container import InputContainer
from av.error import FFmpegError
from numpy.typing import NDArray

from engine.errors import MediaError
from engine.media.container import (
    Health,
    broken,
    container_seconds,
    decode,
    open_container,
    sound_stream,
    stream_seconds,
    unplayable,
)
from engine.media.fingerprint import fingerprint
from engine.media.source import Located, Source, locate

DEFAULT_RATE = 16_000
DEFAULT_MAX_SECONDS = 1800.0

_SHORTEST_SECONDS = 0.1
_RATES = range(1000, 1_000_000)  # what a damaged header promises beyond that takes minutes to convert
_WORTH_SAYING = 0.05  # of a sound lost


@dataclass(frozen=True, slots=True)
class SoundInfo:
    """What a sound says about itself.

    Attributes:
        duration: Seconds; None if only decoding would tell.
        rate: Samples per second in the file.
        channels: Channels in the file.
    """

    duration: float | None
    rate: int
    channels: int


@dataclass(frozen=True, slots=True, eq=False)
class Sound:
    """Decoded sound.

    Attributes:
        samples: (n,) float32 mono, within about -1..1, read-only.
        rate: Samples per second.
        duration: Seconds of `samples`.
        name: What to call it in sentences.
        note: What a person should know about how it was read; None if nothing.
    """

    samples: NDArray[np.float32]
    rate: int
    duration: float
    name: str
    note: str | None = None

    def fingerprint(self, geometry: str = "") -> str:
        """Return the name of these samples."""
        return fingerprint(self.samples, f"{self.rate} Hz {geometry}")


def read_audio(
    source: Source,
    *,
    name: str | None = None,
    rate: int = DEFAULT_RATE,
    max_seconds: float = DEFAULT_MAX_SECONDS,
    should_stop: Callable[[], bool] | None = None,
) -> Sound:
    """Decode a sound file, or a clip's sound, to mono samples.

    All channels are mixed. What does not decode is passed over; the note says so from 5 % on.

    Args:
        source: A path, a `data:` URL or the file's bytes.
        name: What to call it; None takes the file's name.
        rate: Samples per second wanted.
        max_seconds: Longer sounds are cut there, and the note says so.
        should_stop: Asked between packets, on the calling thread; True ends the reading.

    Raises:
        MediaError: It cannot be read, has no sound, or is shorter than a tenth of a second.
        MediaCancelled: `should_stop` returned True.
    """
    located = locate(source, name=name, noun="sound")
    health = Health()
    with open_container(located, "sound") as container:
        stream = _stream(container, located)
        stated = _seconds(container, stream)
        samples, cut = _limit(_blocks(container, stream, rate, health, should_stop), round(rate * max_seconds))
    if not samples.size and health.bad:
        raise broken(located.name, "sound")
    seconds = samples.size / rate
    if seconds < _SHORTEST_SECONDS:
        raise MediaError(f"{located.name} is too short ({seconds:.2f} s). Add at least {_SHORTEST_SECONDS} s of sound.")
    return Sound(samples, rate, seconds, located.name, _note(seconds, stated, cut, health))


def probe_audio(source: Source, *, name: str | None = None) -> SoundInfo:
    """Return what a sound says about itself, without decoding it.

    Raises:
        MediaError: It cannot be opened or has no sound.
    """
    located = locate(source, name=name, noun="sound")
    with open_container(located, "sound") as container:
        stream = _stream(container, located)
        return SoundInfo(_seconds(container, stream), stream.rate, stream.channels)


def _stream(container: InputContainer, located: Located) -> AudioStream:
    stream = sound_stream(container)
    if stream is None:
        raise MediaError(f"{located.name} holds no sound. Add a file with sound in it.")
    if stream.codec_context is None:
        raise unplayable(located.name, "sound")
    if stream.rate not in _RATES or not stream.channels:
        raise broken(located.name, "sound")
    return stream


def _seconds(container: InputContainer, stream: AudioStream) -> float | None:
    origin = float((stream.start_time or 0) * (stream.time_base or 0))
    return stream_seconds(container, stream, origin) or container_seconds(container, origin)


def _blocks(
    container: InputContainer,
    stream: AudioStream,
    rate: int,
    health: Health,
    should_stop: Callable[[], bool] | None,
) -> Iterator[NDArray[np.float32]]:
    """Yield (n,) float32 mono blocks at the wanted rate."""
    resampler, setup = None, None
    for frame in cast("Iterator[av.AudioFrame]", decode(container, stream, health, should_stop)):
        found = frame.format.name, frame.layout.name, frame.sample_rate
        if found != setup:  # a file may go from mono to stereo on its way
            yield from _resample(resampler, None, health)
            resampler, setup = av.AudioResampler(format="flt", layout="mono", rate=rate), found
        frame.pts = None  # gaps between times would otherwise stop the resampler
        yield from _resample(resampler, frame, health)
    yield from _resample(resampler, None, health)


def _resample(
    resampler: av.AudioResampler | None, frame: av.AudioFrame | None, health: Health
) -> list[NDArray[np.float32]]:
    """Return the mono blocks that come out; None as the frame drains what is left."""
    if resampler is None:
        return []
    try:
        return [block.to_ndarray()[0] for block in resampler.resample(frame)]
    except FFmpegError:
        health.bad += 1  # channels in an order that does not exist
        return []


def _limit(blocks: Iterator[NDArray[np.float32]], most: int) -> tuple[NDArray[np.float32], bool]:
    """Return the first `most` samples, read-only, and whether there were more."""
    kept: list[NDArray[np.float32]] = []
    count = 0
    for block in blocks:
        kept.append(block)
        count += block.size
        if count > most:
            break
    samples = np.nan_to_num(np.concatenate(kept)[:most]) if kept else np.empty(0, np.float32)
    samples.setflags(write=False)
    return samples, count > most


def _note(seconds: float, stated: float | None, cut: bool, health: Health) -> str | None:
    if cut:
        whole = f" of {stated / 60:.0f}" if stated else ""
        return f"only the first {seconds / 60:.0f}{whole} minutes"
    lost = health.bad / max(health.packets, 1)
    if stated:
        lost = max(lost, 1 - seconds / stated)
    return f"damaged: about {lost * 100:.0f} % of it could not be read" if lost > _WORTH_SAYING else None
