"""One output queue per request, read by whoever asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable

from engine.request import RequestOutput

Queue = asyncio.Queue[RequestOutput | None]


class Streams:
    """Output queues by request id; each holds the outputs in order, the finished one, then None."""

    def __init__(self) -> None:
        self.queues: dict[str, Queue] = {}

    def open(self, request_id: str) -> None:
        """Make the queue of a new request."""
        self.queues[request_id] = asyncio.Queue()

    def put(self, output: RequestOutput) -> None:
        """Hand out one output; loop thread only."""
        queue = self.queues.get(output.request_id)
        if queue is None:
            return
        queue.put_nowait(output)
        if output.finished:
            queue.put_nowait(None)

    def drop(self, request_id: str) -> None:
        """Forget a queue that nobody will read."""
        self.queues.pop(request_id, None)

    async def read(self, request_id: str, abandon: Callable[[str], object]) -> AsyncGenerator[RequestOutput]:
        """Yield outputs until the request has ended; ``abandon`` is called when the reader leaves before that."""
        queue = self.queues.get(request_id)
        if queue is None:
            return
        ended = False
        try:
            while (output := await queue.get()) is not None:
                ended = output.finished
                yield output
        finally:
            # The id may name another request by now, whose stream is none of this reader's business.
            if self.queues.get(request_id) is queue:
                self.drop(request_id)
                if not ended:
                    abandon(request_id)
