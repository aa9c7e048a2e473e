"""An answer under a schema is JSON that follows it: in any batch, after thinking, sampled, and after a failed step."""

from __future__ import annotations

import json
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine import MLLMScheduler, RequestOutput, RequestRejected, device
from engine.models.port import Port
from engine.structured import _bits
from tests.engine import tiny
from tests.engine.conftest import Make
from tests.engine.solo import solo

ASK = tiny.chat("how many?")
COUNT = {
    "type": "object",
    "properties": {"sure": {"type": "boolean"}, "kind": {"enum": ["cat", "dog"]}, "n": {"enum": [1, 22, 333]}},
    "required": ["sure", "kind", "n"],
    "additionalProperties": False,
}
PAIR = {"type": "array", "items": {"enum": ["left", "right"]}, "minItems": 2, "maxItems": 2}


def ended(scheduler: MLLMScheduler, count: int = 1) -> dict[str, RequestOutput]:
    outputs: dict[str, RequestOutput] = {}
    for _ in range(600):
        outputs |= {output.request_id: output for output in scheduler.step().outputs if output.finished}
        if len(outputs) == count:
            break
    return outputs


def answer(scheduler: MLLMScheduler, prompt: str = ASK, **options: Any) -> str:
    request_id = scheduler.add_request(prompt, **{"max_tokens": 100, "temperature": 0.0} | options)
    output = ended(scheduler)[request_id]
    assert (output.finish_reason, output.error) == ("stop", None)
    return output.output_text


def assert_count(text: str) -> None:
    found = json.loads(text)
    assert list(found) == ["sure", "kind", "n"]
    assert found["sure"] in (True, False)
    assert found["kind"] in ("cat", "dog")
    assert found["n"] in (1, 22, 333)


@pytest.mark.parametrize("options", [{}, {"temperature": 1.5, "top_p": 1.0, "seed": 4}, {"repetition_penalty": 1.5}])
def test_random_weights_follow_a_schema(make: Make, tiny_model: tiny.Loaded, options: dict[str, Any]) -> None:
    assert_count(answer(make(tiny_model), json_schema=COUNT, **options))


def test_rows_under_different_schemas_and_none_share_a_batch(make: Make) -> None:
    loaded = tiny.hybrid()
    alone = answer(make(loaded), json_schema=COUNT)
    scheduler = make(loaded)
    options = {"max_tokens": 60, "temperature": 0.0}
    free = scheduler.add_request(tiny.chat("tell me more"), **options)
    count = scheduler.add_request(ASK, json_schema=COUNT, **options)
    pair = scheduler.add_request(ASK, json_schema=PAIR, **options)
    outputs = ended(scheduler, 3)
    assert outputs[count].output_text == alone
    assert len(json.loads(outputs[pair].output_text)) == 2
    assert list(outputs[free].output_token_ids) == solo(*loaded, tiny.chat("tell me more"), (), 60)


def test_a_row_rebuilt_after_a_failed_step_still_follows_its_schema(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = answer(make(tiny.hybrid()), json_schema=COUNT)
    decode, calls = Port.decode, iter(range(1000))

    def failing(port: Port, *args: Any) -> mx.array:
        if next(calls) == 12:
            raise RuntimeError("the device gave up")
        return decode(port, *args)

    monkeypatch.setattr(Port, "decode", failing)
    assert answer(make(tiny.hybrid()), json_schema=COUNT) == expected


def test_the_schema_waits_for_the_end_of_thinking(make: Make) -> None:
    scheduler = make(tiny.hybrid())
    tokenizer = scheduler.processor.tokenizer
    prompt = f"{ASK}<think>\n"
    scheduler.add_request(prompt, max_tokens=100, temperature=0.0, json_schema=COUNT, thinking_budget=5)
    (output,) = ended(scheduler).values()
    tokens = output.output_token_ids
    end = tokens.index(tokenizer.convert_tokens_to_ids("</think>"))
    assert end == 5
    assert_count(tokenizer.decode(tokens[end + 1 :], skip_special_tokens=True))


def test_the_demo_model_names_what_it_sees_in_json(make: Make, pocket: tiny.Loaded) -> None:
    schema = {"type": "object", "properties": {"shape": {"enum": ["square", "circle", "star"]}}, "required": ["shape"]}
    schema["additionalProperties"] = False
    parts = [{"type": "image", "image": disc()}, {"type": "text", "text": "Describe this image."}]
    scheduler = make(pocket, enable_mtp=True, mtp_policy="always")
    messages = [{"role": "user", "content": parts}]
    request_id = scheduler.add_request(messages=messages, max_tokens=32, temperature=0.0, json_schema=schema)
    assert json.loads(ended(scheduler)[request_id].output_text) == {"shape": "circle"}
    request = scheduler.get_request(request_id)
    assert request is not None
    assert request.mtp_off == "json_schema"
    assert request.mtp_drafts == 0


def disc() -> Any:
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (224, 224), (252, 252, 252))
    ImageDraw.Draw(image).ellipse((62, 62, 162, 162), fill=(220, 30, 30))
    return image


def test_a_schema_that_makes_no_sense_ends_only_its_request(make: Make) -> None:
    scheduler = make(tiny.hybrid())
    wrong = scheduler.add_request(ASK, json_schema={"type": "nonsense"}, temperature=0.0)
    right = scheduler.add_request(ASK, max_tokens=4, temperature=0.0)
    outputs = ended(scheduler, 2)
    assert outputs[wrong].finish_reason == "error"
    assert outputs[wrong].error == "The JSON schema cannot be used: Invalid type: nonsense. Correct it."
    assert outputs[right].finish_reason == "length"


@pytest.mark.parametrize("schema", ["{}", 5, {"enum": {1, 2}}])
def test_what_is_no_schema_at_all_is_refused_at_once(make: Make, schema: Any) -> None:
    with pytest.raises(RequestRejected, match="json_schema"):
        make(tiny.hybrid()).add_request(ASK, json_schema=schema)


def test_masks_are_unpacked_from_the_lowest_bit_on() -> None:
    allowed = {0, 1, 31, 32, 63, 64, 94}
    packed = np.zeros(96, np.uint8)
    packed[list(allowed)] = 1
    mask = np.packbits(packed, bitorder="little").tobytes()
    bits = device.home().run_here(lambda: np.array(_bits(mask, 95)))
    assert bits.shape == (1, 95)
    assert set(np.flatnonzero(bits[0])) == allowed
