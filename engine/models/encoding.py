"""One piece of media on its way through a tower, evaluated a run of blocks at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx

from engine.prompt import MediaItem


@dataclass(frozen=True, slots=True)
class Features:
    """What a tower made of one item.

    Attributes:
        hidden: ``(tokens, hidden)``, in place of the placeholders' embeddings.
        deepstack: per early language-model layer ``(tokens, hidden)``, added to its output (Qwen3-VL); empty elsewhere.
    """

    hidden: mx.array
    deepstack: tuple[mx.array, ...] = ()

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return int(self.hidden.nbytes + sum(layer.nbytes for layer in self.deepstack))


@dataclass(frozen=True, slots=True)
class Blocks:
    """Where a tower keeps its blocks: ``owner[name]`` is the list of them."""

    owner: Any
    name: str

    def __len__(self) -> int:
        return len(self.owner[self.name])


@dataclass(slots=True)
class Encoding:
    """One item's encoding, cut by parts (groups of frames) and by tower blocks.

    A part's lazy graph is built once with recorders standing in for the tower's blocks; then the recorded outputs are
    evaluated one after another, so that a long forward becomes short units without re-implementing the model. Parts
    follow each other, so that a long clip never holds more than one part's activations.

    Args:
        item: what is encoded.
        tower: its blocks.
        parts: each builds the graph of one independent part of the item.
    """

    item: MediaItem
    tower: Blocks
    parts: Sequence[Callable[[], Features]]
    features: Features | None = None
    blocks_done: int = 0
    _done: list[Features] = field(default_factory=list, repr=False)
    _stages: Iterator[mx.array] | None = field(default=None, repr=False)

    @property
    def blocks(self) -> int:
        """Blocks to evaluate in all."""
        return len(self.tower) * len(self.parts)

    def advance(self, budget_s: float) -> bool:
        """Evaluate at least one block, and more while the budget lasts; True when the features are ready."""
        start = time.perf_counter()
        if self._stages is None:
            self._stages = self._all_stages()
        while True:
            before = time.perf_counter()
            stage = next(self._stages, None)
            if stage is None:
                return True
            mx.eval(stage)
            now = time.perf_counter()
            if now - start + (now - before) > budget_s and self.features is None:
                return False

    def _all_stages(self) -> Iterator[mx.array]:
        for part in self.parts:
            features, outputs = self._record(part)
            outputs.reverse()
            while outputs:
                self.blocks_done += 1
                yield outputs.pop()  # popped, so that an evaluated block's activations can go
            mx.eval(features.deepstack)
            self._done.append(features)
            if len(self.parts) == 1:
                self.features = features
            yield features.hidden
        if self.features is None:
            self.features = _joined(self._done)
            mx.eval(self.features.deepstack)
            yield self.features.hidden

    def _record(self, part: Callable[[], Features]) -> tuple[Features, list[mx.array]]:
        outputs: list[mx.array] = []
        blocks = self.tower.owner[self.tower.name]
        self.tower.owner[self.tower.name] = [_Recorder(block, outputs) for block in blocks]
        try:
            return part(), outputs
        finally:
            self.tower.owner[self.tower.name] = blocks


class _Recorder:
    """Stands in for one tower block and remembers its lazy output."""

    def __init__(self, block: Any, outputs: list[mx.array]) -> None:
        self._block, self._outputs = block, outputs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        out = self._block(*args, **kwargs)
        self._outputs.append(out)
        return out


def _joined(parts: list[Features]) -> Features:
    layers = len(parts[0].deepstack)
    return Features(
        mx.concatenate([part.hidden for part in parts]),
        tuple(mx.concatenate([part.deepstack[n] for part in parts]) for n in range(layers)),
    )
