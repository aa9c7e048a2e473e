"""Clips in requests: what the model is told and shown, alone and beside others."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from PIL import Image

from engine import device
from engine.errors import MediaCancelled, MediaError, RequestRejected
from engine.messages import MediaSource
from engine.models.families import open_port
from engine.prompt import prepare_messages, prepare_prompt
from engine.reader import Reader
from tests.engine import tiny
from tests.engine.clips import VIDEO, blobs, clip
from tests.engine.conftest import ROOT

sys.path.append(str(ROOT / "packaging" / "pocket"))
import canon


def _chat(text: str, media: str) -> str:
    return f"<|im_start|>user\n{media}{text}<|im_end|>\n<|im_start|>assistant\n"


def _ask(text: str, *media: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [*media, {"type": "text", "text": text}]}]


def _finish(scheduler: Any) -> None:
    while scheduler.has_requests():
        scheduler.step()


def _tokens(scheduler: Any, ids: list[str]) -> list[list[int]]:
    _finish(scheduler)
    found = [scheduler.get_request(request_id) for request_id in ids]
    assert [request.error for request in found] == [None] * len(ids)
    return [request.output_tokens for request in found]


def _mlx_vlm(model: Any, processor: Any, prompt: str, images: list[Any], videos: list[Any]) -> dict[str, Any]:
    """mlx-vlm's own ids, positions and delta."""

    def run() -> dict[str, Any]:
        found = processor(text=[prompt], images=images or None, videos=videos or None, fps=2.0)
        grids = {name: found[name] for name in ("image_grid_thw", "video_grid_thw") if name in found}
        ids = mx.array(found["input_ids"])
        positions, delta = model.language_model.get_rope_index(ids, **grids)
        return {"ids": ids[0].tolist(), "positions": np.array(positions)[:, 0], "delta": int(delta.item())}

    return device.home().run_here(run)


def test_the_demo_model_answers_about_clips(pocket: Any, make: Any) -> None:
    scheduler = make(pocket)
    asked = [(frames(), question, answer) for _, frames, asks in canon.VIDEOS for question, answer in asks]
    ids = [
        scheduler.add_request(messages=_ask(question, {"type": "video", "video": clip(frames)}), temperature=0.0)
        for frames, question, _ in asked
    ]
    _finish(scheduler)
    assert [scheduler.get_request(i).output_text for i in ids] == [answer for _, _, answer in asked]


def test_an_animation_is_a_clip(pocket: Any, make: Any, tmp_path: Path) -> None:
    name, frames, questions = canon.VIDEOS[0]
    pictures = [Image.fromarray(frame) for frame in frames()]
    file = tmp_path / f"{name}.gif"
    pictures[0].save(file, save_all=True, append_images=pictures[1:], duration=500, loop=0)
    scheduler = make(pocket)
    request = scheduler.add_request(messages=_ask(questions[0][0], {"type": "video", "video": file}), temperature=0.0)
    _finish(scheduler)
    assert scheduler.get_request(request).output_text == questions[0][1]


@pytest.mark.parametrize("seconds", [1, 3, 5])
def test_ids_and_positions_equal_mlx_vlm(tiny_model: Any, seconds: int) -> None:
    model, processor = tiny_model
    port = open_port(model, processor)
    frames, picture = blobs(2 * seconds), tiny.picture(96, 64, 1)
    for media, images, videos in ((VIDEO, [], [frames]), (tiny.IMAGE + "and" + VIDEO, [picture], [frames])):
        prompt = _chat("what moves?", media)
        ours = prepare_prompt(port, prompt, images, [clip(video) for video in videos])
        theirs = _mlx_vlm(model, processor, prompt, images, videos)
        assert list(ours.ids) == theirs["ids"]
        assert ours.rope_delta == theirs["delta"]
        assert ours.positions is not None
        assert np.array_equal(ours.positions, theirs["positions"])


