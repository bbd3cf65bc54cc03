"""One attempt to serve a request, from its open record to its settlement.

Of the provisions of one run and class a single one acquires anything at a time. To count what the run has and then to
open a record is a race, so whoever has opened looks for rivals once more. Of two the later to open always sees the
other. The greater id withdraws; the lesser one waits, because the other either withdraws as well or, if it looked
before we opened, is at work. (An index that lags may hide two from each other that open within its lag.)
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from bullpen.concurrency import Halt, settle
from bullpen.config import Settings
from bullpen.errors import BullpenError, Conflict, Interrupted, LimitReached, ProvisionFailed, Unavailable
from bullpen.model import provision as provisions
from bullpen.model.progress import ProgressReport, Tell, WorkPhase, acquiring
from bullpen.pool import lifecycle
from bullpen.pool.watcher import Watcher
from bullpen.ports import Ports
from bullpen.provision.cap_queue import CapQueue, place_until
from bullpen.provision.creation import Creation
from bullpen.provision.eviction import Room
from bullpen.provision.existing_members import Presence
from bullpen.provision.halts import Arm, halts, stopped
from bullpen.provision.holdings import Holdings
from bullpen.provision.outcome import Member, Origin, Outcome, Request
from bullpen.provision.pickup import Pickup
from bullpen.provision.record import Book
from bullpen.provision.selection import ClaimWorker
from bullpen.provision.settlement import Settlement
from bullpen.provision.validation import validate


class Withdrawn(ProvisionFailed):
    """There is no need for this attempt, or not now: nothing was acquired for it."""


@dataclass(slots=True)
class Attempt:
    ports: Ports
    settings: Settings
    request: Request
    presence: Presence
    want: int
    tell: Tell
    book: Book
    holdings: Holdings
    by: str
    arrived: datetime
    """When its call came, to the queue of a cap if it waited there."""
    replaces: bool
    """Whether it replaces what an attempt before it has lost: none that came after the call is in front of it."""
    timings: dict[WorkPhase, float] = field(default_factory=dict)
    since: dict[WorkPhase, float] = field(default_factory=dict)
    filled: int = 0
    waiting: Counter[WorkPhase] = field(default_factory=Counter)
    settlement: Settlement = field(init=False)

    @classmethod
    async def open(
        cls,
        ports: Ports,
        settings: Settings,
        request: Request,
        presence: Presence,
        want: int,
        tell: Tell,
        first: "Attempt | None" = None,
    ) -> "Attempt":
        """Write the request down before anything is acquired for it. One that replaces what the `first` attempt has
        lost ends by the same deadline, and came at the same time."""
        now = ports.clock.now()
        id = f"p-{ports.chance.token()}"
        deadline = first.book.record.deadline if first else lifecycle.later(now, settings.timings.provision)
        asked = provisions.absent(id, request.run_id, want, request.needs, deadline, request.max_runtime)
        by = f"provision {id}"
        (record,) = await ports.records.apply(provisions.open_(asked, provisions.Opened(at=now, by=by)))
        book, came = Book(ports, record), first.arrived if first else now
        return cls(ports, settings, request, presence, want, tell, book, Holdings(ports), by, came, first is not None)

    async def run(self, stop: asyncio.Event) -> Outcome | None:
        """The outcome, with the members that run; None if it withdrew, and the run's needs are to be counted again."""
        self.settlement = settlement = Settlement(self.ports, self.settings, self.book, self.holdings, stop, by=self.by)
        try:
            await settle([self._take_turn()], arm=self._halts(stop))
            members = await self._acquire_in_turn(settlement, stop)
            if stop.is_set():
                raise stopped()
            with self._timed(WorkPhase.SETTLE):
                return self._outcome(await settlement.commit(members), kept=settlement.kept)
        except Withdrawn as reason:
            await settlement.roll_back(str(reason))
            return None
        except BullpenError as failure:
            return await self._roll_back(settlement, failure)
        except Exception as error:
            await settlement.dump(f"unexpected {type(error).__name__}: {error}")
            raise

    @property
    def has_lost(self) -> bool:
        """Whether fewer than it asked for run, though it was committed."""
        return any(id not in self.settlement.kept for id in self.settlement.lost)

    async def _roll_back(self, settlement: Settlement, failure: BullpenError) -> Outcome:
        self.tell(ProgressReport(WorkPhase.SETTLE, "giving everything back"))
        patience = self.settings.timings.settle if isinstance(failure, Interrupted) else None
        with self._timed(WorkPhase.SETTLE):
            try:
                async with asyncio.timeout(patience):
                    if await settlement.roll_back(str(failure)):
                        return self._outcome([], failure)
                    return self._outcome(await settlement.finish_commit(self._decided()), kept=settlement.kept)
            except TimeoutError:
                # Asked to stop, and the store is slow: what is not written yet is found by its deadline.
                return self._outcome([], failure)
            except Exception as error:
                created = [id for id, held in self.holdings.held.items() if held.origin is Origin.CREATED]
                await settlement.dump(f"roll back failed: {error}")
                running = f"; these may still run: {', '.join(created)}" if created else ""
                failure.args = (f"{failure}; and not everything could be given back: {error}{running}",)
                failure.remedy = getattr(error, "remedy", "") or failure.remedy
                raise failure from error

    async def _take_turn(self) -> None:
        """Wait until we alone acquire instances for the run, and know how many are missing then."""
        # Our record is open by now: a release that comes later finds it, one that came before is found here.
        await self.presence.check_not_released()
        own = self.book.record.id
        rivals, outdated = await self.presence.rivals_of(own)
        while rivals:
            if rivals[0].id < own:
                raise Withdrawn(f"{rivals[0].id} provisions the same run")
            await self.presence.wait_for(rivals[0])
            rivals, outdated = await self.presence.rivals_of(own)
        if outdated:
            await self._count_again()

    async def _count_again(self) -> None:
        self.want = await self.presence.still_missing()
        if self.want <= 0:
            raise Withdrawn("the run has all it asked for")

    async def _acquire_in_turn(self, settlement: Settlement, stop: asyncio.Event) -> list[Member]:
        """Acquire when it is our turn at the caps. If others were faster all the same, give everything back and wait
        again: a waiting provision holds nothing."""
        room = Room(self.ports, self.settings, evicts=True, by=self.by, tell=self.tell)
        room.since = self.arrived if self.replaces else None
        queue = CapQueue(self.ports, self.settings, self.request, self.book, room, self.tell, by=self.by)
        while True:
            await settle([queue.admitted(self.want)], arm=self._halts(stop, queue.ends_by))
            self.arrived = room.since or self.arrived
            if self.book.record.is_waiting:
                # It may have waited for hours: what served the run when we counted may be dead by now.
                await settle([self._count_again()], arm=self._halts(stop))
            try:
                return await self._acquire(room, stop)
            except LimitReached as refusal:
                if not queue.is_open:
                    raise
                await settlement.hand_back(str(refusal))
                self.filled = 0

    async def _acquire(self, room: Room, stop: asyncio.Event) -> list[Member]:
        """Fill every place, verified and alive at the same moment."""
        watcher = Watcher(self.ports.signals, self.ports.clock, self.settings.timings)
        pickup = Pickup(self.ports, self.settings, self.request.needs, self.request.run_id, by=self.by)
        partial = self.request.allow_partial
        creation = Creation(
            self.ports, self.settings, self.book, self.holdings, room, allow_partial=partial, by=self.by
        )
        worker = ClaimWorker(self.ports, self.settings, self.book.record, pickup, watcher, self.holdings, self.by)
        async with watcher:
            try:
                members: list[Member] = []
                with self._timed(WorkPhase.ACQUIRE):
                    while (open_places := self.want - len(members)) > 0:
                        fills = [self._fill(worker, creation, watcher) for _ in range(open_places)]
                        found = await settle(fills, arm=self._halts(stop))
                        members += [member for member in found if member is not None]
                        members = await self._living(watcher, worker, members, stop)
                        if None in found:
                            break  # fewer are acceptable, and there are no more
            finally:
                try:
                    await pickup.close()
                finally:
                    await creation.close(stop)
        if not members:
            raise creation.refusal or ProvisionFailed(f"not one of {self.want} could be had")
        return members

    async def _fill(self, worker: ClaimWorker, creation: Creation, watcher: Watcher) -> Member | None:
        """One place: from the pool, else a new machine; None only if fewer are acceptable."""
        with self._waits_for(WorkPhase.SELECT):
            member = await worker.select()
        if member is None:
            with self._waits_for(WorkPhase.CREATE):
                created = await creation.create()
            if created is None:
                return None
            try:
                with self._waits_for(WorkPhase.REGISTER):
                    await validate(watcher, self.settings.timings, created)
            except ProvisionFailed as error:
                if not self.request.allow_partial:
                    raise
                await worker.condemn(created, str(error))
                return None
            member = Member(created, Origin.CREATED)
        self.filled += 1
        self._report()
        return member

    async def _living(
        self, watcher: Watcher, worker: ClaimWorker, members: list[Member], stop: asyncio.Event
    ) -> list[Member]:
        """Those that are alive now that all are ready; a dead one of the pool is replaced, a dead new one fails us."""
        ids = [member.instance.id for member in members]
        (alive,) = await settle([watcher.signs_of_life(ids)], arm=self._halts(stop))
        for member in members:
            if member.instance.id not in alive:
                reason = "registered, but shows no sign of life"
                if member.origin is Origin.CREATED and not self.request.allow_partial:
                    raise ProvisionFailed(f"{member.instance.id} {reason}", remedy="look at the agent's log")
                await worker.condemn(member.instance, reason)
                self.filled -= 1
        return [member for member in members if member.instance.id in alive]

    def _halts(self, stop: asyncio.Event, deadline: datetime | None = None) -> Arm:
        """What ends the attempt from outside: a stop, its own deadline, and a decision by another process."""
        overdue = ProvisionFailed(
            f"{self.book.record.id} was not met within {self.settings.timings.provision:g} s",
            remedy="see what is awaited above; timings.provision sets the limit",
        )
        from_outside = halts(stop, self.ports.clock, deadline or self.book.record.deadline, overdue)

        def arm(halt: Halt) -> Callable[[], None]:
            disarm_both = from_outside(halt)
            look_out = asyncio.get_running_loop().create_task(self._show_life(halt))

            def disarm() -> None:
                disarm_both()
                look_out.cancel()

            return disarm

        return arm

    async def _show_life(self, halt: Halt) -> None:
        """Move our record now and then: others see that we live, and we see whether a release has aborted it."""
        while True:
            await asyncio.sleep(self.settings.timings.takeover)
            now = self.ports.clock.now()
            renewed = provisions.Renewed(at=now, by=self.by, until=place_until(self.settings, now))
            try:
                await self.book.write(provisions.renew, renewed)
            except ProvisionFailed as decided:
                halt(decided)
                return
            except (Unavailable, Conflict):
                continue  # the writes that matter will tell

    @contextmanager
    def _waits_for(self, phase: WorkPhase) -> Iterator[None]:
        """Counted, and timed while anybody waits for it."""
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
        """Say who waits for what."""
        self.tell(acquiring(self.filled, self.want, self.waiting))

    def _decided(self) -> list[Member]:
        """The members of our own commit, whose answer was lost."""
        held = self.holdings.held
        return [Member(held[id].instance, held[id].origin) for id in self.book.record.members if id in held]

    @contextmanager
    def _timed(self, phase: WorkPhase) -> Iterator[None]:
        began = asyncio.get_running_loop().time()
        try:
            yield
        finally:
            self.timings[phase] = asyncio.get_running_loop().time() - began

    def _outcome(
        self, members: list[Member], failure: BullpenError | None = None, *, kept: Sequence[str] = ()
    ) -> Outcome:
        outcome = Outcome(
            run_id=self.request.run_id,
            provision_id=self.book.record.id,
            requested=self.request.count,
            members=tuple(member for member in members if member.instance.id not in kept),
            kept=tuple(member for member in members if member.instance.id in kept),
            discarded=tuple(self.holdings.discarded),
            collisions=self.holdings.collisions,
            timings=dict(self.timings),
        )
        return outcome.failed(failure) if failure else outcome
