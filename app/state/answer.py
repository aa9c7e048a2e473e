"""One request to the engine, folded into the turn that shows its answer."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Any, cast
from uuid import uuid4

from app.state.scheduler import Scheduler
from app.state.turn import AnswerFacts, State, Turn
from engine.errors import EngineError
from engine.request import RequestOutput

_log = logging.getLogger(__name__)
_FAULT = "Something went wrong inside Braid while answering. The log file says more. Try again."
_SILENT = "The model ended without a word. Try again, or ask in other words."
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

    def stop(self) -> bool:
        """End the answer before the engine's next unit of work; False when the engine does not know it."""
        self._unwanted = True
        return self._scheduler.abort_request(self.request_id)

    async def run(self, messages: list[dict[str, Any]], options: dict[str, Any]) -> Ending:
        """Send the messages and fold what comes back, to an ending in every case; cancelling aborts the request."""
        try:
            return self._conclude(await self._fold(messages, options))
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
        last = None
        stream = cast("AsyncGenerator[RequestOutput, None]", self._scheduler.stream_outputs(self.request_id))
        async with contextlib.aclosing(stream):
            async for last in stream:
                self._turn.facts = AnswerFacts.measured(last, None).after(self._earlier)
                if last.new_text:
                    self._turn.text += last.new_text
                    self._grown()
        return last

    def _conclude(self, last: RequestOutput | None) -> Ending:
        if last is None or not last.finished:
            return Ending("failed", _LOST)
        measured = AnswerFacts.measured(last, self._scheduler.get_request(self.request_id))
        self._turn.facts = measured.after(self._earlier)
        if last.finish_reason == "error":
            return Ending("failed", last.error or _LOST)
        if last.finish_reason == "abort":
            return Ending("stopped") if self._unwanted else self._left()
        return Ending("done") if self._turn.text.strip() else Ending("failed", _SILENT)

    def _left(self) -> Ending:
        """The engine ended it although nobody asked for that: its model was put away."""
        return Ending("cut", _CHANGED) if self._turn.text.strip() else Ending("failed", _CHANGED_BEFORE)
