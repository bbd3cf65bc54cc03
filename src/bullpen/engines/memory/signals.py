"""Signals and heartbeats in memory. A heartbeat is the newest worker of its instance."""

import asyncio
from collections.abc import Sequence

from bullpen.engines.memory.faults import Faults, request
from bullpen.engines.memory.notify import MemoryWakeups, WakeupListener
from bullpen.engines.memory.tables import Tables
from bullpen.model.signal import Heartbeat, Pulse, Signal, beat_directly, direct_key


class Reports:
    """The latest signal of every instance, shared by all simulated processes. Nothing here awaits.

    `bell` wakes the control plane; records ring it too.
    """

    def __init__(self) -> None:
        self.signals: dict[str, Signal] = {}
        self.bell = MemoryWakeups()

    def report(self, signal: Signal) -> bool:
        stored = self.signals.get(signal.instance_id)
        if not signal.follows(stored.seq if stored else 0):
            return False
        self.signals[signal.instance_id] = signal
        self.bell.ring()
        return True


class MemorySignals:
    """One process's access to the reports; it hears what changed since it last waited."""

    def __init__(self, reports: Reports, tables: Tables, faults: Faults) -> None:
        self._reports = reports
        self._tables = tables
        self._faults = faults
        self._listener = WakeupListener(reports.bell)

    @request("signals.report")
    def report(self, signal: Signal) -> bool:
        return self._reports.report(signal)

    @request("signals.beat")
    def beat(self, heartbeat: Heartbeat) -> bool:
        return self._beat(heartbeat)

    @request("signals.read")
    def read(self, ids: Sequence[str]) -> dict[str, Pulse]:
        return {id: self._pulse(id) for id in ids}

    async def wait(self, timeout: float) -> None:
        if self._faults.happens(self._faults.rates.deaf):
            await asyncio.sleep(timeout)
        else:
            await self._listener.wait(timeout)

    def _beat(self, heartbeat: Heartbeat) -> bool:
        stored = self._tables.workers.get(direct_key(heartbeat.instance_id))
        change = beat_directly(heartbeat, stored, self._tables.forgotten_epoch)
        if change is None:
            return False
        self._tables.land([change])
        self._reports.bell.ring()
        return True

    def _pulse(self, instance_id: str) -> Pulse:
        workers = self._tables.worker_indexes.of_instance.walk(instance_id)
        newest = max(workers, key=lambda worker: (worker.beat_at, worker.id), default=None)
        heartbeat = None
        if newest and newest.beat_at:
            heartbeat = Heartbeat(instance_id, newest.beat_at, newest.token, newest.activity, newest.leaving)
        return Pulse(self._reports.signals.get(instance_id), heartbeat)
