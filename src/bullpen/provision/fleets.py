"""Fleets: request one, and register the machines that it launched before anything else.

A fleet's token is stored before its call, and every machine is registered in one write with the fleet's answer. So if
this process dies, each machine has a record, or carries a tag whose provision says what to do with it.
"""

import asyncio
from contextlib import suppress
from dataclasses import field

from bullpen.config import Settings
from bullpen.errors import (
    BullpenError,
    ConfigError,
    InsufficientCapacity,
    PermissionDenied,
    Refused,
    Throttled,
    Unavailable,
)
from bullpen.lazy_dataclass import dataclass
from bullpen.model import instance as instances
from bullpen.model import provision as provisions
from bullpen.model.fleet import Cause, FleetAnswer, FleetPlan, LaunchedMachine, decisive, shortfall
from bullpen.model.instance import Instance
from bullpen.model.provision import Origin
from bullpen.model.ticket import UsageClass
from bullpen.model.times import later
from bullpen.model.transition import Change
from bullpen.ports import TOGETHER_LIMIT, Ports
from bullpen.provision.eviction import Headroom
from bullpen.provision.holdings import Holdings
from bullpen.provision.lanes import LaneStage
from bullpen.provision.record import ProvisionRecord

FLEET_LIMIT = TOGETHER_LIMIT - 1
"""Machines of one fleet: with the provision's own change they still land together."""

ASKED = 4
"""How often one fleet is requested, with the same token, while no answer comes."""
PAUSE = 1.0
LONGEST_PAUSE = 16.0
"""Seconds before the first repeat and before the last; each pause is twice the one before, less a random part."""


@dataclass(frozen=True, slots=True)
class Lack:
    """Why a fleet launched fewer than asked, and the error to raise if nothing more is tried."""

    cause: Cause
    error: BullpenError


