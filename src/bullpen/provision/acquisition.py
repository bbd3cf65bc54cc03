"""Acquisition: fill every place of an attempt, from the pool if possible, otherwise with a new machine.

    place ──▶ select from the pool ──▶ verified ─────────────────────────────▶ member
                     └─ exhausted ──▶ create a machine ──▶ validate it ───────▶ member

A new machine is valid once its pre-runner script is done and its runner has registered, in this round. All members must
be alive at the same moment: liveness is checked last, for all of them together.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field

from bullpen.concurrency import Arm, gather_or_cancel
from bullpen.config import Settings, Timings
from bullpen.errors import ProvisionFailed
from bullpen.lazy_dataclass import dataclass
from bullpen.model.instance import Instance
from bullpen.model.progress import Tell, WorkPhase, acquiring
from bullpen.model.provision import Origin
from bullpen.model.signal import Kind, Pulse
from bullpen.pool.watcher import PulseVerdict, SignalFailed, Watcher, reaching
from bullpen.ports import Ports
from bullpen.provision.creation import Creation
from bullpen.provision.eviction import Headroom
from bullpen.provision.fleets import Fleets
from bullpen.provision.holdings import Holdings
from bullpen.provision.lanes import LaneBook, LaneStage
from bullpen.provision.outcome import Member, Request
from bullpen.provision.pickup import TicketPickup
from bullpen.provision.record import ProvisionRecord
from bullpen.provision.selection import ClaimWorker

LOG = "Look at agent.log in the directory of the instance"
SILENT = "registered, but its agent sends no heartbeat"


@dataclass(slots=True)
class Acquisition:
    """The places of one attempt. `timings` says for how many seconds it waited for what."""

    ports: Ports
    settings: Settings
    request: Request
    record: ProvisionRecord
    holdings: Holdings
    headroom: Headroom
    want: int
    tell: Tell
    timings: dict[WorkPhase, float]
    by: str
    filled: int = 0
    waiting: Counter[WorkPhase] = field(default_factory=Counter)
    since: dict[WorkPhase, float] = field(default_factory=dict)

    async def members(self, stop: asyncio.Event, arm: Callable[[], Arm]) -> list[Member]:
        """Fill every place. `arm` connects what ends the attempt from outside."""
        watcher = Watcher(self.ports.signals, self.ports.clock, self.settings.timings)
        pickup = TicketPickup(self.ports, self.settings, self.request.needs, self.request.run_id, by=self.by)
        fleets = Fleets(self.ports, self.settings, self.record, self.holdings, self.headroom, self.by)
        creation = Creation(fleets, self.request.allow_partial)
        worker = ClaimWorker(self.ports, self.settings, self.record.stored, pickup, watcher, self.holdings, self.by)
        async with watcher:
            try:
                members: list[Member] = []
                with timed(self.timings, WorkPhase.ACQUIRE):
                    while (open_places := self.want - len(members)) > 0:
                        fills = [self._fill(worker, creation, watcher) for _ in range(open_places)]
                        found = await gather_or_cancel(fills, arm=arm())
                        members += [member for member in found if member is not None]
                        members = await self._living(watcher, worker, members, arm())
                        if None in found:
                            break  # fewer are acceptable, and there are no more
            finally:
                self.holdings.verdicts.update(pickup.verdicts)
                try:
                    await pickup.close()
                finally:
                    await creation.close(stop)
        if not members:
            raise creation.refusal or ProvisionFailed("no instance could be acquired")
        return members

    async def _fill(self, worker: ClaimWorker, creation: Creation, watcher: Watcher) -> Member | None:
        """One place: from the pool, otherwise a new machine; None only if fewer are acceptable."""
        with self._waits_for(WorkPhase.SELECT):
            member = await worker.select()
        if member is None:
            with self._waits_for(WorkPhase.CREATE):
                created = await creation.create()
            if created is None:
                return None
            try:
                with self._waits_for(WorkPhase.REGISTER):
                    await validate(watcher, self.settings.timings, created, self.holdings.lanes)
            except ProvisionFailed as error:
                if not self.request.allow_partial:
                    raise
                await worker.condemn(created, str(error))
                return None
            member = Member(created, Origin.CREATED)
        self.filled += 1
        self._report()
        return member

    async def _living(self, watcher: Watcher, worker: ClaimWorker, members: list[Member], arm: Arm) -> list[Member]:
        """The members that are alive once all are ready. A dead one of the pool is replaced; a dead new machine fails
        the attempt."""
        ids = [member.instance.id for member in members]
        (alive,) = await gather_or_cancel([watcher.signs_of_life(ids)], arm=arm)
        for member in members:
            if member.instance.id not in alive:
                if member.origin is Origin.CREATED and not self.request.allow_partial:
                    raise ProvisionFailed(f"{member.instance.id} {SILENT}", remedy=f"{LOG}.")
                await worker.condemn(member.instance, SILENT)
                self.filled -= 1
        return [member for member in members if member.instance.id in alive]

    @contextmanager
    def _waits_for(self, phase: WorkPhase) -> Iterator[None]:
        """Counted, and timed while at least one place waits for it."""
        self.waiting[phase] += 1
        if self.waiting[phase] == 1:
            self.since[phase] = asyncio.get_running_loop().time()
        self._report()
        try:
            yield
        finally:
            self.waiting[phase] -= 1
            if not self.waiting[phase]:
                waited = asyncio.get_running_loop().time() - self.since[phase]
                self.timings[phase] = self.timings.get(phase, 0.0) + waited

    def _report(self) -> None:
        """Report how many places are filled, and what the others wait for."""
        self.tell(acquiring(self.filled, self.want, self.waiting))


async def validate(watcher: Watcher, timings: Timings, created: Instance, lanes: LaneBook) -> None:
    """Return once a new machine has registered. A failure signal ends the wait."""
    reached = reaching(Kind.REG_OK, created.round)

    def judge(pulse: Pulse) -> PulseVerdict | None:
        if pulse.signal is not None and pulse.signal.proves(Kind.OK, created.round):
            lanes.reach(created.id, LaneStage.BOOTED)
        return reached(pulse)

    match await watcher.first({created.id: judge}, timings.validation):
        case None:
            raise ProvisionFailed(
                f"{created.id} did not get ready within {timings.validation:g} s",
                remedy=f"{LOG} while it lives, and at timings.validation if its pre-runner script takes long.",
            )
        case (_, SignalFailed(reason=reason)):
            raise ProvisionFailed(
                f"{created.id} failed: {reason}",
                remedy="Fix the step that the signal names: the boot, the pre-runner script or the registration.",
            )
    lanes.reach(created.id, LaneStage.REGISTERED)


@contextmanager
def timed(timings: dict[WorkPhase, float], phase: WorkPhase) -> Iterator[None]:
    """Note how long a phase took."""
    began = asyncio.get_running_loop().time()
    try:
        yield
    finally:
        timings[phase] = asyncio.get_running_loop().time() - began
