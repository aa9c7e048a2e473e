"""Which moments of a clip the model sees, and which frames show them."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

# Vision towers read frames in pairs.
MIN_FRAMES = 2

Frame = TypeVar("Frame")


def frame_times(
    duration: float, fps: float, max_frames: int, start: float | None = None, end: float | None = None
) -> list[float]:
    """Return the times to sample, in seconds from the clip's start.

    They are 1 / `fps` apart and begin at `start`. Where that makes more than `max_frames` or fewer than two, as many
    as allowed are spread evenly over the range instead.

    Args:
        duration: Seconds in the whole clip.
        fps: Frames wanted per second.
        max_frames: The most frames to return, at least 1.
        start: Begin of the range in seconds; None is 0.
        end: End of the range in seconds; None is the clip's end.
    """
    if fps <= 0 or max_frames < 1:
        raise ValueError(f"fps {fps} must be over 0 and max_frames {max_frames} at least 1")
    first = min(max(start or 0.0, 0.0), duration)
    last = duration if end is None else min(end, duration)
    span = max(last - first, 0.0)
    count = math.ceil(span * fps - 1e-6)
    if MIN_FRAMES <= count <= max_frames:
        return [first + number / fps for number in range(count)]
    count = min(max(count, MIN_FRAMES), max_frames)
    return [first + number * span / count for number in range(count)]


def pick(frames: Iterable[tuple[float, Frame]], times: Sequence[float]) -> Iterator[tuple[float, Frame]]:
    """Yield the frame on screen at each of the times, each frame once, and stop when all times are served.

    Args:
        frames: (seconds, frame) in order.
        times: Ascending seconds. Those before the first frame get the first, those after the last get the last.
    """
    shown: tuple[float, Frame] | None = None
    served = 0
    for time, frame in frames:
        if shown is not None and times[served] < time:
            yield shown
            while served < len(times) and times[served] < time:
                served += 1
            if served == len(times):
                return
        shown = time, frame
    if shown is not None:
        yield shown