def test_a_clip_encoded_in_parts_equals_the_whole(tiny_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.models.qwen_vl._PART_PATCHES", 40)
    port = open_port(*tiny_model)
    item = prepare_prompt(port, _chat("?", VIDEO), videos=[clip(blobs(7))]).media[0]

    def run() -> None:
        whole, deepstack = port.model.vision_tower(mx.array(item.patches), mx.array([item.grid]))
        encoding = port.encode(item)
        assert len(encoding.parts) == 2
        units = 1
        while not encoding.advance(0.0):
            units += 1
        assert units >= encoding.blocks == encoding.blocks_done == 6
        assert encoding.features is not None
        assert mx.allclose(encoding.features.hidden, whole, atol=1e-5)
        assert len(encoding.features.deepstack) == len(deepstack)
        for ours, theirs in zip(encoding.features.deepstack, deepstack, strict=True):
            assert mx.allclose(ours, theirs, atol=1e-5)

    device.home().run_here(run)


@pytest.mark.parametrize("chunk", [16, 17, 1024])
def test_clips_pictures_and_words_in_one_batch_equal_each_alone(tiny_model: Any, make: Any, chunk: int) -> None:
    first, second = clip(blobs(4)), clip(blobs(3, 96, 64, seed=5))
    asks: list[dict[str, Any]] = [
        {"prompt": _chat("what moves?", VIDEO), "videos": [first]},
        {"prompt": _chat("compare", tiny.IMAGE + VIDEO + VIDEO), "videos": [first, second]},
        {"prompt": _chat("say something", "")},
    ]
    asks[1]["images"] = [tiny.picture(64, 96, 3)]
    alone = make(tiny_model)
    expected = [_tokens(alone, [alone.add_request(**ask, max_tokens=12, temperature=0.0)])[0] for ask in asks]
    together = make(tiny_model, prefill_step_size=chunk)
    ids = [together.add_request(**ask, max_tokens=12, temperature=0.0) for ask in asks]
    assert _tokens(together, ids) == expected
    assert len({tuple(tokens) for tokens in expected}) == 3


def test_a_picture_and_a_clip_in_one_prompt_equal_mlx_vlm(make: Any) -> None:
    """Only the dense family of mlx-vlm can do both at once."""
    model, processor = tiny.dense()
    prompt = _chat("compare", tiny.IMAGE + "x" + VIDEO)
    frames, picture = blobs(4), tiny.picture(96, 64, 1)

    def one_shot() -> np.ndarray:
        found = processor(text=[prompt], images=[picture], videos=[frames], fps=2.0)
        arrays = {name: mx.array(value) for name, value in found.items() if name != "attention_mask"}
        ids, pixels = arrays.pop("input_ids"), arrays.pop("pixel_values")
        features = model.get_input_embeddings(ids, pixels, **arrays).to_dict()
        extra = {name: value for name, value in features.items() if value is not None}
        return np.array(model.language_model(ids, **extra).logits[0, -1])

    expected = int(device.home().run_here(one_shot).argmax())
    scheduler = make((model, processor), prefill_step_size=17)
    request = scheduler.add_request(prompt, [picture], [clip(frames)], max_tokens=1, temperature=0.0)
    assert _tokens(scheduler, [request]) == [[expected]]


def test_the_key_of_a_clip_knows_its_frames_and_its_pace() -> None:
    port = open_port(*tiny.dense())
    frames = blobs(4)

    def key(data: bytes, **options: Any) -> str:
        return Reader().place(port, MediaSource("video", data, **options)).key

    assert key(clip(frames)) == key(clip(frames))
    assert key(clip(frames)) != key(clip(frames, fps=1), fps=1)
    assert key(clip(frames)) != key(clip(blobs(4, seed=9)))
    assert key(clip(frames), start=1.0) != key(clip(frames))


def test_a_part_chooses_its_own_rate_and_range() -> None:
    port = open_port(*tiny.dense())
    data = clip(blobs(20), fps=2)

    def groups(**options: Any) -> int:
        return Reader(max_frames=8).place(port, MediaSource("video", data, **options)).layout.grid[0]

    assert groups() == 4  # 20 frames, at most 8, two to a group
    assert groups(fps=0.5) == 3  # 10 s at one frame in two seconds, the last group filled up
    assert groups(start=2.0, end=4.0) == 2


def test_a_frame_that_is_held_is_shown_as_long_as_in_life(pocket: Any, make: Any) -> None:
    """The colour changes in the middle of four seconds; the file holds two frames."""
    _, frames, questions = canon.VIDEOS[3]
    buffer = io.BytesIO()
    pictures = [Image.fromarray(frame) for frame in frames()]
    pictures[0].save(buffer, "GIF", save_all=True, append_images=pictures[1:], duration=500, loop=0)
    assert Image.open(io.BytesIO(buffer.getvalue())).n_frames == 2
    scheduler = make(pocket)
    messages = _ask(questions[0][0], {"type": "video", "video": buffer.getvalue()})
    assert scheduler.estimate(messages).frames == 8
    request = scheduler.add_request(messages=messages, temperature=0.0)
    _finish(scheduler)
    assert scheduler.get_request(request).output_text == questions[0][1]


def test_a_clip_seen_before_is_neither_encoded_nor_read_again(make: Any) -> None:
    scheduler = make(tiny.hybrid())
    first, other = clip(blobs(4)), clip(blobs(4, seed=8))
    long = "Look closely at the whole of it, from the first moment to the last, and say what moves. " * 2

    def ask(data: bytes, text: str) -> Any:
        request = scheduler.add_request(_chat(text, VIDEO), videos=[data], max_tokens=6, temperature=0.0)
        _finish(scheduler)
        assert scheduler.get_request(request).error is None
        return scheduler.get_request(request)

    cold = ask(first, long)
    encoded = scheduler.get_stats()["batch_generator"]["num_images_processed"]
    warm = ask(first, long)
    assert warm.output_tokens == cold.output_tokens
    assert warm.cached_tokens == warm.num_prompt_tokens - 1
    assert scheduler.get_stats()["batch_generator"]["num_images_processed"] == encoded
    # The same words about another clip share nothing beyond the first frame.
    assert ask(other, long).cached_tokens <= len("<|im_start|>user\n<0.2 seconds>") + 1


def test_the_configured_rate_and_limit_hold(make: Any) -> None:
    def prompt_tokens(**config: Any) -> int:
        scheduler = make(tiny.dense(), **config)
        request = scheduler.add_request(_chat("?", VIDEO), videos=[clip(blobs(24), fps=4)], max_tokens=1)
        _finish(scheduler)
        assert scheduler.get_request(request).error is None
        return int(scheduler.get_request(request).num_prompt_tokens)

    usual = prompt_tokens()
    assert prompt_tokens(default_video_fps=1.0) < usual < prompt_tokens(default_video_fps=4.0)
    assert prompt_tokens(default_video_fps=4.0, max_video_frames=4) < usual


def test_media_of_several_turns_keep_their_places(pocket: Any) -> None:
    port = open_port(*pocket)
    video, image = {"type": "video", "video": clip(blobs(4))}, {"type": "image", "image": tiny.picture(64, 64, 1)}
    turns = [*_ask("first", video), {"role": "assistant", "content": "yes"}, *_ask("then", image, image)]
    media = prepare_messages(port, turns).media
    assert [item.kind for item in media] == ["video", "image", "image"]
    assert media[1].key == media[2].key
    assert media[0].slots[0] < media[0].slots[1] < media[1].slots[0] < media[2].slots[0]


@pytest.mark.parametrize(("size", "frames"), [((16, 16), 1), ((20, 400), 3), ((1000, 4), 2)])
def test_small_short_and_thin_clips_are_answered(make: Any, size: tuple[int, int], frames: int) -> None:
    width, height = size
    still = np.full((frames, height, width, 3), 200, np.uint8)
    scheduler = make(tiny.dense())
    request = scheduler.add_request(_chat("?", VIDEO), videos=[clip(still)], max_tokens=2, temperature=0.0)
    assert len(_tokens(scheduler, [request])[0]) == 2


def test_what_cannot_be_a_clip_is_refused_with_a_sentence(tmp_path: Path) -> None:
    port = open_port(*tiny.dense())
    text = tmp_path / "notes.mp4"
    text.write_text("not a clip at all")
    with pytest.raises(MediaError, match=r"notes\.mp4 holds plain text"):
        prepare_prompt(port, _chat("?", VIDEO), videos=[text])
    with pytest.raises(RequestRejected, match=r"has 1 clip slot, but 0 clips were given"):
        prepare_prompt(port, _chat("?", VIDEO))
    with pytest.raises(RequestRejected, match="cannot hear sound"):
        prepare_messages(port, _ask("?", {"type": "audio", "audio": b"RIFF"}))
    with pytest.raises(RequestRejected, match="holds no clip"):
        prepare_messages(port, _ask("?", {"type": "video"}))


def test_a_placeholder_typed_by_a_person_is_no_slot(pocket: Any) -> None:
    port = open_port(*pocket)
    plain = prepare_messages(port, _ask("What does <|video_pad|> mean?"))
    assert not plain.media
    assert port.pads["video"] not in plain.ids
    mixed = prepare_messages(port, _ask("<|video_pad|>?", {"type": "video", "video": clip(blobs(2))}))
    assert len(mixed.media) == 1


def test_a_clip_can_be_aborted_while_it_is_encoded(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.models.qwen_vl._PART_PATCHES", 16)
    scheduler = make(tiny.dense(), unit_budget_ms=1.0)
    request = scheduler.add_request(_chat("?", VIDEO), videos=[clip(blobs(12))], max_tokens=2)
    while scheduler.phase(request)[0] != "vision":
        scheduler.step()
    assert scheduler.phase(request)[2] == "clip 1 of 1"
    scheduler.abort_request(request)
    scheduler.step()
    assert scheduler.get_request(request).finish_reason == "abort"
    assert scheduler.batch.count == 0


def test_a_dropped_request_stops_reading_its_clip() -> None:
    port = open_port(*tiny.dense())
    asked: list[bool] = []

    def stop() -> bool:
        asked.append(True)
        return len(asked) > 3

    with pytest.raises(MediaCancelled):
        prepare_prompt(port, _chat("?", VIDEO), videos=[clip(blobs(40))], reader=Reader(should_stop=stop))
    assert len(asked) == 4


def test_pillow_pictures_stay_pictures(make: Any) -> None:
    buffer = io.BytesIO()
    tiny.picture(64, 64, 1).save(buffer, "PNG")
    scheduler = make(tiny.dense())
    prompt = _chat("?", tiny.IMAGE)
    ids = [
        scheduler.add_request(prompt, [image], max_tokens=4, temperature=0.0)
        for image in (tiny.picture(64, 64, 1), buffer.getvalue())
    ]
    first, second = _tokens(scheduler, ids)
    assert first == second
