"""What a conversation would cost, told without running the model or decoding its media."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from PIL import Image

from engine.errors import RequestRejected
from engine.media.audio import DEFAULT_MAX_SECONDS, DEFAULT_RATE, probe_audio, read_audio
from engine.media.document import choose_pages, drawn_size, probe_pdf
from engine.media.image import DEFAULT_MAX_PIXELS, Picture
from engine.media.pixels import fit_size, orientation
from engine.media.raster import open_raster
from engine.media.remote import Downloader
from engine.media.sampling import MIN_FRAMES, frame_times
from engine.media.source import locate
from engine.media.video import DEFAULT_MAX_PIXELS as FRAME_PIXELS
from engine.media.video import VideoInfo, probe_video
from engine.memory import CacheCost
from engine.messages import Fetch, MediaSource, Message, Page
from engine.prompt import Encode, PreparedPrompt, PromptModel, prepare_messages
from engine.reader import NO_PATCHES, MediaModel, MediaShape, Placed, check_sound, frame_limit, times_told


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a conversation would cost.

    Attributes:
        prompt_tokens: of the whole conversation, media included.
        media_tokens: of its pictures, clips and sounds.
        frames: sampled from its clips.
        kv_bytes: what its tokens occupy in the caches.
        vision_peak_bytes: activations of its largest piece of media, for a moment.
    """

    prompt_tokens: int
    media_tokens: int
    frames: int
    kv_bytes: int
    vision_peak_bytes: int


def estimate(
    processor: Any, messages: Sequence[Message], *, allow_remote_media: bool = False, **template_options: Any
) -> Estimate:
    """Tell what a conversation would cost with a loaded model.

    Token counts are those of the real request; for a clip of uneven frame rate its time stamps are a guess.

    Args:
        processor: what ``load_model`` returned.
        messages: as for ``add_request``.
        allow_remote_media: fetch media that are named by an address of the web; this takes as long as it takes.
        template_options: for the chat template.

    Raises:
        MediaError: a source cannot be opened.
        RequestRejected: the messages would be refused, or no model was loaded with this processor.
    """
    port = getattr(processor, "port", None)
    if port is None or port.cache_cost is None:
        raise RequestRejected("No model is loaded for this processor. Load it with engine.load_model first.")
    ruler = Ruler(fetch=Downloader().fetch if allow_remote_media else None)
    return forecast(port, messages, port.cache_cost, port.guesses[1], ruler, **template_options)


def forecast(
    model: PromptModel,
    messages: Sequence[Message],
    cost: CacheCost,
    vision_bytes: float,
    ruler: Ruler | None = None,
    encode: Encode | None = None,
    **template_options: Any,
) -> Estimate:
    """The estimate for one model.

    Args:
        model: the port to it.
        messages: as for ``add_request``.
        cost: how its caches grow.
        vision_bytes: transient bytes per patch in its tower.
        ruler: how clips are sampled; None takes its defaults.
        encode: tokenises the rendered text, as in ``prepare_messages``.
        template_options: for the chat template.
    """
    ruler = ruler or Ruler()
    prompt = prepare_messages(model, messages, ruler, encode, **template_options)
    return Estimate(
        prompt_tokens=len(prompt.ids),
        media_tokens=sum(item.tokens for item in prompt.media),
        frames=ruler.frames,
        kv_bytes=_kv_bytes(cost, prompt),
        vision_peak_bytes=round(max((item.at_once for item in prompt.media), default=0) * vision_bytes),
    )


def _kv_bytes(cost: CacheCost, prompt: PreparedPrompt) -> int:
    tokens = len(prompt.ids)
    return round(sum(layer.fixed + layer.per_token * min(tokens, layer.window or tokens) for layer in cost.layers))


@dataclass(slots=True)
class Ruler:
    """Measures media from headers; a ``MediaReader`` whose items hold no pixels.

    Attributes:
        fps: frames sampled per second of a clip that asks for no other rate.
        max_frames: most frames of one clip.
        frames: frames of all clips measured so far.
        fetch: gets what is on the web; None: nothing may be fetched, and addresses are refused.
    """

    fps: float = 2.0
    max_frames: int = 128
    frames: int = 0
    fetch: Fetch | None = None

    def place(self, model: MediaModel, source: MediaSource) -> Placed:
        """Lay one source out by its shape alone."""
        shape = {"image": self._picture, "video": self._clip, "audio": self._sound}[source.kind](model, source)
        return Placed(source.kind, model.lay_out(shape), "", NO_PATCHES)

    def pages(self, document: Any, pages: range | None, name: str | None = None) -> list[Page]:
        """Sizes of the pages that would be drawn."""
        sizes = probe_pdf(document, name=name).sizes
        numbers = choose_pages(document, pages, name=name)
        return [Page(f"page {number + 1}", drawn_size(sizes[number])) for number in numbers]

    def _picture(self, model: MediaModel, source: MediaSource) -> MediaShape:
        del model
        width, height = _picture_size(source)
        return MediaShape("image", width, height)

    def _clip(self, model: MediaModel, source: MediaSource) -> MediaShape:
        info = probe_video(source.source, name=source.name)
        most = frame_limit(model, self.max_frames)
        wanted = frame_times(info.duration, source.fps or self.fps, most, source.start, source.end)
        times = _times(info, wanted)
        self.frames += len(times)
        width, height = fit_size(*info.size, FRAME_PIXELS)
        return MediaShape("video", width, height, times=times)

    def _sound(self, model: MediaModel, source: MediaSource) -> MediaShape:
        limit = model.max_sound_s or DEFAULT_MAX_SECONDS
        seconds = source.seconds or probe_audio(source.source, name=source.name).duration
        if seconds is None:  # the file does not say; only decoding tells
            seconds = read_audio(source.source, name=source.name, max_seconds=limit + 1).duration
        check_sound(source.name or "This sound", seconds, limit)
        return MediaShape("audio", samples=round(seconds * DEFAULT_RATE))


def _times(info: VideoInfo, wanted: Sequence[float]) -> tuple[float, ...]:
    """Times of the frames on screen at the wanted times, as an even frame rate has them."""
    if info.frames_estimate == 1:
        return (0.0,) * MIN_FRAMES
    last = info.frames_estimate - 1
    numbers = [min(int(time * info.fps + 1e-6), last) for time in wanted]
    return times_told(numbers, wanted, [number / info.fps for number in range(info.frames_estimate)])


def _picture_size(given: MediaSource) -> tuple[int, int]:
    """(width, height) of a picture once it is read."""
    source = given.source
    if isinstance(source, tuple):  # a page, measured already
        return source[0], source[1]
    if isinstance(source, Picture):
        return source.pixels.shape[1], source.pixels.shape[0]
    if isinstance(source, Image.Image):
        return _upright(source)
    located = locate(source, name=given.name)
    with located.open() as stream:
        return _upright(open_raster(stream, located.name, DEFAULT_MAX_PIXELS).image)


def _upright(image: Image.Image) -> tuple[int, int]:
    width, height = fit_size(*image.size, DEFAULT_MAX_PIXELS)
    return (height, width) if orientation(image) >= 5 else (width, height)
