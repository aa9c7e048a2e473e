"""One request to the engine, folded into the turn that shows its answer."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, cast
from uuid import uuid4

from app.state.reasoning import Parts, Splitter
from app.state.scheduler import Scheduler
from app.state.turn import AnswerFacts, State, Turn
from engine.errors import EngineError
from engine.request import MLLMRequest, RequestOutput

_log = logging.getLogger(__name__)
_FAULT = "Something went wrong inside Braid while answering. The log file says more. Try again."
_SILENT = "The model ended without a word. Try again, or ask in other words."
_NO_ANSWER = "The model ended after thinking, without an answer. Try again, or ask in other words."
_CHANGED = "The model was changed"
_CHANGED_BEFORE = "The model was changed before it could answer. Try again."
_LOST = "The answer ended early for an unknown reason. Try again."


@dataclass(frozen=True, slots=True)
class Ending:
    """How an answer ended; `error` is the sentence of a failed one."""

    state: State
    error: str | None = None


class Answer:
    """A request that is being answered.

    Attributes:
        request_id: its id in the engine.
    """

    def __init__(self, scheduler: Scheduler, turn: Turn, grown: Callable[[], None]) -> None:
        """Answer into `turn` and call `grown` with each piece of text."""
        self.request_id = uuid4().hex
        self._scheduler = scheduler
        self._turn = turn
        self._grown = grown
        self._earlier = turn.facts
        """Of the beginning, where an answer is gone on with."""
        self._unwanted = False
        self._thinking_since: float | None = None
        self._thinking_s = self._earlier.thinking_s if self._earlier else None

    def stop(self) -> bool:
        """End the answer before the engine's next unit of work; False when the engine does not know it."""
        self._unwanted = True
        return self._scheduler.abort_request(self.request_id)

    async def run(self, messages: Callable[[], list[dict[str, Any]]], options: dict[str, Any]) -> Ending:
        """Send the messages and fold what comes back, to an ending in every case; cancelling aborts the request.

        Args:
            messages: puts them together, which fails where our copy of a text is gone.
            options: of the request.
        """
        try:
            return self._conclude(await self._fold(messages(), options))
        except (EngineError, ValueError) as error:
            return Ending("failed", str(error))
        except Exception:  # noqa: BLE001 - the answer must end visibly whatever the engine raises
            _log.exception("Answering failed")
            return Ending("failed", _FAULT)
        finally:
            self._scheduler.abort_request(self.request_id)
            self._scheduler.remove_finished_request(self.request_id)

    async def _fold(self, messages: list[dict[str, Any]], options: dict[str, Any]) -> RequestOutput | None:
        await self._scheduler.add_request_async(messages=messages, request_id=self.request_id, **options)
        last = reply = None
        stream = cast("AsyncGenerator[RequestOutput, None]", self._scheduler.stream_outputs(self.request_id))
        async with contextlib.aclosing(stream):
            try:
                async for last in stream:
                    reply = reply or self._reply()
                    if last.new_text:
                        self._time(thinks=reply.thinks)
                        self._take(reply.add(last.new_text))
                    self._turn.facts = self._measured(last, None)
                    if last.new_text:
                        self._grown()
            finally:
                if reply is not None:
                    self._take(reply.finish())
        return last

    def _reply(self) -> Splitter:
        """What sorts the text; the engine knows by the first output whether the prompt has opened a thinking block."""
        request, turn = self._scheduler.get_request(self.request_id), self._turn
        opened, tags = (request.begins_thinking, request.think_tags) if request is not None else (False, None)
        return Splitter(opened=opened, reasoning=turn.reasoning, text=turn.text, tags=tags)

    def _take(self, parts: Parts) -> None:
        self._turn.reasoning += parts.reasoning
        self._turn.text += parts.text

    def _time(self, *, thinks: bool) -> None:
        """Measure how long the thoughts take, from their first piece to the one after their last."""
        now = monotonic()
        if self._thinking_since is not None:
            self._thinking_s = (self._thinking_s or 0.0) + now - self._thinking_since
        self._thinking_since = now if thinks else None

    def _measured(self, output: RequestOutput, request: MLLMRequest | None) -> AnswerFacts:
        facts = AnswerFacts.measured(output, request).after(self._earlier)
        return replace(facts, thinking_s=self._thinking_s)

    def _conclude(self, last: RequestOutput | None) -> Ending:
        if last is None or not last.finished:
            return Ending("failed", _LOST)
        self._turn.facts = self._measured(last, self._scheduler.get_request(self.request_id))
        if last.finish_reason == "error":
            return Ending("failed", last.error or _LOST)
        if last.finish_reason == "abort":
            return Ending("stopped") if self._unwanted else self._left()
        if self._turn.text.strip() or (self._turn.begun and last.finish_reason == "length"):
            return Ending("done")
        return Ending("failed", _NO_ANSWER if self._turn.begun else _SILENT)

    def _left(self) -> Ending:
        """The engine ended it although nobody asked for that: its model was put away."""
        return Ending("cut", _CHANGED) if self._turn.begun else Ending("failed", _CHANGED_BEFORE)
