"""What the checks found, as lines for a person or as JSON for a script."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import TextIO

from app import __version__

_log = logging.getLogger(__name__)
_LIMIT_S = 120.0
Check = Callable[[], str | Awaitable[str]]
"""Returns what it found in a few words, or raises."""


class Failed(Exception):
    """A check found something wrong; the message is a sentence."""


@dataclass(frozen=True, slots=True)
class Result:
    """One check; `told` says what was found or what is wrong."""

    name: str
    ok: bool
    seconds: float
    told: str


class Report:
    """Runs checks, tells each result as it comes, and sums them up."""

    def __init__(self, out: TextIO, *, as_json: bool) -> None:
        self.results: list[Result] = []
        self._out, self._as_json = out, as_json
        self._begun = perf_counter()

    async def run(self, name: str, work: Check) -> None:
        """Run one check on the loop; a failure or too long a wait is a result like any other."""
        begun = perf_counter()
        try:
            async with asyncio.timeout(_LIMIT_S):
                found = work()
                told = await found if inspect.isawaitable(found) else found
            self._add(name, begun, told)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong is what this program is there to tell
            self._add(name, begun, error)

    def check(self, name: str, work: Callable[[], str]) -> None:
        """Run one check outside the loop."""
        begun = perf_counter()
        try:
            self._add(name, begun, work())
        except Exception as error:  # noqa: BLE001 - as above
            self._add(name, begun, error)

    def end(self) -> int:
        """Tell the sum and return the exit status."""
        failed = [result for result in self.results if not result.ok]
        seconds = perf_counter() - self._begun
        if self._as_json:
            checks = [asdict(result) for result in self.results]
            summary = {"braid": __version__, "ok": not failed, "seconds": round(seconds, 2), "checks": checks}
            self._tell(json.dumps(summary, indent=2, ensure_ascii=False))
        elif failed:
            self._tell(f"{len(failed)} of {len(self.results)} checks failed in {seconds:.1f} s.")
        else:
            self._tell(f"All {len(self.results)} checks passed in {seconds:.1f} s.")
        return 1 if failed or not self.results else 0

    def _add(self, name: str, begun: float, found: str | Exception) -> None:
        seconds = round(perf_counter() - begun, 2)
        if isinstance(found, str):
            result = Result(name, True, seconds, found)
        else:
            _log.warning("Self-test: %s failed", name, exc_info=found)
            result = Result(name, False, seconds, _sentence(found))
        self.results.append(result)
        if not self._as_json:
            self._tell(f"{'ok' if result.ok else 'FAILED':8}{name:22}{result.told} ({seconds:.1f} s)")

    def _tell(self, text: str) -> None:
        self._out.write(f"{text}\n")
        self._out.flush()


def _sentence(error: Exception) -> str:
    """A failed check's own words, or for what nobody expected its kind as well: this is read by engineers."""
    if isinstance(error, Failed):
        return str(error)
    if isinstance(error, TimeoutError):
        return f"It did not end within {_LIMIT_S:.0f} s."
    return f"{type(error).__name__}: {error}"
