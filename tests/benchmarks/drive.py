"""One engine replays one workload in a process of its own: ``python -m tests.benchmarks.drive ENGINE SPEC``.

SPEC is a JSON file: ``{"model": …, "requests": [{"at": seconds, "text": …, "images": [paths], "max_tokens": n}, …]}``;
a request may wait for an earlier one's answer (``"after": index``) and go on from it (``"history": [indices]``). The
result, one JSON line on standard output, holds for each request when it was sent and when each token came, in seconds
from the start. Answers run to their limit: end tokens are ignored by every engine.
"""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

import mlx.core as mx

from tests.benchmarks import models


class Engine(Protocol):
    """What a workload needs of an engine."""

    async def start(self) -> None:
        """Get ready."""

    def stream(self, prompt: str, images: list[str], max_tokens: int) -> AsyncIterator[tuple[int, str]]:
        """(new tokens, new text) as they come."""

    async def stop(self) -> None:
        """End."""


class Braid:
    """Our scheduler."""

    def __init__(self, model: Any, processor: Any, options: dict[str, Any]) -> None:
        import engine

        self._scheduler = engine.MLLMScheduler(model, processor, engine.MLLMSchedulerConfig(**options))
        self._scheduler.port.stop_ids = frozenset()

    async def start(self) -> None:
        """Start the loop."""
        await self._scheduler.start()

    async def stream(self, prompt: str, images: list[str], max_tokens: int) -> AsyncIterator[tuple[int, str]]:
        """Greedy."""
        request_id = await self._scheduler.add_request_async(
            prompt, images=images, max_tokens=max_tokens, temperature=0.0
        )
        async for output in self._scheduler.stream_outputs(request_id):
            if output.error:
                raise RuntimeError(output.error)
            yield len(output.new_token_ids), output.new_text

    async def stop(self) -> None:
        """Stop the loop."""
        await self._scheduler.stop()


class VllmMlx:
    """vllm-mlx's MLLMScheduler: the same face, pictures as data URLs."""

    def __init__(self, model: Any, processor: Any, options: dict[str, Any]) -> None:
        from vllm_mlx.mllm_scheduler import MLLMScheduler, MLLMSchedulerConfig

        self._scheduler = MLLMScheduler(model, processor, MLLMSchedulerConfig(**options))
        self._scheduler.stop_tokens = set()

    async def start(self) -> None:
        """Start the loop."""
        await self._scheduler.start()

    async def stream(self, prompt: str, images: list[str], max_tokens: int) -> AsyncIterator[tuple[int, str]]:
        """Greedy."""
        urls = [_data_url(Path(path)) for path in images] or None
        request_id = await self._scheduler.add_request_async(
            prompt, images=urls, max_tokens=max_tokens, temperature=0.0
        )
        async for output in self._scheduler.stream_outputs(request_id):
            if output.finish_reason == "error":
                raise RuntimeError("vllm-mlx ended a request with an error")
            yield len(output.new_token_ids), output.new_text

    async def stop(self) -> None:
        """Stop the loop."""
        await self._scheduler.stop()


class MlxVlm:
    """mlx-vlm's BatchGenerator, driven as its server drives it: pictures are embedded before a request is inserted."""

    def __init__(self, model: Any, processor: Any, options: dict[str, Any]) -> None:
        from mlx_vlm.generate import BatchGenerator
        from mlx_vlm.utils import StoppingCriteria

        self._model, self._processor = model, processor
        processor.tokenizer.stopping_criteria = StoppingCriteria([], processor.tokenizer)
        processor.tokenizer.stopping_criteria.eos_token_ids = []
        self._generator = BatchGenerator(
            model.language_model,
            processor,
            compute_logprobs=False,
            prefill_batch_size=1,
            completion_batch_size=options.get("completion_batch_size", 16),
            prefill_step_size=options.get("prefill_step_size", 1024),
            apc_manager=_prefix_cache() if options.get("enable_prefix_cache", True) else None,
        )
        self._queues: dict[int, asyncio.Queue[int | None]] = {}
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start stepping."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stream(self, prompt: str, images: list[str], max_tokens: int) -> AsyncIterator[tuple[int, str]]:
        """Greedy."""
        uid = self._insert(prompt, images, max_tokens)
        queue = self._queues[uid] = asyncio.Queue()
        while (token := await queue.get()) is not None:
            yield 1, self._processor.tokenizer.decode([token])

    async def stop(self) -> None:
        """Stop stepping."""
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._generator.close()

    def _insert(self, prompt: str, images: list[str], max_tokens: int) -> int:
        from mlx_vlm import apc
        from mlx_vlm.utils import prepare_inputs
        from PIL import Image

        index = self._model.config.image_token_index
        opened = [Image.open(path) for path in images] or None
        raw = prepare_inputs(
            self._processor, images=opened, prompts=prompt, image_token_index=index, add_special_tokens=False
        )
        ids, pixels = raw["input_ids"], raw.get("pixel_values")
        other = {k: v for k, v in raw.items() if k not in ("input_ids", "pixel_values", "attention_mask")}
        features = self._model.get_input_embeddings(ids, pixels, mask=raw.get("attention_mask"), **other)
        extra = {**other, **{k: v for k, v in features.to_dict().items() if v is not None}}
        image_hash = apc.hash_image_payload(pixel_values=pixels) if pixels is not None else 0
        extra["_apc_semantic_hash"] = apc.semantic_extra_hash(image_hash=image_hash)
        (uid,) = self._generator.insert([ids[0].tolist()], max_tokens=[max_tokens], prompt_kwargs=[extra])
        return int(uid)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(0)
            if not self._generator.has_work:
                await asyncio.sleep(0.001)
                continue
            _, responses = self._generator.next()
            for response in responses:
                queue = self._queues[response.uid]
                queue.put_nowait(response.token)
                if response.finish_reason:
                    queue.put_nowait(None)


