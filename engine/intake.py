"""Preparation: a queued request → a row ready for admission, on NumPy data in a thread pool."""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from time import perf_counter
from typing import Any
from weakref import WeakSet

from engine.chat_shape import store_points
from engine.config import MLLMSchedulerConfig
from engine.detokenizer import Detokenizer
from engine.errors import PromptTooLong
from engine.history import History, Spelling
from engine.known_media import KnownMedia
from engine.logprobs import Logprobs
from engine.media.remote import Downloader
from engine.media.source import is_remote
from engine.messages import Fetch, holds_addresses
from engine.models.port import Port
from engine.prefix_key import prefix_key
from engine.prompt import MediaItem, PreparedPrompt, prepare_messages, prepare_prompt
from engine.reader import Known, Reader
from engine.request import MLLMRequest, SamplingParams
from engine.row import Row
from engine.sampling import RowSampler, Rule
from engine.structured import Grammars, SchemaRule
from engine.think_tags import ThinkTags
from engine.thinking import ThinkingBudget, ThinkTokens, left_open

log = logging.getLogger(__name__)

_THREADS = 2
_SLOW_S = 1.0


class Intake:
    """Decodes, resizes, templates, tokenises and hashes, several requests at a time.

    Args:
        port: the model.
        on_ready: called on a pool thread whenever a preparation has ended, well or not.

    Attributes:
        downloader: what fetches media from the web, where that is allowed.
    """

    def __init__(self, port: Port, config: MLLMSchedulerConfig, on_ready: Callable[[], None]) -> None:
        self.config, self.downloader = config, Downloader()
        self.history = History(port.processor, port.pads.values())
        self._port, self._on_ready = port, on_ready
        self._grammars = Grammars(port.tokenizer, port.vocab_size, port.stop_ids)
        self._known: KnownMedia[Known] = KnownMedia()
        self._jobs: dict[str, Future[Row]] = {}
        # Weak, so that patches go as soon as they are encoded.
        self._readings: dict[str, WeakSet[Future[MediaItem]]] = {}
        self._dropped: dict[str, threading.Event] = {}
        self._pools: dict[str, ThreadPoolExecutor] = {}

    def submit(self, request: MLLMRequest) -> None:
        """Start preparing a request."""
        dropped = threading.Event()
        on_the_web = self.config.allow_remote_media and _is_on_the_web(request)
        job = self._pool("braid-fetch" if on_the_web else "braid-prepare").submit(self._prepare, request, dropped)
        self._jobs[request.request_id], self._dropped[request.request_id] = job, dropped
        job.add_done_callback(lambda _: self._on_ready())

    def _pool(self, name: str = "braid-prepare") -> ThreadPoolExecutor:
        """Threads of this name; fetching has its own, so that nobody waits for the downloads of others."""
        if name not in self._pools:
            self._pools[name] = ThreadPoolExecutor(_THREADS, thread_name_prefix=name)
        return self._pools[name]

    def fetch(self, should_stop: Callable[[], bool] | None = None) -> Fetch | None:
        """What fetches media from the web; None where that is not allowed."""
        return partial(self.downloader.fetch, should_stop=should_stop) if self.config.allow_remote_media else None

    def started(self, request_id: str) -> bool:
        """Whether a thread is at work on it."""
        job = self._jobs.get(request_id)
        return job is not None and job.running()

    def take(self, request_id: str) -> Row | None:
        """The prepared row, once; None while it is not ready.

        Raises:
            Exception: what preparation raised.
        """
        job = self._jobs.get(request_id)
        if job is None or not job.done():
            return None
        del self._jobs[request_id]
        return job.result()

    def read(self, request_id: str, item: MediaItem) -> Future[MediaItem]:
        """Start reading what was left unread of a request's media."""
        job = self._pool().submit(item.complete)
        self._readings.setdefault(request_id, WeakSet()).add(job)
        job.add_done_callback(lambda _: self._on_ready())
        return job

    @property
    def reading(self) -> bool:
        """Whether anything that was left unread is being read."""
        return any(not job.done() for job in self._all_readings())

    def drop(self, request_id: str) -> None:
        """Forget a request; what has begun for it gives up soon, or runs to its end unheard."""
        if (dropped := self._dropped.pop(request_id, None)) is not None:
            dropped.set()
        jobs: list[Future[Any] | None] = [self._jobs.pop(request_id, None), *self._readings.pop(request_id, ())]
        for job in jobs:
            if job is not None:
                job.cancel()

    def wait(self) -> None:
        """Block until at least one preparation or reading has ended."""
        pending: list[Future[Any]] = [*self._jobs.values(), *(job for job in self._all_readings() if not job.done())]
        if pending:
            wait(pending, return_when=FIRST_COMPLETED)

    def _all_readings(self) -> list[Future[MediaItem]]:
        return [job for readings in self._readings.values() for job in readings]

    def close(self) -> None:
        """End the threads; what they were at is dropped."""
        for request_id in list(self._dropped):
            self.drop(request_id)
        for pool in self._pools.values():
            pool.shutdown(wait=True, cancel_futures=True)
        self._pools.clear()

    def _prepare(self, request: MLLMRequest, dropped: threading.Event) -> Row:
        begun = perf_counter()
        spelling = self.history.spelling(request.template_options)
        prompt = self._prompt(request, spelling, dropped)
        seconds = perf_counter() - begun
        if seconds > _SLOW_S:
            log.info("Preparing %s took %.1f s (%d tokens)", request.request_id, seconds, len(prompt.ids))
        params = request.sampling_params
        request.begins_thinking = left_open(self._port.tokenizer, prompt.ids)
        request.think_tags = ThinkTags.of(self._port.tokenizer)
        context = self.config.max_kv_size or self._port.context_limit
        if len(prompt.ids) >= context:
            raise PromptTooLong(
                f"The conversation takes {len(prompt.ids):,} tokens, but the model reads at most {context:,} including "
                "its answer. Shorten it, remove pictures, or start a new chat."
            )
        seed = secrets.randbits(64) if params.seed is None else params.seed
        return Row(
            request=request,
            prompt=prompt,
            sampler=RowSampler(params, prompt.ids, seed, rules=self._rules(params, prompt.ids)),
            detokenizer=Detokenizer(self._port.tokenizer, params.stop, self._marks(request.think_tags)),
            stop_ids=self._port.stop_ids.union(params.stop_token_ids),
            limit=min(params.max_tokens, context - len(prompt.ids)),
            key=prefix_key(prompt.ids, prompt.media),
            points=store_points(prompt.ids, [item.end for item in prompt.media], spelling.shape),
            digest=spelling.digest,
            logprobs=None if params.logprobs is None else Logprobs(params.logprobs),
        )

    def _marks(self, tags: ThinkTags) -> dict[int, str]:
        """Tokens around thoughts, which tell them from the answer also where they are special."""
        think = ThinkTokens.of(self._port.tokenizer)
        return {} if think is None else {think.opens: tags.opens, think.closes: tags.closes}

    def _rules(self, params: SamplingParams, ids: Sequence[int]) -> tuple[Rule, ...]:
        think = ThinkTokens.of(self._port.tokenizer)
        opened = think is not None and think.left_open(ids)
        rules: list[Rule] = []
        if think is not None and params.thinking_budget is not None:
            rules.append(ThinkingBudget(think, params.thinking_budget, opened))
        if params.json_schema is not None:
            matcher = self._grammars.matcher(params.json_schema)
            rules.append(SchemaRule(matcher, think.closes if think is not None and opened else None))
        return tuple(rules)

    def _prompt(self, request: MLLMRequest, spelling: Spelling, dropped: threading.Event) -> PreparedPrompt:
        stop = dropped.is_set
        reader = Reader(
            self.config.default_video_fps, self.config.max_video_frames, stop, self.fetch(stop), self._known
        )
        if request.messages is not None:
            return prepare_messages(self._port, request.messages, reader, spelling.encode, **request.template_options)
        media = request.images, request.videos, request.audio
        return prepare_prompt(self._port, request.prompt, *media, reader, spelling.encode)


def _is_on_the_web(request: MLLMRequest) -> bool:
    media = (*request.images, *request.videos, *request.audio)
    return any(map(is_remote, media)) or holds_addresses(request.messages or ())
