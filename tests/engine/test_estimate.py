"""What a message is said to cost before it is sent equals what it costs."""

from __future__ import annotations

import io
import wave
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from PIL import Image

import engine
from engine import device
from engine.errors import RequestRejected
from engine.forecast import Ruler
from engine.messages import MediaSource
from engine.models.families import open_port
from engine.models.port import Chunk
from engine.prompt import prepare_messages
from engine.reader import Reader
from tests.engine import families, tiny
from tests.engine.clips import blobs, clip
from tests.engine.documents import pdf


def _ask(*parts: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [*parts, {"type": "text", "text": "What is this?"}]}]


def _turned(exif_turn: int) -> bytes:
    picture, buffer = tiny.picture(240, 160, 1), io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = exif_turn
    picture.save(buffer, "JPEG", exif=exif)
    return buffer.getvalue()


def _media() -> list[dict[str, Any]]:
    return [
        {"type": "image", "image": tiny.picture(300, 200, 1)},
        {"type": "image", "image": _turned(6)},
        {"type": "image", "image": tiny.picture(7, 900, 3)},
        {"type": "video", "video": clip(blobs(9))},
        {"type": "video", "video": clip(blobs(12, 96, 64), fps=4), "fps": 1.5, "start": 0.5},
        {"type": "video", "video": clip(blobs(1))},
        {"type": "pdf", "pdf": pdf(4), "pages": [2, 3]},
    ]


@pytest.mark.parametrize("part", _media(), ids=lambda part: part["type"])
def test_tokens_and_frames_equal_the_real_ones(pocket: Any, part: dict[str, Any]) -> None:
    _, processor = pocket
    told = engine.estimate(processor, _ask(part))
    real = prepare_messages(open_port(*pocket), _ask(part))
    assert told.prompt_tokens == len(real.ids)
    assert told.media_tokens == sum(item.tokens for item in real.media) > 0
    clips = [item for item in real.media if item.kind == "video"]
    assert bool(told.frames) == bool(clips)
    assert all(told.frames in (2 * item.grid[0], 2 * item.grid[0] - 1) for item in clips)
    assert told.vision_peak_bytes > 0


def test_a_running_scheduler_tells_the_same_and_the_request_confirms_it(pocket: Any, make: Any) -> None:
    scheduler = make(pocket, max_video_frames=4)
    messages = _ask(*_media()[:1], {"type": "video", "video": clip(blobs(9))})
    told = scheduler.estimate(messages)
    assert told.frames == 4
    request = scheduler.add_request(messages=messages, max_tokens=1)
    while scheduler.has_requests():
        scheduler.step()
    assert scheduler.get_request(request).error is None
    assert scheduler.get_request(request).num_prompt_tokens == told.prompt_tokens


def _shown() -> dict[str, dict[str, Any]]:
    """One of each kind, with the parts of them that a person would choose."""
    return {
        "picture": {"type": "image", "image": _turned(6)},
        "clip": {"type": "video", "video": clip(blobs(12, 96, 64), fps=4), "fps": 1.5, "start": 0.5, "end": 2.4},
        "animation": {"type": "video", "video": _animation(), "start": 0.3},
        "pages": {"type": "pdf", "pdf": pdf(5), "pages": [2, 4]},
        "sound": {"type": "audio", "audio": _sound(1.3)},
    }


def _animation() -> bytes:
    frames, buffer = [Image.fromarray(pixels) for pixels in blobs(4)], io.BytesIO()
    frames[0].save(buffer, "GIF", save_all=True, append_images=frames[1:], duration=[100, 700, 20, 400])
    return buffer.getvalue()


def _sound(seconds: float) -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(44_100)
        file.writeframes(bytes(4 * round(seconds * 44_100)))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("family", "which"),
    [("pocket", list(_shown())), ("gemma_4", list(_shown())), *(("gemma_4", [name]) for name in _shown())],
)
def test_a_chat_is_read_as_it_was_priced_with_its_system_prompt_and_history(
    family: str, which: list[str], pocket: Any, make: Any
) -> None:
    loaded = pocket if family == "pocket" else families.gemma_4()
    scheduler = make(loaded)
    parts = [_shown()[name] for name in which if name != "sound" or "audio" in scheduler.takes]

    def read(messages: list[dict[str, Any]]) -> str:
        told = scheduler.estimate(messages)
        request = scheduler.get_request(scheduler.add_request(messages=messages, max_tokens=4, temperature=0.0))
        while scheduler.has_requests():
            scheduler.step()
        assert request.error is None
        assert told.prompt_tokens == request.num_prompt_tokens
        return str(request.output_text)

    chat = [{"role": "system", "content": "Be brief."}, *_ask(*parts)]
    chat.append({"role": "assistant", "content": read(chat) or "?"})
    read([*chat, *_ask(*parts[::-1])])


def test_cache_bytes_equal_those_of_real_caches(pocket: Any) -> None:
    port = open_port(*pocket)
    messages = _ask()
    told = engine.estimate(port.processor, messages).kv_bytes
    ids = prepare_messages(port, messages).ids

    def real() -> int:
        cache = port.make_cache()
        positions = np.broadcast_to(np.arange(len(ids), dtype=np.int32), (3, len(ids)))
        arrays = port.prefill(Chunk(ids, positions), cache)
        mx.eval(arrays)
        return sum(array.nbytes for array in arrays)

    assert told == device.home().run_here(real)


@pytest.mark.parametrize(
    "part",
    [{"type": "image", "image": tiny.picture(224, 224, 1)}, {"type": "video", "video": clip(blobs(16, 128, 128))}],
    ids=lambda part: part["type"],
)
def test_the_vision_peak_is_near_the_measured_one(pocket: Any, part: dict[str, Any]) -> None:
    port = open_port(*pocket)
    item = prepare_messages(port, _ask(part)).media[0]

    def peak() -> int:
        mx.clear_cache()
        before = mx.get_active_memory()
        mx.reset_peak_memory()
        encoding = port.encode(item)
        while not encoding.advance(0.0):
            pass
        return mx.get_peak_memory() - before

    told = engine.estimate(port.processor, _ask(part)).vision_peak_bytes
    assert 0.67 < told / device.home().run_here(peak) < 1.5


def test_nothing_is_decoded_for_an_estimate(tmp_path: Path) -> None:
    port = open_port(*tiny.dense())
    whole, cut = tmp_path / "whole.png", tmp_path / "cut.png"
    tiny.picture(640, 480, 1).save(whole)
    cut.write_bytes(whole.read_bytes()[:2000])
    shapes = [Ruler().place(port, MediaSource("image", file)).layout for file in (whole, cut)]
    assert shapes[0] == shapes[1] == Reader().place(port, MediaSource("image", whole)).layout


def test_without_a_loaded_model_there_is_no_estimate() -> None:
    class Bare:
        pass

    with pytest.raises(RequestRejected, match="No model is loaded"):
        engine.estimate(Bare(), _ask())
