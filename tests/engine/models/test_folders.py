"""Further families load from a folder, without torch and offline, and answer as the models they were saved from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten

import engine
from engine import device
from engine.models.catalog import describe
from tests.engine import families, tiny
from tests.engine.test_audio_requests import tone


def _saved(folder: Path, loaded: families.Loaded, extra: dict[str, Any]) -> Path:
    model, processor = loaded
    weights = dict(tree_flatten(model.parameters()))
    file = str(folder / "model.safetensors")
    device.home().run_here(lambda: mx.save_safetensors(file, weights, metadata={"format": "mlx"}))
    families.tokenizer().save_pretrained(folder)
    (folder / "chat_template.jinja").write_text(processor.chat_template, "utf-8")
    for name, content in {"config.json": _plain(model.config), **extra}.items():
        (folder / name).write_text(json.dumps(content), "utf-8")
    return folder


def _plain(config: Any) -> Any:
    if not hasattr(config, "__dataclass_fields__"):
        return config
    return {name: _plain(value) for name, value in vars(config).items() if not name.startswith("_")}


def _answer(scheduler: Any, content: Any) -> list[int]:
    messages = [{"role": "user", "content": content}]
    request = scheduler.add_request(messages=messages, max_tokens=8, temperature=0.0)
    while scheduler.has_requests():
        scheduler.step()
    assert scheduler.get_request(request).error is None
    return list(scheduler.get_request(request).output_tokens)


@pytest.mark.filterwarnings("ignore:At least one mel filter")
def test_gemma_4_with_pictures_and_sound(tmp_path: Path, make: Any) -> None:
    loaded = families.gemma_4()
    folder = _saved(tmp_path, loaded, {"processor_config.json": {"image_processor": {"max_soft_tokens": 12}}})
    content = [
        {"type": "image", "image": tiny.picture(90, 60, 1)},
        {"type": "audio", "audio": tone(0.5)},
        {"type": "text", "text": "What do you see and hear?"},
    ]
    read = engine.load_model_sync(folder)
    assert make(read).port.takes == describe(folder).takes == {"image", "video", "audio"}
    assert _answer(make(read), content) == _answer(make(loaded), content)


def test_a_model_that_only_reads_text(tmp_path: Path, make: Any) -> None:
    loaded = families.text_only("qwen3")
    folder = _saved(tmp_path, loaded, {})
    read = engine.load_model_sync(folder)
    assert describe(folder).takes == make(read).port.takes == frozenset()
    assert _answer(make(read), "hello") == _answer(make(loaded), "hello")
    assert engine.estimate(read[1], [{"role": "user", "content": "hello"}]).media_tokens == 0
