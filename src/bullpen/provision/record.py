"""The record of a provision: one process writes it, all read it."""

import asyncio
from typing import Any

from bullpen.errors import Conflict, InvalidTransition, ProvisionFailed
from bullpen.model import provision as provisions
from bullpen.model.provision import Provision
from bullpen.model.transition import Change, Event, Transition
from bullpen.ports import Ports


def process_of(provision_id: str) -> str:
    """What stories call the process that serves a provision."""
    return f"provision {provision_id}"


class ProvisionRecord:
    """`stored` is the provision as last read or written. Another process may abort it (release, or refresh past its
    deadline): then the provision fails."""

    def __init__(self, ports: Ports, record: Provision) -> None:
        self._ports = ports
        self.stored = record
        self._turn = asyncio.Lock()

    async def write(self, step: Transition[Provision, Any], event: Event, *beside: Change[Any]) -> list[Any]:
        """Write a step of the record together with other changes; returns the records of those."""
        async with self._turn:
            try:
                try:
                    landed = await self._ports.records.apply(step(self.stored, event), *beside)
                except Conflict as conflict:
                    self._catch_up(conflict)
                    landed = await self._ports.records.apply(step(self.stored, event), *beside)
            except InvalidTransition as error:
                raise ProvisionFailed(f"{self.stored.id} is already {self.stored.state}") from error
            self.stored = landed[0]
            return landed[1:]

    def _catch_up(self, conflict: Conflict) -> None:
        """Only this process writes an open record: one that moved on shows a write whose answer was lost."""
        found = conflict.found
        if not isinstance(found, Provision) or found == self.stored:
            raise conflict
        self.stored = found
        if found.state is not provisions.OPEN:
            raise ProvisionFailed(
                f"{found.id} was {found.state} by another process: {found.reason}",
                remedy="A release of the same run, or its deadline, ended it; provision again.",
            ) from conflict
