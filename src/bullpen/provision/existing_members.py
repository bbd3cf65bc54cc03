"""Existing members: the instances that serve the run already, and other provisions that acquire more for it now.

A second provision of a run tops up to the requested count. An instance counts if it fits the request and its agent is
alive. A silent one is ended, unless the request spares it. An instance is left as it is if it does not fit, if its
machine is about to be interrupted, or if it was released and only finishes its job.
"""

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime

from bullpen.config import Settings
from bullpen.errors import ConfigError, ProvisionFailed
from bullpen.liveness.interruption import leaving_instances
from bullpen.model.instance import RUNNING, Instance
from bullpen.model.progress import ProgressReport, Tell, WorkPhase
from bullpen.model.provision import COMMITTED, OPEN, Origin, Provision, State
from bullpen.model.ticket import Verdict, judge
from bullpen.pool import clock_skew, debts, lifecycle
from bullpen.pool.watcher import Watcher
from bullpen.ports import Ports
from bullpen.provision.outcome import Discarded, Member, Request

BY = "provision"
SILENT = "serves the run, but its agent sends no heartbeat"
AT_ANY_TIME = datetime.min.replace(tzinfo=UTC)
"""How long an instance may still run does not decide whether it fits."""


class ExistingMembers:
    def __init__(self, ports: Ports, settings: Settings, request: Request, tell: Tell) -> None:
        self._ports = ports
        self._settings = settings
        self._request = request
        self._class = settings.resource_class(request.needs.resource_class)
        self._tell = tell
        self._decisions: dict[str, State] = {}  # of the run, at the last count
        self._awaited = ("", 0, 0.0)  # a rival, its version, and since when it has this version
        self._own: dict[str, None] = {}  # provisions that this call has committed
        self._origins: dict[str, Origin] = {}  # of the members that they gave the run
        self.members: list[Member] = []
        self.discarded: list[Discarded] = []

    @property
    def held(self) -> tuple[Member, ...]:
        """Members that served the run before this call."""
        return tuple(one for one in self.members if one.instance.provision_id not in self._own)

    def gained(self, provision_id: str, members: Iterable[Member]) -> None:
        """Note the members that an attempt of this call has given the run."""
        self._own[provision_id] = None
        self._origins |= {member.instance.id: member.origin for member in members}

    async def still_serve(self) -> bool:
        """True if all counted instances still run."""
        ids = [member.instance.id for member in self.members]
        found = await self._ports.records.instances(ids) if ids else {}
        run_id = self._request.run_id
        return all(id in found and found[id].state is RUNNING and found[id].run_id == run_id for id in ids)

    async def check_not_released(self) -> None:
        """Raise ProvisionFailed if the members that this call has given the run were released in between."""
        for id in self._own:
            record = await self._ports.records.provision(id)
            if record is None or record.is_over or not record.members:
                raise ProvisionFailed(
                    f"{id} was released while its members were committed",
                    remedy="Another process released the run; provision again if it still needs runners.",
                )

    async def missing(self) -> int:
        """Count once no other process provisions the run; returns how many more are needed."""
        while rivals := self._rivals(found := await self._provisions()):
            await self.wait_for(rivals[0])
        return await self._count(found)

    async def still_missing(self) -> int:
        """Count again, also while other processes provision the run."""
        return await self._count(await self._provisions())

    async def rivals_of(self, own: str) -> tuple[list[Provision], bool]:
        """Other open provisions of the run and class, by id; and whether one was decided or opened since the last
        count, so that it may be wrong."""
        others = [one for one in await self._provisions() if one.id != own]
        return self._rivals(others), _decisions(others) != self._decisions

    async def wait_for(self, rival: Provision) -> None:
        """Wait a little for a rival. One whose record stands still, or that is overdue, is dead: it is aborted."""
        now = asyncio.get_running_loop().time()
        if self._awaited[:2] != (rival.id, rival.version):
            if self._awaited[0] != rival.id:
                self._tell(ProgressReport(WorkPhase.QUEUE, f"waiting for {rival.id}, which provisions the same run"))
            self._awaited = (rival.id, rival.version, now)
        stands_still = now - self._awaited[2] >= self._settings.timings.alive
        overdue = rival.deadline <= self._ports.clock.now()
        if stands_still or (overdue and not await clock_skew.doubt(self._ports, self._settings)):
            why = "its process shows no sign of life" if stands_still else "its deadline passed"
            await debts.give_up(self._ports, self._settings, rival, why, by=BY)
        await asyncio.sleep(self._settings.timings.tick_longest)

    async def _count(self, found: list[Provision]) -> int:
        """Count the instances that serve the run, and end the silent ones."""
        self._decisions = _decisions(found)
        for earlier in found:
            if earlier.state is COMMITTED and earlier.owes is not None:
                # Decided and not carried out: its process may be dead, and its members count.
                await debts.settle_provision(self._ports, self._settings, earlier, by=BY)
        running = await self._ports.records.run_instances(self._request.run_id)
        over = {earlier.id for earlier in found if earlier.is_over}
        serving = [
            one
            for one in running
            # One without a provision serves a scale set.
            if one.state is RUNNING and one.provision_id and one.provision_id not in over and self._fits(one)
        ]
        if serving:
            leaving = await leaving_instances(self._ports)
            serving = [one for one in serving if one.id not in leaving]
        alive = await self._alive(serving) if serving else set()
        silent = [one for one in serving if one.id not in alive]
        if silent and not self._request.spares_silent and not self._settings.on_github:  # GitHub may see it online
            fates = await lifecycle.expire_and_terminate(self._ports, self._settings, silent, SILENT, by=BY)
            self.discarded += [Discarded(one.id, Origin.SELECTED, SILENT, fates[one.id]) for one in silent]
        living = [Member(one, self._origins.get(one.id, Origin.SELECTED)) for one in serving if one.id in alive]
        self.members = living[: self._request.count]
        return self._request.count - len(self.members)

    async def _provisions(self) -> list[Provision]:
        """The run's provisions that are not closed. Raise ConfigError if they serve a run of another repository."""
        found = await self._ports.records.run_provisions(self._request.run_id)
        check_owner(self._request, found)
        return found

    def _rivals(self, found: list[Provision]) -> list[Provision]:
        name = self._request.needs.resource_class
        at_work = [one for one in found if one.state is OPEN and one.needs.resource_class == name]
        return sorted(at_work, key=lambda one: one.id)

    def _fits(self, one: Instance) -> bool:
        needs = self._request.needs
        return judge(one.ticket(), needs, self._class.cpu, self._class.mem, AT_ANY_TIME) is Verdict.TAKE

    async def _alive(self, serving: list[Instance]) -> set[str]:
        watcher = Watcher(self._ports.signals, self._ports.clock, self._settings.timings)
        return await watcher.signs_of_life([one.id for one in serving])


def check_owner(request: Request, found: Iterable[Provision]) -> None:
    """Raise ConfigError if these provisions of the run serve a run of another repository."""
    own = request.needs.repository
    owners = [one.needs.repository for one in found if one.needs.repository]
    if other := next((owner for owner in owners if own and owner.lower() != own.lower()), ""):
        raise ConfigError(
            f"label {request.run_id} is taken by {other}",
            remedy="Its runners serve that repository only: release them, or check the run's id and repository.",
        )


def _decisions(found: list[Provision]) -> dict[str, State]:
    return {one.id: one.state for one in found}
