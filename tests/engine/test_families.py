"""Every supported family answers as mlx-vlm's own code does, alone, in a batch and in chunks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_vlm.models.cache import make_prompt_cache
from PIL import Image

from engine import device
from engine.errors import ModelLoadError, RequestRejected
from engine.forecast import Ruler
from engine.models.catalog import FAMILIES
from engine.models.families import open_port
from engine.prompt import prepare_messages, prepare_prompt
from engine.reader import Reader
from tests.engine import families, tiny
from tests.engine.clips import blobs, clip
from tests.engine.families import Loaded, chat

QWEN_IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"
QWEN_VIDEO = "<|vision_start|><|video_pad|><|vision_end|>"
LONG = "Tell me a long story about the sea, the wind and one small boat that could not find its harbour. " * 2
VISION: dict[str, tuple[Callable[[], Loaded], str]] = {
    "gemma3": (families.gemma_3, "<img>"),
    "gemma4": (families.gemma_4, "<image>"),
    "qwen2_vl": (lambda: families.earlier_qwen("2"), QWEN_IMAGE),
    "qwen2_5_vl": (lambda: families.earlier_qwen("2_5"), QWEN_IMAGE),
}
CLIPS = {"gemma4": "<video>", "qwen2_vl": QWEN_VIDEO, "qwen2_5_vl": QWEN_VIDEO}


def solo(loaded: Loaded, prompt: str, max_tokens: int = 10, **media: Sequence[Any]) -> list[int]:
    """The greedy answer of mlx-vlm's model code after a one-shot prefill."""
    return device.home().run_here(lambda: _solo(loaded, prompt, max_tokens, media))


def _solo(loaded: Loaded, prompt: str, max_tokens: int, media: dict[str, Sequence[Any]]) -> list[int]:
    model, processor = loaded
    if hasattr(processor, "image_processor"):
        found = processor(text=[prompt], add_special_tokens=False, **{name: list(of) for name, of in media.items()})
        drop = ("attention_mask", "mm_token_type_ids", "token_type_ids", "num_frames_per_video")
        arrays = {name: value for name, value in found.items() if value is not None and name not in drop}
        ids = arrays.pop("input_ids")
        given = model.get_input_embeddings(ids, arrays.pop("pixel_values", None), mask=mx.ones_like(ids), **arrays)
        extra = {name: value for name, value in given.to_dict().items() if value is not None}
    else:
        ids, extra = mx.array([processor.encode(prompt, add_special_tokens=False)]), {}
    cache = make_prompt_cache(model.language_model)
    deltas = {"rope_deltas": extra["rope_deltas"]} if "rope_deltas" in extra else {}
    logits = model.language_model(ids, cache=cache, **extra).logits
    tokens: list[int] = []
    while True:
        tokens.append(int(mx.argmax(logits[0, -1]).item()))
        if len(tokens) == max_tokens:
            return tokens
        logits = model.language_model(mx.array([tokens[-1:]]), cache=cache, **deltas).logits


def answers(scheduler: Any, asks: Sequence[dict[str, Any]]) -> list[list[int]]:
    """Greedy tokens of requests sent together."""
    ids = [scheduler.add_request(**ask, max_tokens=10, temperature=0.0) for ask in asks]
    while scheduler.has_requests():
        scheduler.step()
    found = [scheduler.get_request(request_id) for request_id in ids]
    assert [request.error for request in found] == [None] * len(ids)
    return [request.output_tokens for request in found]


@pytest.mark.parametrize("chunk", [16, 1024])
@pytest.mark.parametrize("family", sorted(VISION))
def test_pictures_and_words_in_one_batch_equal_mlx_vlm(family: str, chunk: int, make: Any) -> None:
    build, mark = VISION[family]
    loaded, first, second = build(), tiny.picture(90, 60, 1), tiny.picture(70, 120, 2)
    prompts = [chat("what is it?", mark), chat(LONG), chat("compare them", mark + "and" + mark), chat("hi")]
    pictures: list[list[Any]] = [[first], [], [second, first], []]
    expected = [
        solo(loaded, prompt, **({"images": of} if of else {})) for prompt, of in zip(prompts, pictures, strict=True)
    ]
    scheduler = make(loaded, prefill_step_size=chunk)
    asks = [{"prompt": prompt, "images": of} for prompt, of in zip(prompts, pictures, strict=True)]
    assert answers(scheduler, asks) == expected
    assert answers(scheduler, asks) == expected, "once more, with what the caches hold"
    assert len({tuple(tokens) for tokens in expected}) == 4


@pytest.mark.parametrize("family", ["qwen3_5", "qwen3_vl", *sorted(VISION)])
def test_pictures_of_any_size_are_answered(family: str, make: Any) -> None:
    tiny_ones = {"qwen3_5": (tiny.hybrid, tiny.IMAGE), "qwen3_vl": (tiny.dense, tiny.IMAGE)}
    build, mark = {**VISION, **tiny_ones}[family]
    sizes = [(1, 1), (3, 3), (1, 40), (40, 1), (3, 500), (332, 27), (27, 332), (900, 2)]
    asks = [{"prompt": chat("what colour?", mark), "images": [Image.new("RGB", size, "red")]} for size in sizes]
    assert all(answers(make(build()), asks))


