"""One attempt to serve a request, from its open record to its settlement.

Of the provisions of one run and class, a single one acquires instances at a time. Counting what the run has and then
opening a record is a race, so an attempt checks for rivals again once its record is open. Of two attempts, the one that
opens later always sees the other. The one with the greater id withdraws. The one with the lesser id waits, because the
other either withdraws as well or, if it checked before this one opened, is acquiring. (A lagging index can hide two
attempts from each other if both open within its lag.)
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import field
from datetime import datetime
from functools import partial

from bullpen.concurrency import Arm, Halt, gather_or_cancel, on_event
from bullpen.config import Settings
from bullpen.errors import BullpenError, Conflict, Interrupted, LimitReached, ProvisionFailed, Unavailable
from bullpen.lazy_dataclass import dataclass
from bullpen.model import provision as provisions
from bullpen.model.progress import ProgressReport, Tell, WorkPhase
from bullpen.model.provision import Origin
from bullpen.model.times import later
from bullpen.ports import Clock, Ports
from bullpen.provision.acquisition import Acquisition, timed
from bullpen.provision.cap_queue import CapQueue, place_until
from bullpen.provision.eviction import Headroom
from bullpen.provision.existing_members import ExistingMembers
from bullpen.provision.holdings import Holdings
from bullpen.provision.outcome import Member, Outcome, Request
from bullpen.provision.record import ProvisionRecord, process_of
from bullpen.provision.settlement import Settlement


class Withdrawn(ProvisionFailed):
    """This attempt is not needed, or not now. It acquired nothing."""


@dataclass(slots=True)
class ProvisionAttempt:
    ports: Ports
    settings: Settings
    request: Request
    existing: ExistingMembers
    want: int
    tell: Tell
    record: ProvisionRecord
    holdings: Holdings
    by: str
    arrived: datetime
    """When its call began; if it waited at a cap, when it joined that queue."""
    replaces: bool
    """Whether it replaces members that an earlier attempt lost. Only provisions that came before the call are in front
    of it."""
    timings: dict[WorkPhase, float] = field(default_factory=dict)
    settlement: Settlement = field(init=False)

    @classmethod
    async def open(
        cls,
        ports: Ports,
        settings: Settings,
        request: Request,
        existing: ExistingMembers,
        want: int,
        tell: Tell,
        first: "ProvisionAttempt | None" = None,
    ) -> "ProvisionAttempt":
        """Write the request down before anything is acquired for it. An attempt that replaces members of the `first`
        one has the same deadline, and the same time of arrival."""
        now = ports.clock.now()
        id = f"p-{ports.chance.token()}"
        deadline = first.record.stored.deadline if first else later(now, settings.timings.provision)
        asked = provisions.absent(id, request.run_id, want, request.needs, deadline, request.max_runtime)
        by = process_of(id)
        (opened,) = await ports.records.apply(provisions.open_(asked, provisions.Opened(at=now, by=by)))
        record, came = ProvisionRecord(ports, opened), first.arrived if first else now
        return cls(ports, settings, request, existing, want, tell, record, Holdings(ports), by, came, first is not None)

    async def run(self, stop: asyncio.Event) -> Outcome | None:
        """The outcome, with the members that run; None if it withdrew: then the run's needs are counted again."""
        settlement = Settlement(self.ports, self.settings, self.record, self.holdings, stop, self.by)
        self.settlement = settlement
        try:
            await gather_or_cancel([self._take_turn()], arm=self._halts(stop))
            members = await self._acquire_in_turn(settlement, stop)
            if stop.is_set():
                raise stopped()
            with timed(self.timings, WorkPhase.SETTLE):
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
        """True if it was committed, and fewer members run than it asked for."""
        return any(id not in self.settlement.kept for id in self.settlement.lost)

    async def _roll_back(self, settlement: Settlement, failure: BullpenError) -> Outcome:
        self.tell(ProgressReport(WorkPhase.SETTLE, "giving everything back"))
        patience = self.settings.timings.settle if isinstance(failure, Interrupted) else None
        with timed(self.timings, WorkPhase.SETTLE):
            try:
                async with asyncio.timeout(patience):
                    if await settlement.roll_back(str(failure)):
                        return self._outcome([], failure)
                    return self._outcome(await settlement.finish_commit(self._decided()), kept=settlement.kept)
            except TimeoutError:
                # Asked to stop while the store is slow: what is not written yet is found by its deadline.
                return self._outcome([], failure)
            except Exception as error:
                created = [id for id, held in self.holdings.held.items() if held.origin is Origin.CREATED]
                await settlement.dump(f"roll back failed: {error}")
                running = f"; these may still run: {', '.join(created)}" if created else ""
                failure.args = (f"{failure}; and not everything could be given back: {error}{running}",)
                failure.remedy = getattr(error, "remedy", "") or failure.remedy
                raise failure from error

    async def _take_turn(self) -> None:
        """Wait until only this attempt acquires instances for the run; then count again what is missing."""
        # The record is open: a later release finds it, and an earlier one is found here.
        await self.existing.check_not_released()
        own = self.record.stored.id
        rivals, outdated = await self.existing.rivals_of(own)
        while rivals:
            if rivals[0].id < own:
                raise Withdrawn(f"{rivals[0].id} provisions the same run")
            await self.existing.wait_for(rivals[0])
            rivals, outdated = await self.existing.rivals_of(own)
        if outdated:
            await self._count_again()

    async def _count_again(self) -> None:
        self.want = await self.existing.still_missing()
        if self.want <= 0:
            raise Withdrawn("the run already has every runner it requested")

    async def _acquire_in_turn(self, settlement: Settlement, stop: asyncio.Event) -> list[Member]:
        """Acquire when it is this attempt's turn at the caps. If others were faster, give everything back and wait
        again: a waiting provision holds nothing."""
        headroom = Headroom(self.ports, self.settings, evicts=True, by=self.by, tell=self.tell)
        headroom.since = self.arrived if self.replaces else None
        queue = CapQueue(
            self.ports,
            self.settings,
            self.request,
            self.record,
            headroom,
            self.tell,
            self.by,
            heeds_pauses=not self.replaces,
        )
        while True:
            await gather_or_cancel([queue.admitted(self.want)], arm=self._halts(stop, queue.ends_by))
            self.arrived = headroom.since or self.arrived
            if self.record.stored.is_waiting:
                # It may have waited for hours: an instance that served the run at the first count may be dead by now.
                await gather_or_cancel([self._count_again()], arm=self._halts(stop))
            try:
                return await self._acquisition(headroom).members(stop, partial(self._halts, stop))
            except LimitReached as refusal:
                if not queue.is_open:
                    raise
                await settlement.hand_back(str(refusal))

    def _acquisition(self, headroom: Headroom) -> Acquisition:
        return Acquisition(
            self.ports,
            self.settings,
            self.request,
            self.record,
            self.holdings,
            headroom,
            self.want,
            self.tell,
            self.timings,
            self.by,
        )

    def _halts(self, stop: asyncio.Event, deadline: datetime | None = None) -> Arm:
        """What ends the attempt from outside: a stop, its own deadline, and a decision by another process."""
        overdue = ProvisionFailed(
            f"{self.record.stored.id} was not met within {self.settings.timings.provision:g} s",
            remedy="See what is awaited above; timings.provision sets the limit.",
        )
        from_outside = halts(stop, self.ports.clock, deadline or self.record.stored.deadline, overdue)

        def arm(halt: Halt) -> Callable[[], None]:
            disarm_both = from_outside(halt)
            renewals = asyncio.get_running_loop().create_task(self._show_life(halt))

            def disarm() -> None:
                disarm_both()
                renewals.cancel()

            return disarm

        return arm

    async def _show_life(self, halt: Halt) -> None:
        """Renew the record now and then. Other processes see that this one is alive, and this one sees whether a
        release has aborted it."""
        while True:
            await asyncio.sleep(self.settings.timings.takeover)
            now = self.ports.clock.now()
            renewed = provisions.Renewed(at=now, by=self.by, until=place_until(self.settings, now))
            try:
                await self.record.write(provisions.renew, renewed)
            except ProvisionFailed as decided:
                halt(decided)
                return
            except (Unavailable, Conflict):
                continue  # the writes that matter show whether the store answers

    def _decided(self) -> list[Member]:
        """The members of the attempt's own commit, whose answer was lost."""
        held = self.holdings.held
        return [held[id] for id in self.record.stored.members if id in held]

    def _outcome(
        self, members: list[Member], failure: BullpenError | None = None, *, kept: Sequence[str] = ()
    ) -> Outcome:
        outcome = Outcome(
            run_id=self.request.run_id,
            provision_id=self.record.stored.id,
            requested=self.request.count,
            members=tuple(member for member in members if member.instance.id not in kept),
            kept=tuple(member for member in members if member.instance.id in kept),
            discarded=tuple(self.holdings.discarded),
            collisions=self.holdings.collisions,
            timings=dict(self.timings),
        )
        return outcome.failed(failure) if failure else outcome


def halts(stop: asyncio.Event, clock: Clock, deadline: datetime, overdue: ProvisionFailed) -> Arm:
    """For `gather_or_cancel`: halt when asked to stop, and with `overdue` at the deadline."""

    def arm(halt: Halt) -> Callable[[], None]:
        remaining = (deadline - clock.now()).total_seconds()
        timer = asyncio.get_running_loop().call_later(max(remaining, 0), halt, overdue)
        call_off = on_event(stop, lambda: halt(stopped()))

        def disarm() -> None:
            timer.cancel()
            call_off()

        return disarm

    return arm


def stopped() -> Interrupted:
    return Interrupted(
        "stopped before the commit",
        remedy="Nothing is lost: what was acquired is given back or written down as owed. Run it again.",
    )