@dataclass(slots=True)
class Fleets:
    """The fleets of one provision. `abandoned` is set when no place waits for machines any more."""

    ports: Ports
    settings: Settings
    record: ProvisionRecord
    holdings: Holdings
    headroom: Headroom
    by: str
    abandoned: asyncio.Event = field(default_factory=asyncio.Event)

    async def launch(
        self, count: int, usage_class: UsageClass, to_come: int, *, allow_partial: bool
    ) -> tuple[list[Instance], Lack | None]:
        """Request one fleet: the registered instances, and why there are fewer than `count` if there are.

        Raise LimitReached if the caps leave no room for all of it; with `allow_partial`, for none of it.
        """
        limited: Lack | None = None
        while True:
            plan = await self._plan(count, usage_class)
            short = await self.headroom.ensure(self.record.stored, to_come)
            if short is None:
                break
            if not allow_partial:
                raise short.error
            # Not to come any more: other provisions may have that room.
            await self._register(plan, (), "not asked for: a cap leaves no room", was_asked=False)
            if (count := count - short.over) <= 0:
                raise short.error
            limited = Lack(Cause.QUOTA, short.error)
        try:
            answer = await self._ask(plan)
        except InsufficientCapacity as refusal:
            await self._register(plan, (), str(refusal))  # an answer like any other: the fleet is no longer to come
            return [], Lack(Cause.CAPACITY, refusal)
        launched = await self._register(plan, answer.machines, shortfall(plan, answer))
        return launched, _lack(plan, answer) or limited

    async def pause(self, number: int, least: float = 0.0) -> None:
        """Wait before a repeat, but not once the launch is abandoned."""
        longest = min(PAUSE * 2**number, LONGEST_PAUSE)
        with suppress(TimeoutError):
            async with asyncio.timeout(least + self.ports.chance.uniform(longest / 2, longest)):
                await self.abandoned.wait()

    async def _plan(self, count: int, usage_class: UsageClass) -> FleetPlan:
        """Store a fleet's token before the request."""
        record = self.record.stored
        needs, own_class = record.needs, self.settings.resource_class(record.needs.resource_class)
        plan = FleetPlan(
            client_token=self.ports.chance.token(),
            provision_id=record.id,
            run_id=record.run_id,
            count=count,
            resource_class=needs.resource_class,
            usage_class=usage_class,
            allowed_types=own_class.allowed_instance_types if "*" in needs.allowed_types else needs.allowed_types,
            cpu=max(needs.cpu, own_class.cpu),
            mem=max(needs.mem, own_class.mem),
        )
        why = f"{count} not in the pool" + ("" if usage_class is needs.usage_class else f", {usage_class} instead")
        planned = provisions.FleetPlanned(
            at=self.ports.clock.now(), by=self.by, why=why, client_token=plan.client_token, count=count
        )
        await self.record.write(provisions.plan_fleet, planned)
        return plan

    async def _ask(self, plan: FleetPlan) -> FleetAnswer:
        """The engine's answer. If none comes, the request is repeated: the same token launches nothing twice."""
        for number in range(ASKED - 1):
            try:
                return await self.ports.compute.create_fleet(plan)
            except Unavailable as error:
                await self.pause(number, error.retry_after if isinstance(error, Throttled) else 0.0)
                if self.abandoned.is_set():
                    raise
        try:
            return await self.ports.compute.create_fleet(plan)
        except Throttled:
            raise
        except Unavailable as error:
            raise Unavailable(
                f"{error}; a fleet may still have launched",
                remedy="Run `bullpen refresh`, which finds what was launched and ends it; then provision again.",
            ) from error

    async def _register(
        self, plan: FleetPlan, machines: tuple[LaunchedMachine, ...], lack: str, *, was_asked: bool = True
    ) -> list[Instance]:
        """Give each machine its record, together with the fleet's answer; if that fails they are ended at once. `lack`
        says why there are fewer than planned, for the story."""
        unique = {machine.id: machine for machine in machines}
        answered = provisions.FleetAnswered(
            at=self.ports.clock.now(),
            by=self.by,
            why=lack or f"{len(unique)} launched",
            client_token=plan.client_token,
            launched=len(unique),
            was_asked=was_asked,
        )
        changes = [self._registration(machine) for machine in unique.values()]
        try:
            created: list[Instance] = await self.record.write(provisions.answer_fleet, answered, *changes)
        except BullpenError as error:
            if isinstance(error, Unavailable):
                # It may have landed: held as if it had, so that settlement ends the records too if they are there.
                for change in changes:
                    self.holdings.hold(change.after, Origin.CREATED)
            # If this fails too, refresh finds them by their tag and the record.
            await self.ports.compute.terminate(list(unique))
            raise
        for instance in created:
            self.holdings.hold(instance, Origin.CREATED)
            self.holdings.lanes.reach(instance.id, LaneStage.LAUNCHED)
        return created

    def _registration(self, machine: LaunchedMachine) -> Change[Instance]:
        now = self.ports.clock.now()
        record = self.record.stored
        event = instances.Registered(
            at=now,
            by=self.by,
            why="launched",
            run_id=record.run_id,
            round=self.ports.chance.token(),
            provision_id=record.id,
            until=later(record.deadline, self.settings.timings.claim_grace),
            resource_class=record.needs.resource_class,
            instance_type=machine.instance_type,
            usage_class=machine.usage_class,
            cpu=machine.cpu,
            mem=machine.mem,
            # Never used if it is launched ahead of any run; otherwise the run that it is launched for will use it.
            trust_domain=record.needs.trust_domain if record.run_id else "",
            image_generation=record.needs.image_generation,
            repository=record.needs.repository,
        )
        return instances.register(instances.absent(machine.id, now), event)


def _lack(plan: FleetPlan, answer: FleetAnswer) -> Lack | None:
    if not (why := shortfall(plan, answer)):
        return None
    error = decisive(answer)
    said = f"{plan.resource_class}: {why}"
    remedy = error.remedy or "Allow more instance types, ask for fewer runners, or release some first."
    match error.cause:
        case Cause.PERMISSION:
            return Lack(error.cause, PermissionDenied(said, remedy=remedy))
        case Cause.CONFIGURATION:
            return Lack(error.cause, ConfigError(said, remedy=remedy))
        case Cause.QUOTA:
            return Lack(error.cause, Refused(said, remedy=remedy))
        case Cause.THROTTLE:
            return Lack(error.cause, Throttled(said, retry_after=LONGEST_PAUSE, remedy=remedy))
        case Cause.CAPACITY | Cause.OTHER:
            return Lack(error.cause, InsufficientCapacity(said, remedy=remedy))
