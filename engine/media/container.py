"""Clip and sound files opened with FFmpeg: which streams they hold, how long they are, decoding past damage."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

import av
from av.audio.stream import AudioStream
from av.container import InputContainer
from av.error import FFmpegError
from av.stream import Disposition
from av.video.stream import VideoStream

from engine.errors import MediaCancelled, MediaError
from engine.media.signature import Signature, sniff
from engine.media.source import Located

_READABLE = (Signature.CLIP, Signature.CONTAINER, Signature.SOUND)
_CLOCK = re.compile(r"(\d+):(\d+):(\d+(?:\.\d+)?)")


@dataclass(slots=True)
class Health:
    """What decoding met on its way.

    Attributes:
        packets: Packets decoded or tried.
        bad: Packets that could not be decoded.
        cut_off: The file ended in the middle, or could not be read further.
        reached: Seconds from the beginning up to which there are frames, kept by the reader.
    """

    packets: int = 0
    bad: int = 0
    cut_off: bool = False
    reached: float = 0.0


@contextmanager
def open_container(located: Located, noun: str) -> Iterator[InputContainer]:
    """Open a clip or sound for reading and close it whatever happens.

    Raises:
        MediaError: It is something else, or so damaged that it does not open.
    """
    signature = sniff(located.head())
    if signature not in _READABLE:
        what = f"holds {signature}, not a {noun}" if signature else f"is not a {noun} that Braid can read"
        raise MediaError(f"{located.name} {what}. Add the {noun} itself.")
    # The prefix keeps FFmpeg from seeing protocols or patterns in a name; the list keeps playlists off the network.
    source = located.open() if located.path is None else f"file:{located.path}"
    try:
        container = av.open(source, "r", options={"protocol_whitelist": "file"})
    except (FFmpegError, OSError, ValueError) as error:
        raise broken(located.name, noun) from error
    with container:
        if not container.streams:
            raise broken(located.name, noun)
        yield container


def broken(name: str, noun: str) -> MediaError:
    """Return the error for a file of which nothing can be played."""
    return MediaError(f"{name} is damaged or incomplete and cannot be played. Add another copy of the {noun}.")


def unplayable(name: str, noun: str) -> MediaError:
    """Return the error for a stream that no decoder here understands."""
    return MediaError(f"{name} is stored in a way that Braid cannot play. Convert the {noun} to MP4 and add that.")


def picture_stream(container: InputContainer) -> VideoStream | None:
    """Return the stream of moving pictures; cover art is not one."""
    streams = (stream for stream in container.streams.video if not stream.disposition & Disposition.attached_pic)
    return next(streams, None)


def sound_stream(container: InputContainer) -> AudioStream | None:
    """Return the first sound stream."""
    return next(iter(container.streams.audio), None)


def stream_seconds(container: InputContainer, stream: VideoStream | AudioStream, origin: float) -> float | None:
    """Return how long a stream says it is, in seconds; None if it does not say.

    Args:
        container: The open file.
        stream: One of its streams.
        origin: Seconds on the stream's clock where it begins; Matroska tells the end on that clock.
    """
    if stream.duration and stream.time_base:
        return float(stream.duration * stream.time_base)
    if _is_matroska(container) and (match := _CLOCK.match(stream.metadata.get("DURATION", ""))):
        hours, minutes, seconds = match.groups()
        return max(int(hours) * 3600 + int(minutes) * 60 + float(seconds) - origin, 0.0) or None
    return None


def container_seconds(container: InputContainer, origin: float) -> float | None:
    """Return how long the longest stream is, in seconds; None if the file does not say."""
    if not container.duration:
        return None
    seconds = container.duration / av.time_base
    return max(seconds - origin, 0.0) or None if _is_matroska(container) else seconds


def _is_matroska(container: InputContainer) -> bool:
    return "matroska" in container.format.name


def decode(
    container: InputContainer,
    stream: VideoStream | AudioStream,
    health: Health,
    should_stop: Callable[[], bool] | None = None,
) -> Iterator[av.VideoFrame | av.AudioFrame]:
    """Yield a stream's frames in order of presentation, passing over packets that do not decode.

    Raises:
        MediaCancelled: `should_stop` returned True; it is asked before each packet.
    """
    packets = container.demux(stream)
    while True:
        if should_stop is not None and should_stop():
            raise MediaCancelled("Reading the file was cancelled.")
        try:
            packet = next(packets, None)
        except (FFmpegError, IndexError):  # IndexError: PyAV's answer to a stream that first appears here
            health.cut_off = True
            yield from _flush(stream)
            return
        if packet is None:
            return
        health.packets += 1
        try:
            frames = cast("list[av.VideoFrame | av.AudioFrame]", packet.decode())
        except FFmpegError:
            health.bad += 1
            continue
        yield from frames


def _flush(stream: VideoStream | AudioStream) -> list[av.VideoFrame] | list[av.AudioFrame]:
    """Return the frames that the decoder still holds."""
    try:
        return stream.codec_context.decode(None)
    except FFmpegError:
        return []  # the damage reached them too
