"""Signals and heartbeats in memory."""

import asyncio
from collections.abc import Sequence

from bullpen.engines.memory.bell import Bell, Listener
from bullpen.engines.memory.faults import Faults
from bullpen.model.signal import Heartbeat, Pulse, Signal


class Reports:
    """The latest reports of every instance, shared by all simulated processes. Nothing here awaits.

    `bell` wakes the control plane; records ring it too.
    """

    def __init__(self) -> None:
        self.signals: dict[str, Signal] = {}
        self.heartbeats: dict[str, Heartbeat] = {}
        self.bell = Bell()

    def report(self, signal: Signal) -> bool:
        stored = self.signals.get(signal.instance_id)
        if stored and stored.seq >= signal.seq:
            return False
        self.signals[signal.instance_id] = signal
        self.bell.ring()
        return True

    def beat(self, heartbeat: Heartbeat) -> bool:
        stored = self.heartbeats.get(heartbeat.instance_id)
        if stored and stored.seq >= heartbeat.seq:
            return False
        self.heartbeats[heartbeat.instance_id] = heartbeat
        self.bell.ring()
        return True

    def pulse(self, instance_id: str) -> Pulse:
        return Pulse(self.signals.get(instance_id), self.heartbeats.get(instance_id))

    def forget(self, instance_id: str) -> None:
        self.signals.pop(instance_id, None)
        self.heartbeats.pop(instance_id, None)


class MemorySignals:
    """One process's access to the reports; it hears what changed since it last waited."""

    def __init__(self, reports: Reports, faults: Faults) -> None:
        self._reports = reports
        self._faults = faults
        self._listener = Listener(reports.bell)

    async def report(self, signal: Signal) -> bool:
        return await self._faults.call("signals.report", lambda: self._reports.report(signal))

    async def beat(self, heartbeat: Heartbeat) -> bool:
        return await self._faults.call("signals.beat", lambda: self._reports.beat(heartbeat))

    async def read(self, ids: Sequence[str]) -> dict[str, Pulse]:
        return await self._faults.call("signals.read", lambda: {i: self._reports.pulse(i) for i in ids})

    async def wait(self, timeout: float) -> None:
        if self._faults.happens(self._faults.rates.deaf):
            await asyncio.sleep(timeout)
        else:
            await self._listener.wait(timeout)
