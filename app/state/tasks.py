"""Asyncio tasks that an owner keeps, cancels and waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class Tasks:
    """Running tasks of one owner; an unexpected error goes to the loop's exception handler, once."""

    def __init__(self) -> None:
        """Start with none."""
        self._running: set[asyncio.Task[Any]] = set()

    @property
    def possible(self) -> bool:
        """Whether a loop runs; timers may still fire when the last one has ended."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return False
        return True

    def start(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run `work` on the current loop; also from a plain Qt slot while that loop runs."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    async def join(self) -> None:
        """Wait until all have ended, including those that they start meanwhile."""
        while self._running:
            await asyncio.wait(set(self._running))

    async def close(self) -> None:
        """Cancel all and wait until they have cleaned up."""
        for task in self._running:
            task.cancel()
        await self.join()

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            context = {"message": f"{task.get_name()} failed", "exception": error, "task": task}
            task.get_loop().call_exception_handler(context)
