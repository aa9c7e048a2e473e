"""What sending a draft would cost, told by the engine before it is sent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal

from app.state.attachment import Attachment, Excerpt
from app.state.model import Model
from app.state.scheduler import Scheduler
from app.state.tasks import Tasks
from app.state.turn import Turn, messages
from engine.errors import EngineError

_log = logging.getLogger(__name__)
_PAUSE_MS = 200
_PIECE = 100_000
"""Characters of a long text that are counted at a time."""
_Part = tuple[str, Excerpt, tuple[float, int]]
"""Our copy of an attachment, which part of it is sent, and how clips are sampled."""


@dataclass(frozen=True, slots=True)
class Before:
    """What a draft follows: the chat so far, and how its prompt is written."""

    turns: tuple[Turn, ...] = ()
    system_prompt: str = ""
    template_options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cost:
    """What a draft would cost together with the chat before it.

    Attributes:
        tokens: of the whole prompt.
        context: most tokens that the model reads, its answer included.
        media_tokens: of all pictures, clips and sounds in it.
        kv_bytes: what it occupies in the model's caches.
        peak_bytes: what looking at its largest piece of media takes for a moment.
        parts: tokens of each attachment of the draft, by its id.
        seconds: to read it all, at the speed measured so far; None where nothing was measured.
        at_least: counting was given up, as it is far too much; there are more tokens than these.
    """

    tokens: int
    context: int
    media_tokens: int
    kv_bytes: int
    peak_bytes: int
    parts: Mapping[str, int]
    seconds: float | None
    at_least: bool = False

    @property
    def fits(self) -> bool:
        """Whether the model can read it and say a word."""
        return self.tokens < self.context


class Forecast(QObject):
    """Asks the engine what a draft would cost, a moment after it changed, on the readers' threads.

    Signals:
        changed: `cost` or `trouble` is another one.

    Attributes:
        cost: of the draft as it is; None while that is not known.
        trouble: why the engine would not answer it, in a sentence; empty while nothing is known against it.
    """

    changed = Signal()

    def __init__(
        self, model: Model, before: Callable[[], Before], pool: Executor, tasks: Tasks, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self.cost: Cost | None = None
        self.trouble = ""
        self._model, self._before, self._pool, self._tasks = model, before, pool, tasks
        self._draft: Turn | None = None
        self._known: dict[_Part, int] = {}
        self._asked: Scheduler | None = None
        self._running: asyncio.Task[None] | None = None
        self._timer = QTimer(self, singleShot=True, interval=_PAUSE_MS)
        self._timer.timeout.connect(self._ask)

    def look(self, draft: Turn | None) -> None:
        """Price a draft, given as the turn it would be; None: there is nothing to send."""
        self._draft = draft
        if draft is None:
            self._timer.stop()
            self._tell(None)
        else:
            self._without_what_went(draft)
            self._timer.start()

    def _without_what_went(self, draft: Turn) -> None:
        """Until the engine has answered, what was taken out costs nothing any more."""
        if self.cost is None:
            return
        here = {item.id for item in draft.attachments}
        gone = sum(tokens for part, tokens in self.cost.parts.items() if part not in here)
        if gone:
            left = {part: tokens for part, tokens in self.cost.parts.items() if part in here}
            media = max(self.cost.media_tokens - gone, 0)
            self.cost = replace(self.cost, tokens=self.cost.tokens - gone, media_tokens=media, parts=left)

    def close(self) -> None:
        """Ask nothing more."""
        self._draft = None
        self._timer.stop()

    def again(self) -> None:
        """Something else than the draft changed."""
        if self._draft is not None:
            self._timer.start()

    def _ask(self) -> None:
        if self._running is not None or not self._tasks.possible:
            return  # in the first case it starts again when it is done
        scheduler = self._model.scheduler
        if scheduler is None or self._draft is None:
            self._tell(None)
            return
        if scheduler is not self._asked:
            self._asked, self._known = scheduler, {}
        speed = Speed.measured(scheduler.get_stats())
        question = _Question(scheduler, self._before(), self._draft, speed, dict(self._known))
        self._running = self._tasks.start(self._price(question), "pricing a draft")

    async def _price(self, question: _Question) -> None:
        cost, trouble = None, ""
        try:
            cost = await asyncio.get_running_loop().run_in_executor(self._pool, question.answer)
        except EngineError as error:
            trouble = str(error)
        except Exception:  # noqa: BLE001 - a price that cannot be told must not keep anybody from sending
            _log.exception("Pricing a draft failed")
        finally:
            self._running = None
        if self._draft is None:
            return
        if self._draft is not question.draft or self._model.scheduler is not question.scheduler:
            self._timer.start()
            return
        self._known |= question.known
        self._tell(cost, trouble)

    def _tell(self, cost: Cost | None, trouble: str = "") -> None:
        if (cost, trouble) != (self.cost, self.trouble):
            self.cost, self.trouble = cost, trouble
            self.changed.emit()


@dataclass(frozen=True, slots=True)
class _Question:
    """One question to the engine; `known` gathers what single attachments cost."""

    scheduler: Scheduler
    before: Before
    draft: Turn
    speed: Speed
    known: dict[_Part, int]

    def answer(self) -> Cost:
        """Ask; for a pool thread."""
        return self._far_too_much() or self._in_full()

    def _far_too_much(self) -> Cost | None:
        """Count long texts piece by piece until they alone are over the limit: millions of tokens take many seconds."""
        context = self.scheduler.context_limit
        for item in self.draft.attachments:
            if item.kind != "text" or item.size <= _PIECE:
                continue
            text, tokens = item.words(), 0
            for start in range(0, len(text), _PIECE):
                tokens += self._tokens([{"type": "text", "text": text[start : start + _PIECE]}]) - self._tokens([])
                if tokens > context:
                    return Cost(tokens, context, 0, 0, 0, {item.id: tokens}, None, at_least=True)
        return None

    def _in_full(self) -> Cost:
        said = messages((*self.before.turns, self.draft), self.before.system_prompt, self.scheduler.takes)
        whole = self.scheduler.estimate(said, **self.before.template_options)
        return Cost(
            tokens=whole.prompt_tokens,
            context=self.scheduler.context_limit,
            media_tokens=whole.media_tokens,
            kv_bytes=whole.kv_bytes,
            peak_bytes=whole.vision_peak_bytes,
            parts={item.id: self._alone(item) for item in self.draft.attachments},
            seconds=self.speed.seconds(whole.prompt_tokens, _pictures(said)),
        )

    def _alone(self, item: Attachment) -> int:
        """Tokens that an attachment adds to a message."""
        key = str(item.path), item.excerpt, self.scheduler.sampling
        if key not in self.known:
            self.known[key] = self._tokens([item.part()]) - self._tokens([])
        return self.known[key]

    def _tokens(self, parts: list[dict[str, Any]]) -> int:
        words = {"type": "text", "text": "?"}
        return self.scheduler.estimate([{"role": "user", "content": [*parts, words]}]).prompt_tokens


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast prompts were read so far; None where nothing was measured."""

    tokens_per_second: float | None
    seconds_per_picture: float | None

    @classmethod
    def measured(cls, stats: Mapping[str, Any]) -> Speed:
        """From the engine's figures."""
        batch = stats.get("batch_generator", {})
        pictures = batch.get("num_images_processed", 0)
        return cls(batch.get("prompt_tps") or None, batch["vision_time"] / pictures if pictures else None)

    def seconds(self, tokens: int, pictures: int | None) -> float | None:
        """For a prompt with so many pictures; None for their number: what it shows cannot be compared."""
        if self.tokens_per_second is None or pictures is None or (pictures and self.seconds_per_picture is None):
            return None
        return tokens / self.tokens_per_second + pictures * (self.seconds_per_picture or 0.0)


def _pictures(said: Sequence[Mapping[str, Any]]) -> int | None:
    """How many pictures a conversation shows; None if it shows clips, sounds or pages as well."""
    parts = [part for message in said if not isinstance(message["content"], str) for part in message["content"]]
    kinds = [part["type"] for part in parts if part["type"] != "text"]
    return len(kinds) if set(kinds) <= {"image"} else None
