"""Sound in requests: 16 kHz mono, one token per 40 ms, beside pictures and words."""

from __future__ import annotations

import io
import math
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import engine
from engine import device
from engine.errors import MediaError, RequestRejected
from engine.forecast import Ruler
from engine.messages import MediaSource
from engine.models.families import open_port
from engine.models.port import Port
from engine.prompt import prepare_messages, prepare_prompt
from engine.reader import MediaShape, Reader
from tests.engine import families, tiny
from tests.engine.families import chat
from tests.engine.test_families import answers, solo


def tone(seconds: float, rate: int = 16_000, channels: int = 1, pitch: float = 440.0) -> bytes:
    """A WAV file of one pitch."""
    times = np.arange(round(seconds * rate)) / rate
    samples = (0.5 * np.sin(2 * np.pi * pitch * times) * 32767).astype("<i2")
    return _wav(samples.repeat(channels), rate, channels)


def _wav(samples: Any, rate: int = 16_000, channels: int = 1) -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.tobytes())
    return buffer.getvalue()


def _samples(data: bytes) -> Any:
    with wave.open(io.BytesIO(data)) as file:
        return np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 32768


def _port() -> Port:
    return open_port(*families.gemma_4())


@pytest.mark.parametrize("chunk", [16, 1024])
def test_sounds_pictures_and_words_in_one_batch_equal_mlx_vlm(make: Any, chunk: int) -> None:
    loaded = families.gemma_4()
    first, second, picture = tone(1.0), tone(0.6, pitch=900.0), tiny.picture(90, 60, 1)
    prompts = [chat("what is it?", "<audio>"), chat("compare", "<image><audio>or<audio>"), chat("hello")]
    expected = [
        solo(loaded, prompts[0], audio=[_samples(first)]),
        solo(loaded, prompts[1], images=[picture], audio=[_samples(first)[:9600], _samples(second)]),
        solo(loaded, prompts[2]),
    ]
    shorter = _wav((_samples(first)[:9600] * 32768).astype("<i2"))
    asks: list[dict[str, Any]] = [
        {"prompt": prompts[0], "audio": [first]},
        {"prompt": prompts[1], "images": [picture], "audio": [shorter, second]},
        {"prompt": prompts[2]},
    ]
    assert answers(make(loaded, prefill_step_size=chunk), asks) == expected
    assert len({tuple(tokens) for tokens in expected}) == 3


@pytest.mark.parametrize(("rate", "channels"), [(48_000, 2), (44_100, 1), (8_000, 1), (16_000, 6)])
def test_any_rate_and_channels_take_the_same_time(rate: int, channels: int) -> None:
    item = prepare_prompt(_port(), chat("?", "<audio>"), audio=[tone(1.0, rate, channels)]).media[0]
    assert item.tokens == 25
    assert item.mask is not None
    assert item.mask.sum() > 95


def test_tokens_never_outnumber_what_the_tower_gives() -> None:
    port = _port()
    for samples in [*range(1600, 6000, 37), 15_999, 16_001, 47_999, 479_999, 480_000]:
        tokens = port.lay_out(MediaShape("audio", samples=samples)).runs[0]
        frames = len(port.cut("audio", np.zeros(samples, np.float32))[0])
        rows = math.ceil(math.ceil(frames / 2) / 2)
        counted = math.ceil(samples / 640)
        assert tokens == min(rows, counted)
        assert counted - 1 <= tokens


def test_a_length_that_mlx_vlm_counts_one_too_many_is_answered(make: Any) -> None:
    loaded = families.gemma_4()
    assert len(answers(make(loaded), [{"prompt": chat("?", "<audio>"), "audio": [tone(1933 / 16_000)]}])[0]) == 10


def test_the_slot_stands_in_the_users_turn_even_without_words() -> None:
    port = _port()
    prompt = prepare_messages(port, [{"role": "user", "content": [{"type": "audio", "audio": tone(0.2)}]}])
    assert str(port.tokenizer.decode(prompt.ids)).startswith("<start>user\n<snd><audio>")
    assert [item.tokens for item in prompt.media] == [5]


