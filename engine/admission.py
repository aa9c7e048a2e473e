"""Admission: what a request may come to cost, against what the machine has left."""

from __future__ import annotations

from engine.caches import Caches
from engine.config import MLLMSchedulerConfig
from engine.device import Device
from engine.errors import OutOfMemory
from engine.grouping import FREE_SHARE
from engine.memory import Activations, Machine, Pricing, Verdict, judge, never_fits
from engine.models.port import Port
from engine.prefill import Prefill
from engine.row import Row
from engine.running import Running
from engine.unit import Unit


class Admission:
    """Prices rows for one model and decides who may start."""

    def __init__(self, port: Port, device: Device, batch: Running, caches: Caches, config: MLLMSchedulerConfig) -> None:
        self._port, self._device, self._batch, self._caches = port, device, batch, caches
        self.config = config
        self.pricing: Pricing | None = None
        self._most_padding = 0.0

    def measure(self) -> None:
        """Unit: learn what this model's caches cost; also warms the kernels up."""
        prefill, vision = (Activations(guess) for guess in self._port.guesses)
        cost = self._port.cache_cost or self._port.measure()
        self.pricing = Pricing(cost, self.config.prefill_step_size, prefill, vision)
        self._most_padding = FREE_SHARE * self._port.weight_bytes

    def learn(self, unit: Unit) -> None:
        """Take in what the unit just done needed at its peak."""
        if self.pricing is None:
            return
        if unit.decision.kind == "prefill":
            self.pricing.prefill.learn(unit.decision.tokens, self._device.unit_peak)
        elif unit.decision.kind == "vision" and isinstance(unit.subject, Prefill) and unit.subject.encoding:
            self.pricing.vision.learn(unit.subject.encoding.item.at_once, self._device.unit_peak)

    def reason_to_wait(self, row: Row) -> str:
        """Why a row cannot start now, or nothing; idle cache entries go before it has to wait.

        Raises:
            OutOfMemory: it cannot fit even into an empty engine; the sentence has the numbers.
        """
        verdict = self._judge(row)
        if verdict.shortfall and self._caches.evict(verdict.shortfall, row.key[:-1]):
            verdict = self._judge(row)
        if verdict.shortfall and not self._batch.count:
            assert self.pricing is not None
            memory = self._device.memory()
            raise OutOfMemory(never_fits(self.pricing, row.demand, self.budget(memory) - memory["active"]))
        self._allow_padding(verdict.spare)
        return verdict.reason

    def _allow_padding(self, spare: int) -> None:
        """Let groups hold padding that is small beside the weights, as far as memory is left that nobody may need."""
        assert self.pricing is not None
        self._batch.free_padding = min(self._most_padding, spare) / max(self.pricing.cache.per_token, 1.0)

    def budget(self, memory: dict[str, int]) -> int:
        """Most bytes that model, chats and caches may take, by these readings of the device."""
        limit = self.config.memory_limit_gb
        return Machine(memory["limit"], memory["available"]).budget(None if limit is None else int(limit * 1e9))

    def _judge(self, row: Row) -> Verdict:
        assert self.pricing is not None
        memory, rows = self._device.memory(), self._batch.rows
        return judge(
            self.pricing,
            row.demand,
            [other.demand for other in rows],
            active=memory["active"],
            held=sum(self.pricing.cache.bytes(other.length) for other in rows),
            budget=self.budget(memory),
            available=memory["available"] + memory["cache"],
        )
