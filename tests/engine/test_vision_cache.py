"""Pictures are encoded once per content, within bytes and entries, whoever sends them under whatever name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from PIL import Image

from engine import MLLMSchedulerConfig
from engine.cache_budget import MB, CacheBudget, cache_budget
from engine.models.port import Features
from engine.vision_cache import VisionCache
from tests.engine import tiny
from tests.engine.solo import solo

_HELD = (
    None,
    Image.Transpose.FLIP_LEFT_RIGHT,
    Image.Transpose.ROTATE_180,
    Image.Transpose.FLIP_TOP_BOTTOM,
    Image.Transpose.TRANSPOSE,
    Image.Transpose.ROTATE_90,
    Image.Transpose.TRANSVERSE,
    Image.Transpose.ROTATE_270,
)
"""What a camera stores of an upright scene with orientations 1 to 8."""


def features(kilobytes: int) -> Features:
    return Features(mx.zeros((kilobytes, 250), mx.float32))


def answer(scheduler: Any, text: str, *images: Any, tokens: int = 4) -> list[int]:
    request_id = scheduler.add_request(tiny.chat(text, len(images)), images, max_tokens=tokens, temperature=0.0)
    while scheduler.has_requests():
        scheduler.step()
    return list(scheduler.get_request(request_id).output_tokens)


def test_the_least_recently_used_picture_goes_first() -> None:
    cache = VisionCache(max_bytes=10_000, max_entries=2)
    cache.put("a", features(1))
    cache.put("b", features(1))
    assert cache.get("a") is not None
    cache.put("c", features(1))
    assert (cache.get("b"), len(cache)) == (None, 2)
    assert cache.get("a") is not None
    assert cache.nbytes == 2000


def test_bytes_are_bounded_and_the_too_large_is_not_kept() -> None:
    cache = VisionCache(max_bytes=5000, max_entries=100)
    for name in "abcdefgh":
        cache.put(name, features(2))
        assert cache.nbytes <= 5000
    assert len(cache) == 2
    cache.put("huge", features(6))
    assert cache.get("huge") is None
    assert cache.get("h") is not None


def test_the_same_picture_again_replaces_its_entry() -> None:
    cache = VisionCache(max_bytes=10_000, max_entries=9)
    cache.put("a", features(1))
    cache.put("a", features(2))
    assert (len(cache), cache.nbytes) == (1, 2000)


def test_smaller_limits_and_off_act_at_once() -> None:
    cache = VisionCache(max_bytes=10_000, max_entries=9)
    for name in "abcd":
        cache.put(name, features(1))
    cache.configure(max_bytes=10_000, max_entries=2, enabled=True)
    assert len(cache) == 2
    cache.configure(max_bytes=10_000, max_entries=2, enabled=False)
    assert (len(cache), cache.nbytes) == (0, 0)
    cache.put("e", features(1))
    assert (len(cache), cache.nbytes, cache.snapshot()["max_memory_mb"]) == (0, 0, 0.0)


@pytest.mark.parametrize(
    ("fields", "vision", "prefix"),
    [
        ({}, 25, 175),
        ({"cache_memory_mb": 80}, 10, 70),
        ({"cache_memory_mb": 0}, 0, 0),
        ({"vision_cache_mb": 30}, 30, 170),
        ({"vision_cache_mb": 300}, 300, 0),
        ({"prefix_cache_memory_mb": 50}, 25, 50),
        ({"prefix_cache_memory_mb": 5000}, 25, 5000),
        ({"cache_memory_mb": 80, "vision_cache_mb": 30, "prefix_cache_memory_mb": 20}, 30, 20),
        ({"cache_memory_mb": 80, "vision_cache_mb": 30, "prefix_cache_memory_mb": 130}, 15, 65),
        ({"enable_vision_cache": False, "cache_memory_mb": 80}, 0, 80),
        ({"enable_prefix_cache": False, "cache_memory_mb": 80, "vision_cache_mb": 90}, 80, 0),
        ({"use_memory_aware_cache": False}, 25, None),
        ({"use_memory_aware_cache": False, "cache_memory_mb": 80}, 10, 70),
    ],
)
def test_the_budget_is_divided_and_its_sum_holds(fields: dict[str, Any], vision: int, prefix: int | None) -> None:
    budget = cache_budget(MLLMSchedulerConfig(**fields), free_bytes=800 * MB)
    assert budget == CacheBudget(vision * MB, None if prefix is None else prefix * MB)
    if "cache_memory_mb" in fields:
        assert budget.vision + (budget.prefix or 0) <= fields["cache_memory_mb"] * MB


def test_a_picture_seen_before_is_not_encoded_again(make: Any, tiny_model: Any) -> None:
    scheduler = make(tiny_model, enable_prefix_cache=False)
    answer(scheduler, "what is it?", tiny.picture(64, 96, 1))
    tokens = answer(scheduler, "describe it", tiny.picture(64, 96, 1))
    stats = scheduler.get_stats()
    assert stats["batch_generator"]["num_images_processed"] == 1
    vision = stats["vision_embedding_cache"]
    assert (vision["hits"], vision["misses"], vision["hit_rate"], vision["entry_count"]) == (1, 1, 0.5, 1)
    assert 0 < vision["current_memory_mb"] <= vision["max_memory_mb"]
    assert tokens == solo(*tiny_model, tiny.chat("describe it", 1), [tiny.picture(64, 96, 1)], 4)


def test_one_picture_in_two_chats_at_once_is_encoded_once(make: Any) -> None:
    scheduler = make(tiny.hybrid())
    picture = tiny.picture(160, 96, 1)
    for text in ("one", "two"):
        scheduler.add_request(tiny.chat(text, 1), [picture], max_tokens=2, temperature=0.0, request_id=text)
    scheduler.intake.wait()
    while scheduler.has_requests():
        scheduler.step()
    stats = scheduler.get_stats()
    assert stats["batch_generator"]["num_images_processed"] == 1
    assert (stats["vision_embedding_cache"]["hits"], stats["vision_embedding_cache"]["misses"]) == (1, 1)


def test_a_chat_that_waits_for_anothers_picture_goes_on_when_that_one_is_aborted(make: Any) -> None:
    scheduler = make(tiny.hybrid(), unit_budget_ms=1.0)
    picture = tiny.picture(512, 512, 1)
    for text in ("one", "two"):
        scheduler.add_request(tiny.chat(text, 1), [picture], max_tokens=2, temperature=0.0, request_id=text)
    while scheduler.get_num_waiting():
        scheduler.step()
    phases = {entry["request_id"]: entry["phase"] for entry in scheduler.get_running_requests_info()}
    assert phases == {"one": "vision", "two": "vision"}
    assert scheduler.abort_request("one")
    while scheduler.has_requests():
        scheduler.step()
    assert scheduler.get_request("two").output_tokens == solo(*tiny.hybrid(), tiny.chat("two", 1), [picture], 2)
    assert scheduler.get_stats()["batch_generator"]["num_images_processed"] == 1


def test_order_of_pictures_is_kept(make: Any, tiny_model: Any) -> None:
    red, blue = tiny.picture(64, 64, 1), tiny.picture(64, 64, 2)
    scheduler = make(tiny_model, enable_prefix_cache=False)
    first = answer(scheduler, "colour of the first?", red, blue)
    second = answer(scheduler, "colour of the first?", blue, red)
    prompt = tiny.chat("colour of the first?", 2)
    assert first == solo(*tiny_model, prompt, [red, blue], 4)
    assert second == solo(*tiny_model, prompt, [blue, red], 4)
    assert first != second


def test_a_file_overwritten_with_other_pixels_is_another_picture(make: Any, tmp_path: Path) -> None:
    """Even where name, size and time of the file are the same."""
    path = tmp_path / "x.bmp"
    scheduler, sizes = make(tiny.hybrid()), set()
    for seed in (1, 2):
        tiny.picture(64, 64, seed).save(path)
        os.utime(path, (1_700_000_000, 1_700_000_000))
        sizes.add(path.stat().st_size)
        expected = solo(*tiny.hybrid(), tiny.chat("what?", 1), [tiny.picture(64, 64, seed)], 4)
        assert answer(scheduler, "what?", str(path)) == expected
    assert len(sizes) == 1
    assert scheduler.get_stats()["vision_embedding_cache"]["entry_count"] == 2


def test_a_scene_is_one_picture_however_the_camera_was_held(make: Any, tmp_path: Path) -> None:
    scheduler, upright = make(tiny.dense()), tiny.picture(96, 64, 1)
    answers = set()
    for orientation, turn in enumerate(_HELD, 1):
        held = upright if turn is None else upright.transpose(turn)
        exif = Image.Exif()
        exif[0x0112] = orientation
        held.save(tmp_path / f"{orientation}.png", exif=exif)
        answers.add(tuple(answer(scheduler, "which side is up?", str(tmp_path / f"{orientation}.png"))))
    assert answers == {tuple(solo(*tiny.dense(), tiny.chat("which side is up?", 1), [upright], 4))}
    stats = scheduler.get_stats()
    assert stats["batch_generator"]["num_images_processed"] == stats["vision_embedding_cache"]["entry_count"] == 1


def test_off_keeps_nothing(make: Any) -> None:
    scheduler = make(tiny.hybrid(), enable_vision_cache=False, enable_prefix_cache=False)
    for _ in range(2):
        answer(scheduler, "what?", tiny.picture(64, 64, 1))
    stats = scheduler.get_stats()
    assert stats["vision_embedding_cache"]["entry_count"] == 0
    assert stats["vision_embedding_cache"]["current_memory_mb"] == 0
    assert scheduler.clear_runtime_caches()["vision_cache"] is False


def test_clearing_and_new_limits_act_at_the_boundary(make: Any) -> None:
    scheduler = make(tiny.hybrid(), vision_cache_size=2, enable_prefix_cache=False)
    for seed in (1, 2, 3):
        answer(scheduler, "what?", tiny.picture(64, 64, seed))
    assert scheduler.get_stats()["vision_embedding_cache"]["entry_count"] == 2
    assert scheduler.apply_config(MLLMSchedulerConfig(vision_cache_size=1, enable_prefix_cache=False)) == set()
    assert scheduler.get_stats()["vision_embedding_cache"]["entry_count"] == 1
    assert scheduler.clear_runtime_caches()["vision_cache"] is True
    assert scheduler.get_stats()["vision_embedding_cache"]["entry_count"] == 0