ENGINES = {"braid": Braid, "vllm-mlx": VllmMlx, "mlx-vlm": MlxVlm}


def _prefix_cache() -> Any:
    from mlx_vlm import apc

    overrides = {"memory_reserve_gb": 0.0, "memory_max_gb": 2.0, "checkpoint_entries": 16}
    return apc.APCManager(num_blocks=4096, block_size=16, overrides=overrides)


def _data_url(path: Path) -> str:
    return f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}"


def render(processor: Any, spec: dict[str, Any], index: int, answers: dict[int, str]) -> tuple[str, list[str]]:
    """The prompt of a request with the turns before it, and all pictures in order."""
    messages: list[dict[str, Any]] = []
    images: list[str] = []
    for turn in [*spec["requests"][index].get("history", []), index]:
        request = spec["requests"][turn]
        images += request.get("images", [])
        parts = [{"type": "image"} for _ in request.get("images", [])]
        messages.append({"role": "user", "content": [*parts, {"type": "text", "text": request["text"]}]})
        if turn != index:
            messages.append({"role": "assistant", "content": [{"type": "text", "text": answers[turn]}]})
    prompt = processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    return str(prompt), images


async def replay(engine: Engine, processor: Any, spec: dict[str, Any]) -> list[dict[str, Any]]:
    """Send every request at its time and note when its tokens come."""
    requests = spec["requests"]
    began = perf_counter()
    ended = {index: asyncio.Event() for index in range(len(requests))}
    answers: dict[int, str] = {}

    async def one(index: int) -> dict[str, Any]:
        request = requests[index]
        if "after" in request:
            await ended[request["after"]].wait()
        await asyncio.sleep(max(request.get("at", 0.0) - (perf_counter() - began), 0.0))
        prompt, images = render(processor, spec, index, answers)
        # A person asks when they ask, even while an engine that blocks the loop keeps it from being noticed.
        sent = perf_counter() - began if "after" in request else request.get("at", 0.0)
        stamps: list[float] = []
        text = ""
        async for count, piece in engine.stream(prompt, images, request["max_tokens"]):
            stamps += [perf_counter() - began] * count
            text += piece
        answers[index] = text
        ended[index].set()
        return {"sent": sent, "stamps": stamps, "text": text}

    return list(await asyncio.gather(*map(one, range(len(requests)))))


async def main(name: str, spec: dict[str, Any]) -> None:
    """Warm up, replay, print."""
    model, processor = models.load(spec["model"])
    options = dict(spec.get("options", {}))
    if name == "braid":
        options |= spec.get("braid", {})
    rounds = []
    for number in range(spec.get("rounds", 1) + 1):
        engine: Engine = ENGINES[name](model, processor, options)
        await engine.start()
        found = await replay(engine, processor, spec["warm_up"] if number == 0 else spec)
        await engine.stop()
        del engine
        gc.collect()
        mx.clear_cache()
        if number:
            rounds.append(found)
    print(json.dumps({"engine": name, "rounds": rounds, "peak_gb": mx.get_peak_memory() / 1e9}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], json.loads(Path(sys.argv[2]).read_text())))
