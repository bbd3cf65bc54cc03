"""The health of a store in memory, and what services noted there."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from bullpen.engines.memory.faults import Faults, request
from bullpen.ports import FailingLoop, ServiceNote

Notes = dict[str, tuple[datetime, list[FailingLoop]]]


class MemoryHealth:
    """`ports.StoreHealth` on notes that all processes share."""

    def __init__(self, notes: Notes, faults: Faults) -> None:
        self._notes = notes
        self._faults = faults

    @request("health.probe")
    def probe(self, now: datetime) -> None:
        """It answers if it is reached."""

    @request("health.note")
    def note(self, process: str, failing: Sequence[FailingLoop], until: datetime) -> None:
        self._notes[process] = (until, [replace(one, process=process) for one in failing])

    @request("health.noted")
    def noted(self, now: datetime) -> list[FailingLoop]:
        current = [one for until, failing in self._notes.values() if until > now for one in failing]
        return sorted(current, key=lambda one: (one.process, one.loop))

    @request("health.services")
    def services(self, now: datetime) -> list[ServiceNote]:
        return [ServiceNote(process, until) for process, (until, _) in sorted(self._notes.items()) if until > now]