@pytest.mark.parametrize("family", sorted(families.TEXT_FAMILIES))
def test_text_models_in_a_batch_and_in_chunks_equal_mlx_vlm(family: str, make: Any) -> None:
    loaded = families.text_only(family)
    prompts = [chat(LONG), chat("hi"), chat("What is the capital of France?")]
    expected = [solo(loaded, prompt) for prompt in prompts]
    scheduler = make(loaded, prefill_step_size=17)
    assert answers(scheduler, [{"prompt": prompt} for prompt in prompts]) == expected
    longer = prompts[0] + "It sank.<end>\n" + prompts[1]
    assert answers(scheduler, [{"prompt": longer}, {"prompt": prompts[0]}]) == [solo(loaded, longer), expected[0]]
    assert answers(make(loaded), [{"prompt": prompts[0]}]) == expected[:1]
    assert len({tuple(tokens) for tokens in expected}) == 3


@pytest.mark.parametrize("family", sorted(CLIPS))
def test_clips_equal_mlx_vlm(family: str, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("gemma", "qwen_vl"):
        monkeypatch.setattr(f"engine.models.{module}._PART_PATCHES", 16)
    loaded = VISION[family][0]()
    frames = blobs(6)
    prompt = chat("what moves?", CLIPS[family])
    expected = solo(loaded, prompt, videos=[np.moveaxis(frames, 3, 1)])
    scheduler = make(loaded, prefill_step_size=16)
    asks: list[dict[str, Any]] = [{"prompt": prompt, "videos": [clip(frames)]}, {"prompt": chat("hi")}]
    assert answers(scheduler, asks)[0] == expected
    assert answers(scheduler, asks)[0] == expected, "once more, with what the caches hold"


def test_a_picture_and_a_clip_keep_their_order(make: Any) -> None:
    loaded = families.gemma_4()
    picture, frames = tiny.picture(90, 60, 1), blobs(4)
    prompt = chat("compare", "<image> with <video>")
    expected = solo(loaded, prompt, images=[picture], videos=[np.moveaxis(frames, 3, 1)])
    assert answers(make(loaded), [{"prompt": prompt, "images": [picture], "videos": [clip(frames)]}]) == [expected]


@pytest.mark.parametrize("family", sorted(VISION))
def test_measured_tokens_equal_real_ones(family: str) -> None:
    port = open_port(*VISION[family][0]())
    parts: list[dict[str, Any]] = [{"type": "image", "image": tiny.picture(*size, 1)} for size in ((90, 60), (7, 300))]
    if "video" in port.takes:
        parts.append({"type": "video", "video": clip(blobs(5))})
    for part in parts:
        messages = [{"role": "user", "content": [part, {"type": "text", "text": "?"}]}]
        if family.startswith("qwen"):
            continue  # this template has no brackets for them; the demo model's is tested elsewhere
        real, measured = (prepare_messages(port, messages, reader) for reader in (Reader(), Ruler()))
        assert real.ids == measured.ids
        assert real.media[0].slots == measured.media[0].slots


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - {"qwen3_5_moe", "qwen3_vl_moe"}))
def test_what_a_family_takes_is_what_its_card_says(family: str) -> None:
    built = {**{name: build for name, (build, _) in VISION.items()}, "qwen3_5": tiny.hybrid, "qwen3_vl": tiny.dense}
    loaded = families.text_only(family) if family in families.TEXT_FAMILIES else built[family]()
    assert open_port(*loaded).takes == FAMILIES[family]


def test_media_that_a_model_does_not_take_are_refused_with_a_sentence() -> None:
    words = open_port(*families.text_only("qwen3"))
    pictures = open_port(*families.gemma_3())
    with pytest.raises(RequestRejected, match="cannot see pictures"):
        prepare_prompt(words, chat("?", "<img>"), [tiny.picture(32, 32, 1)])
    with pytest.raises(RequestRejected, match="cannot watch clips"):
        prepare_messages(pictures, [{"role": "user", "content": [{"type": "video", "video": b"not even read"}]}])
    with pytest.raises(RequestRejected, match="cannot hear sound"):
        prepare_prompt(pictures, chat("?"), audio=[b"not even read"])
    with pytest.raises(RequestRejected, match="cannot see pictures"):
        prepare_messages(words, [{"role": "user", "content": [{"type": "pdf", "pdf": b"not even read"}]}])


def test_words_in_parts_reach_a_text_model() -> None:
    port = open_port(*families.text_only("qwen3"))
    parts = [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]
    as_parts, as_text = (
        prepare_messages(port, [{"role": "user", "content": content}]).ids for content in (parts, "one two")
    )
    assert as_parts == as_text


def test_pictures_that_attend_both_ways_are_not_taken() -> None:
    model, processor = families.gemma_4()
    text = SimpleNamespace(**vars(model.config.text_config) | {"use_bidirectional_attention": "vision"})
    config = SimpleNamespace(**vars(model.config) | {"text_config": text})
    larger = SimpleNamespace(
        config=config, language_model=model.language_model, audio_tower=model.audio_tower, model_path=None
    )
    assert open_port(larger, SimpleNamespace(**vars(processor))).takes == {"audio"}


def test_an_unknown_family_is_refused_with_a_sentence() -> None:
    model = SimpleNamespace(config=SimpleNamespace(model_type="odd_vl"))
    with pytest.raises(ModelLoadError, match="“odd_vl” are not supported yet"):
        open_port(model, SimpleNamespace())
