"""Asks the engine itself: what it refuses, and that lending the stream changes nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any
from uuid import uuid4

from app.selftest.media import TONE
from app.selftest.report import Failed
from engine.errors import EngineError

_UNITS = 200
_SEED = 7
_SENTENCE = "This model cannot hear sound."


async def check_sound_refused(scheduler: Any) -> str:
    """The embedded model hears nothing, and says so in a sentence.

    Raises:
        Failed: it answered, or failed in other words.
    """
    parts = [{"type": "audio", "audio": str(TONE)}, {"type": "text", "text": "What do you hear?"}]
    try:
        told = (await scheduler.generate(messages=[{"role": "user", "content": parts}], max_tokens=8)).error
    except EngineError as error:
        told = str(error)
    if not told or not told.startswith(_SENTENCE):
        raise Failed(f"A sound was not refused as it should be: {told or 'it was answered'}")
    return str(told)


async def check_lent_stream(scheduler: Any) -> str:
    """Decode steps on the helper thread give the same tokens as on the window's own.

    Raises:
        Failed: the tokens differ, or the stream cannot be lent here.
    """
    lent, lent_s = await _story(scheduler, lend=True)
    if not scheduler.lending:
        raise Failed("The stream cannot be lent on this machine: units run on the window's own thread.")
    inline, inline_s = await _story(scheduler, lend=False)
    scheduler.apply_config(replace(scheduler.config, lend_stream=True))
    if lent != inline:
        same = next((i for i, (a, b) in enumerate(zip(lent, inline, strict=False)) if a != b), len(inline))
        raise Failed(f"From token {same} on the lent stream gave other tokens.")
    return f"{_UNITS} units lent, {_UNITS / lent_s:.0f} tok/s; inline {_UNITS / inline_s:.0f} tok/s, the same tokens"


async def _story(scheduler: Any, *, lend: bool) -> tuple[tuple[int, ...], float]:
    """Tokens and seconds of an answer that is not allowed to end before its limit."""
    scheduler.apply_config(replace(scheduler.config, lend_stream=lend))
    ends = sorted(scheduler.stop_tokens)

    def go_on(_: Any, logits: Any) -> Any:
        import mlx.core as mx

        logits[..., mx.array(ends)] = -1e9
        return logits

    begun = perf_counter()
    output = await scheduler.generate(
        messages=[{"role": "user", "content": "Tell me a long story."}],
        max_tokens=_UNITS + 1,  # the first token is the prefill's
        temperature=1.0,
        top_p=1.0,
        seed=_SEED,
        logits_processors=(go_on,),
    )
    if output.finish_reason != "length":
        raise Failed(f"The long answer ended early: {output.error or output.finish_reason}")
    return output.output_token_ids, perf_counter() - begun


async def check_cold_cache(scheduler: Any) -> str:
    """What an answer has computed goes to the disk, and is read back after memory has forgotten it.

    Raises:
        Failed: nothing was written or read, or the answer is another one.
    """
    first, _ = await _remembered(scheduler)
    await scheduler.stop()  # writes what is left, and forgets
    written = _megabytes(Path(scheduler.config.ssd_cache_dir))
    await scheduler.start()
    second, tier = await _remembered(scheduler)
    if tier != "ssd":
        raise Failed(f"Nothing of {written:.1f} MB on disk was read back.")
    if first.output_token_ids != second.output_token_ids:
        raise Failed("From the cache on disk came another answer.")
    return f"{written:.1f} MB written, {second.cached_tokens} tokens read back"


def _megabytes(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


async def _remembered(scheduler: Any) -> tuple[Any, str | None]:
    """An answer, and where its prompt's beginning came from."""
    name = uuid4().hex
    messages = [{"role": "user", "content": "Say what a braid is made of, and how many strands it takes."}]
    output = await scheduler.generate(messages=messages, max_tokens=8, temperature=0.0, request_id=name)
    if output.finish_reason not in ("stop", "length"):
        raise Failed(f"A question was not answered: {output.error or output.finish_reason}")
    return output, scheduler.remove_finished_request(name).cache_hit_type


async def check_metal() -> str:
    """One operation on the GPU, and where its kernels come from.

    Raises:
        Failed: there is no GPU, the result is wrong, or the Metal library is not beside MLX's.
    """
    from app.selftest.libraries import images
    from engine import device

    def multiply() -> object:
        import mlx.core as mx

        ones = mx.ones((64, 64))
        return (ones @ ones).sum().item()

    home = device.home()
    if home.backend != "metal":
        raise Failed(f"MLX runs on {home.backend}, not on the GPU.")
    if (total := await home.run(multiply)) != 64**3:
        raise Failed(f"A multiplication on the GPU gave {total}.")
    library = next(path for path in images() if path.name == "libmlx.dylib").with_name("mlx.metallib")
    if not library.is_file():
        raise Failed(f"{library} is missing.")
    return f"a multiplication, with {library}"
