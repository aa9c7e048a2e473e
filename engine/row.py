"""One admitted request: what its batch and its prefill keep about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from engine.detokenizer import Detokenizer
from engine.logprobs import Logprobs
from engine.memory import Demand
from engine.mtp import Draft
from engine.prefix_key import Key, extended
from engine.prompt import PreparedPrompt
from engine.request import MLLMRequest
from engine.sampling import RowSampler


@dataclass(slots=True, eq=False)
class Row:
    """One admitted request.

    Attributes:
        limit: most tokens it may generate: ``max_tokens``, or less where the context ends first.
        dispatched: tokens sampled so far, read or not.
        alone: decode it by itself, since a step that held it has failed once.
        gone: finished or aborted; the next unit drops it.
        draft: what multi-token prediction keeps for it while it is alone.
        logprobs: what was asked for about its tokens.
        key: of the prompt, for the prefix cache.
        points: prompt lengths at which its state is worth storing.
        digest: of the prompt as rendered, for the history.
        read: tokens that came back from the device; the request hears of them a moment later.
        ended: the last one was a stop token, so no further step is for this row.
    """

    request: MLLMRequest
    prompt: PreparedPrompt
    sampler: RowSampler
    detokenizer: Detokenizer
    stop_ids: frozenset[int]
    limit: int
    key: Key
    points: tuple[int, ...] = ()
    digest: bytes = b""
    dispatched: int = 0
    alone: bool = False
    gone: bool = False
    draft: Draft | None = None
    logprobs: Logprobs | None = None
    read: list[int] = field(default_factory=list)
    ended: bool = False

    @property
    def length(self) -> int:
        """Tokens in its caches by the time everything queued has run."""
        return len(self.prompt.ids) + self.dispatched

    @property
    def demand(self) -> Demand:
        """What it may come to need of memory."""
        patches = max((item.at_once for item in self.prompt.media), default=0)
        return Demand(len(self.prompt.ids) + self.limit, patches)

    @property
    def request_id(self) -> str:
        """The request's id."""
        return self.request.request_id

    def read_logprobs(self, count: int) -> None:
        """Unit: bring what was asked for about the next ``count`` tokens to the host."""
        if self.logprobs is not None:
            self.logprobs.read(count)

    @property
    def consumed_key(self) -> Key:
        """Of exactly the tokens its caches have taken in while it decodes: all but the last one sampled."""
        return extended(self.key, self.read)[: self.length - 1]

    def take(self, tokens: Sequence[int]) -> None:
        """Unit: note what came back; a stop token ends the row at once, before anything more is fed after it."""
        self.read += tokens
        self.ended = self.ended or not self.stop_ids.isdisjoint(tokens)

    def let_patches_go(self) -> None:
        """Drop what the tower has read: tens of megabytes for a photo, which only a failed step would ask for again."""
        self.prompt = replace(self.prompt, media=tuple(item.light() for item in self.prompt.media))

    def start_over(self) -> None:
        """Go back to what was emitted, to be prefilled again and then decode alone."""
        self.alone = True
        self.draft = None
        if self.logprobs is not None:
            self.logprobs.start_over()
        self.read = list(self.request.output_tokens)
        self.dispatched = len(self.read)
        self.sampler = self.sampler.resumed(self.request.output_tokens)
