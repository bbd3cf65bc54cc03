"""Creation: launch what the pool could not give, all or nothing, and register it before anything else.

Places that find the pool exhausted at the same moment share a fleet; a later shortfall is a further fleet with its own
token. A token is stored before its call and every machine is registered in one write with the fleet's answer, so
whatever becomes of us, each machine has a record or carries a tag whose provision says what to do with it.
"""

import asyncio

from bullpen import handover
from bullpen.config import Settings
from bullpen.errors import BullpenError, InsufficientCapacity, LimitReached, Refused, Unavailable
from bullpen.model import instance as instances
from bullpen.model import provision as provisions
from bullpen.model.fleet import FleetPlan, Machine, shortfall
from bullpen.model.instance import Instance
from bullpen.model.transition import Change
from bullpen.ports import TOGETHER_LIMIT, Ports
from bullpen.provision.book import Book
from bullpen.provision.holdings import Holdings
from bullpen.provision.outcome import Origin

FLEET_LIMIT = TOGETHER_LIMIT - 1
"""Machines of one fleet: with the provision's own change they still land together."""

Place = asyncio.Future[Instance | None]


class Creation:
    def __init__(
        self, ports: Ports, settings: Settings, book: Book, holdings: Holdings, *, allow_partial: bool, by: str
    ) -> None:
        self._ports = ports
        self._settings = settings
        self._book = book
        self._holdings = holdings
        self._allow_partial = allow_partial
        self._by = by
        self.refusal: Refused | None = None
        """Why there were fewer than asked, where fewer are acceptable."""
        self._places: list[Place] = []
        self._launches: list[asyncio.Task[None]] = []

    async def create(self) -> Instance | None:
        """A registered new instance for one place; None only if fewer than asked are acceptable and none was left."""
        loop = asyncio.get_running_loop()
        place: Place = loop.create_future()
        self._places.append(place)
        if len(self._places) == 1:
            self._launches.append(loop.create_task(self._launch()))
        return await place

    async def close(self) -> None:
        """Wait for launches in flight: a fleet that was asked for is registered, or ended, not forgotten."""
        await asyncio.gather(*self._launches, return_exceptions=True)

    async def _launch(self) -> None:
        await asyncio.sleep(0)  # everybody who was told "exhausted" in this turn of the loop comes along
        places, self._places = self._places, []
        while places:
            places = [place for place in places if not place.done()]  # some may have been cancelled meanwhile
            batch, places = places[:FLEET_LIMIT], places[FLEET_LIMIT:]
            if not batch:
                return
            try:
                created = await self._fleet_or_fewer(len(batch), to_come=len(places))
            except Exception as error:
                for place in batch + places:
                    if not place.done():
                        place.set_exception(error)
                return
            for place, instance in zip(batch, [*created, *[None] * (len(batch) - len(created))], strict=True):
                if not place.done():
                    place.set_result(instance)

    async def _fleet_or_fewer(self, count: int, to_come: int) -> list[Instance]:
        try:
            return await self._fleet(count, to_come)
        except Refused as refusal:
            if not self._allow_partial:
                raise
            self.refusal = refusal
            return []

    async def _fleet(self, count: int, to_come: int) -> list[Instance]:
        needs = self._book.record.needs
        token = self._ports.chance.token()
        now = self._ports.clock.now()
        planned = provisions.FleetPlanned(
            at=now, by=self._by, why=f"{count} not in the pool", client_token=token, count=count
        )
        await self._book.write(provisions.plan_fleet, planned)
        await self._respect_limits(to_come)
        own_class = self._settings.resource_class(needs.resource_class)
        plan = FleetPlan(
            client_token=token,
            provision_id=self._book.record.id,
            run_id=self._book.record.run_id,
            count=count,
            resource_class=needs.resource_class,
            usage_class=needs.usage_class,
            allowed_types=needs.allowed_types,
            cpu=max(needs.cpu, own_class.cpu),
            mem=max(needs.mem, own_class.mem),
        )
        answer = await self._ports.compute.create_fleet(plan)
        created = await self._register(token, answer.machines)
        if (why := shortfall(plan, answer)) and not (self._allow_partial and created):
            raise InsufficientCapacity(
                f"{needs.resource_class}: {why}",
                remedy="allow more instance types, ask for fewer runners, or release some first",
            )
        return created

    async def _register(self, token: str, machines: tuple[Machine, ...]) -> list[Instance]:
        """Give each machine its record, together with the fleet's answer; if that fails they are ended at once."""
        now = self._ports.clock.now()
        answered = provisions.FleetAnswered(at=now, by=self._by, why=f"{len(machines)} launched", client_token=token)
        unique = {machine.id: machine for machine in machines}
        changes = [self._registration(machine) for machine in unique.values()]
        try:
            created: list[Instance] = await self._book.write(provisions.answer_fleet, answered, *changes)
        except BullpenError as error:
            if isinstance(error, Unavailable):
                # It may have landed: held as if it had, so that settlement ends the records too if they are there.
                for change in changes:
                    self._holdings.hold(change.after, Origin.CREATED)
            # If this fails too, their tag and our record lead refresh to them.
            await self._ports.compute.terminate(list(unique))
            raise
        for instance in created:
            self._holdings.hold(instance, Origin.CREATED)
        return created

    def _registration(self, machine: Machine) -> Change[Instance]:
        now = self._ports.clock.now()
        record = self._book.record
        event = instances.Registered(
            at=now,
            by=self._by,
            why="launched",
            run_id=record.run_id,
            round=self._ports.chance.token(),
            provision_id=record.id,
            until=handover.later(record.deadline, self._settings.timings.claim_grace),
            resource_class=record.needs.resource_class,
            instance_type=machine.instance_type,
            usage_class=machine.usage_class,
            cpu=machine.cpu,
            mem=machine.mem,
            # Never used if nobody asked for it yet; otherwise the run that it is made for will use it.
            trust_domain=record.needs.trust_domain if record.run_id else "",
            image_generation=record.needs.image_generation,
        )
        return instances.register(instances.absent(machine.id, now), event)

    async def _respect_limits(self, to_come: int) -> None:
        """Refuse to grow past the caps, with the fleets that are `to_come` after this one.

        Our plan is written already, so of two that race at a cap none slips by.
        """
        name = self._book.record.needs.resource_class
        live = await self._ports.records.count()
        planned = {c: await self._planned(c) for c in self._settings.classes}
        in_class = sum(n for (c, _), n in live.items() if c == name) + planned[name] + to_come
        in_pool = sum(live.values()) + sum(planned.values()) + to_come
        cap = self._settings.classes[name].max_instances
        if cap and in_class > cap:
            raise LimitReached(
                f"classes.{name}.max-instances is {cap}; this would make {in_class}",
                remedy="release runners, wait, or raise the limit",
            )
        if in_pool > self._settings.limits.max_instances:
            raise LimitReached(
                f"limits.max-instances is {self._settings.limits.max_instances}; this would make {in_pool}",
                remedy="release runners, wait, or raise the limit",
            )

    async def _planned(self, resource_class: str) -> int:
        found = await self._ports.records.open_provisions(resource_class)
        return sum(
            fleet.count
            for provision in found
            for fleet in provision.fleets
            if fleet.state is provisions.FleetState.PLANNED
        )
