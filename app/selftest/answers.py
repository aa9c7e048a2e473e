"""Asks the engine itself: what it refuses, and that lending the stream changes nothing."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import Any

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
