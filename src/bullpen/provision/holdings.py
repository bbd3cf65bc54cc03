"""Holdings: everything that one provision has acquired or tried to acquire, so that settlement accounts for all of
it."""

import asyncio
from collections import Counter
from typing import Any

from bullpen.errors import Conflict
from bullpen.model.instance import Instance, InstanceFate
from bullpen.model.provision import Origin
from bullpen.model.ticket import Verdict
from bullpen.model.transition import Change
from bullpen.ports import Ports
from bullpen.provision.lanes import LaneBook
from bullpen.provision.outcome import Discarded, Member


class Holdings:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self.held: dict[str, Member] = {}
        self.losers: dict[str, tuple[Instance, Origin, str]] = {}  # given back, deregistration awaited
        self.discarded: list[Discarded] = []
        self.refused_versions: dict[str, str] = {}  # of runners that could not register for that reason, by instance
        self.collisions = 0
        self.lanes = LaneBook()
        self.verdicts = Counter[Verdict]()  # on tickets
        self.tried: dict[str, None] = {}  # every instance of which a claim was sent, whatever became of it
        self._claims: dict[str, tuple[Change[Instance], asyncio.Task[list[Any]]]] = {}

    async def claim(self, change: Change[Instance]) -> Instance | Conflict:
        """Write a claim and hold the instance; the Conflict if another run was first, or the ticket was stale.

        The write goes on if the caller is cancelled: `resolve_claims` finds out what became of it.
        """
        self.tried[change.before.id] = None
        task = asyncio.get_running_loop().create_task(self._ports.records.apply(change))
        self._claims[change.before.id] = (change, task)
        try:
            (claimed,) = await asyncio.shield(task)
        except Conflict as conflict:
            del self._claims[change.before.id]
            self.collisions += 1
            return conflict
        del self._claims[change.before.id]
        self.hold(claimed, Origin.SELECTED)
        return claimed  # type: ignore[no-any-return]

    def hold(self, instance: Instance, origin: Origin) -> None:
        self.held[instance.id] = Member(instance, origin)

    def discard(self, instance_id: str, reason: str, outcome: InstanceFate) -> None:
        origin = self.held.pop(instance_id).origin
        self.discarded.append(Discarded(instance_id, origin, reason, outcome))

    async def resolve_claims(self, patience: float) -> list[Change[Instance]]:
        """Wait for claims in flight, and hold those that landed; returns those whose outcome stays unknown."""
        unknown = []
        until = asyncio.get_running_loop().time() + patience
        for id, (change, task) in list(self._claims.items()):
            try:
                async with asyncio.timeout_at(until):
                    (claimed,) = await asyncio.shield(task)
            except Conflict:
                pass
            except Exception:  # no answer in time, or none at all: it may have landed, or may still land
                task.cancel()
                unknown.append(change)
            else:
                self.hold(claimed, Origin.SELECTED)
            del self._claims[id]
        return unknown
