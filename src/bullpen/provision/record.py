"""The provision's own record, changed by one process and read by all."""

import asyncio
from typing import Any

from bullpen.errors import Conflict, InvalidTransition, ProvisionFailed
from bullpen.model import provision as provisions
from bullpen.model.provision import Provision
from bullpen.model.transition import Change, Event, Transition
from bullpen.ports import Ports


class Book:
    """Holds the record as last seen. Others may abort it (release, or refresh past its deadline): then we fail."""

    def __init__(self, ports: Ports, record: Provision) -> None:
        self._ports = ports
        self.record = record
        self._turn = asyncio.Lock()

    async def write(self, step: Transition[Provision, Any], event: Event, *beside: Change[Any]) -> list[Any]:
        """Land a step of the record, together with other changes; returns what those became."""
        async with self._turn:
            try:
                try:
                    landed = await self._ports.records.apply(step(self.record, event), *beside)
                except Conflict as conflict:
                    self._catch_up(conflict)
                    landed = await self._ports.records.apply(step(self.record, event), *beside)
            except InvalidTransition as error:
                raise ProvisionFailed(f"{self.record.id} is {self.record.state} already") from error
            self.record = landed[0]
            return landed[1:]

    def _catch_up(self, conflict: Conflict) -> None:
        """Only we write an open record: one that moved on shows a write of ours whose answer was lost."""
        found = conflict.found
        if not isinstance(found, Provision) or found == self.record:
            raise conflict
        self.record = found
        if found.state is not provisions.OPEN:
            raise ProvisionFailed(
                f"{found.id} was {found.state} by somebody else: {found.reason}",
                remedy="a release of the same run, or its deadline, ended it; provision again",
            ) from conflict