def test_silence_is_heard_and_what_is_too_short_or_long_is_refused(tmp_path: Path) -> None:
    port = _port()
    assert prepare_prompt(port, chat("?", "<audio>"), audio=[_wav(np.zeros(8000, "<i2"))]).media[0].tokens == 13
    for seconds in (0.0, 0.01):
        with pytest.raises(MediaError, match="too short"):
            prepare_prompt(port, chat("?", "<audio>"), audio=[tone(seconds)])
    file = tmp_path / "talk.wav"
    file.write_bytes(_wav(np.zeros(31 * 8000, "<i2"), rate=8000))
    with pytest.raises(MediaError, match=r"talk\.wav is longer than the 30 s"):
        prepare_prompt(port, chat("?", "<audio>"), audio=[file])
    with pytest.raises(RequestRejected, match="has 2 sound slots, but 1 sound was given"):
        prepare_prompt(port, chat("?", "<audio><audio>"), audio=[tone(0.2)])


def test_the_estimate_of_a_sound_equals_the_request(make: Any) -> None:
    loaded = families.gemma_4()
    messages = [{"role": "user", "content": [{"type": "audio", "audio": tone(0.73)}, {"type": "text", "text": "?"}]}]
    told = make(loaded).estimate(messages)
    real = prepare_messages(open_port(*loaded), messages)
    assert (told.prompt_tokens, told.media_tokens) == (len(real.ids), real.media[0].tokens)
    assert engine.estimate(loaded[1], messages).kv_bytes == told.kv_bytes > 0


def test_a_length_known_before_makes_the_estimate_exact_where_the_header_is_not() -> None:
    port, sound = _port(), tone(0.8)
    known = Ruler().place(port, MediaSource("audio", sound, seconds=1.2)).layout
    assert known == port.lay_out(MediaShape("audio", samples=round(1.2 * 16_000)))
    assert known != Ruler().place(port, MediaSource("audio", sound)).layout


def test_sentences_name_media_as_their_messages_do(tmp_path: Path) -> None:
    port = _port()
    torn, long = tmp_path / "d1.bin", tmp_path / "d2.bin"
    torn.write_bytes(b"\xff\xd8\xff\xe0" + bytes(400))
    long.write_bytes(_wav(np.zeros(31 * 8000, "<i2"), rate=8000))

    def told(part: dict[str, Any], reader: Any) -> str:
        with pytest.raises(MediaError) as refusal:
            prepare_messages(port, [{"role": "user", "content": [part]}], reader)
        return str(refusal.value)

    for reader in (Reader(), Ruler()):
        assert told({"type": "image", "image": str(torn), "name": "oven.jpg"}, reader).startswith("oven.jpg")
        assert told({"type": "video", "video": str(torn), "name": "door.mp4"}, reader).startswith("door.mp4")
        assert told({"type": "pdf", "pdf": str(torn), "name": "plan.pdf"}, reader).startswith("plan.pdf")
        assert told({"type": "audio", "audio": str(long), "name": "talk.wav"}, reader).startswith("talk.wav is longer")


def test_the_demo_model_refuses_sound_and_the_chat_goes_on(pocket: Any, make: Any) -> None:
    scheduler = make(pocket)
    refused = scheduler.add_request(messages=[{"role": "user", "content": [{"type": "audio", "audio": tone(0.5)}]}])
    fine = scheduler.add_request(messages=[{"role": "user", "content": "hi"}], max_tokens=2)
    while scheduler.has_requests():
        scheduler.step()
    assert scheduler.get_request(refused).error == (
        "This model cannot hear sound. Remove it, or choose a model that takes audio."
    )
    assert scheduler.get_request(fine).error is None


def test_a_sound_is_encoded_a_block_at_a_time() -> None:
    port = _port()
    item = prepare_prompt(port, chat("?", "<audio>"), audio=[tone(0.5)]).media[0]

    def run() -> None:
        encoding = port.encode(item)
        units = 1
        while not encoding.advance(0.0):
            units += 1
        assert units >= encoding.blocks == 2
        assert encoding.features is not None
        assert encoding.features.hidden.shape == (item.tokens, 64)

    device.home().run_here(run)
