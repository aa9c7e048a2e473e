"""Requests that wait for their prefix to be read from disk, before they are admitted."""

from __future__ import annotations

import json
import logging
from concurrent.futures import Future, wait

from engine.models.layers import Codec, State
from engine.prefix_cache import Prefix, Run
from engine.prefix_key import Key
from engine.ssd_cache import Piece, SsdCache

log = logging.getLogger(__name__)

_WORTHWHILE = 64
"""Positions that the disk must know beyond memory for reading them to be quicker than computing them."""


class Promotion:
    """Reads prefixes, one request each; others go on meanwhile."""

    def __init__(self) -> None:
        self._jobs: dict[str, tuple[int, Future[list[Piece] | None]]] = {}
        self._found: dict[str, Prefix] = {}

    def pending(self, ssd: SsdCache, request_id: str, key: Key, in_memory: int) -> bool:
        """Whether a request must wait; the first call for it starts reading.

        Args:
            ssd: the cold tier.
            request_id: of the request.
            key: of its prompt.
            in_memory: positions that memory knows.
        """
        if not ssd.ready:
            return True
        if request_id in self._found:
            return False
        if request_id in self._jobs:
            length, job = self._jobs[request_id]
            if not job.done():
                return True
            del self._jobs[request_id]
            try:
                pieces = job.result()
                if pieces is not None:
                    self._found[request_id] = _prefix(pieces, length)
                    return False
            except Exception:
                # Not tried again: the prompt is computed.
                log.exception("A prefix of %d tokens could not be read", length)
                return False
        # What was damaged or gone is forgotten by now; something shorter may be left.
        match = ssd.find(key)
        if match is None or match.length < min(in_memory + _WORTHWHILE, len(key)) or match.length <= in_memory:
            return False
        self._jobs[request_id] = match.length, ssd.fetch(match)
        return True

    def take(self, request_id: str) -> Prefix | None:
        """What was read for a request, once."""
        return self._found.pop(request_id, None)

    def drop(self, request_id: str) -> None:
        """Forget a request; a job that runs ends unheard."""
        self._jobs.pop(request_id, None)
        self._found.pop(request_id, None)

    def wait(self) -> None:
        """Block until all reading has ended."""
        wait([job for _, job in self._jobs.values()])

    def clear(self) -> None:
        """Forget all requests."""
        self._jobs.clear()
        self._found.clear()


def _prefix(pieces: list[Piece], length: int) -> Prefix:
    runs = [piece for piece in pieces if piece.kind == "kv"]
    states = [piece for piece in pieces if piece.kind == "state"]
    state = State(states[-1].arrays, json.loads(states[-1].meta["meta"])) if states else None
    return Prefix(length, [Run(run.arrays, _codec(run)) for run in runs], state, "ssd")


def _codec(run: Piece) -> Codec:
    return Codec(int(run.meta["bits"]), int(run.meta["group_size"]))
