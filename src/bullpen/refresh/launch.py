"""Launch: machines ahead of any run, and not more than are missing, however many processes refresh at once.

A process that wants to launch opens a provision first, which all others see, and then reads which others are open. A
launch goes ahead only if it fits beside all open ones. Where two have seen each other, the larger id gives up, and the
smaller one waits for that. One that has planned its fleet had decided before the other came, and keeps its share.

    opened ──▶ fits beside all others ─────────────────────────▶ launched
       ▲ │
       │ ├──▶ does not fit beside smaller ids and planned fleets ──▶ aborted, and opened again for what is then missing
       │ └──▶ does not fit beside larger ids: they are giving up ─┐
       └────────────────── a moment later ◀──────────────────────┘

A launch that fails is aborted. A process that is killed, or whose store does not answer, may leave one open. After a
while it does not count, and the next process that launches aborts it first. If its process only was slow, and a fleet
answers after all, that process cannot register the machines, and ends them. If it was killed, its machines carry the
tag of a launch that is not open: reconcile ends them.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Self

from bullpen.config import Settings
from bullpen.errors import (
    BullpenError,
    Conflict,
    InsufficientCapacity,
    LimitReached,
    Outdated,
    ProvisionFailed,
    Throttled,
)
from bullpen.lazy_dataclass import dataclass
from bullpen.model import provision as provisions
from bullpen.model.instance import Instance
from bullpen.model.provision import FleetState, Provision
from bullpen.model.ticket import UsageClass
from bullpen.model.times import later
from bullpen.model.transition import Change
from bullpen.pool import lifecycle
from bullpen.pool.live_instances import every_live
from bullpen.ports import Ports
from bullpen.provision.creation import Creation
from bullpen.provision.eviction import Headroom, SetShare
from bullpen.provision.fleets import Fleets
from bullpen.provision.holdings import Holdings
from bullpen.provision.launch_report import LaunchReport
from bullpen.provision.record import ProvisionRecord
from bullpen.refresh.action import BY, Action, PlanReport
from bullpen.refresh.lack import SetLack, lacking, set_lacks, urgent_for_sets
from bullpen.refresh.orders import OperatorOrders

PASSING = (InsufficientCapacity, LimitReached, Throttled, ProvisionFailed)
"""Why a launch may fall short for now: the next refresh tries again. The last means that another process took it for
abandoned. Anything else needs an operator."""
ABANDONED = 30.0  # seconds until its first fleet: a launch plans it within `timings.takeover` and a few requests
UNANSWERED = 60.0
"""Seconds more for each fleet that it plans. A fleet of hundreds takes so long, and the client of EC2 waits so long for
one answer. A request that is repeated then may take many minutes, but what waits for the machines cannot: GitHub takes
an assignment back after 300 s, and the machines of the next launch boot within 90 s of the 210 s that are left."""
TRIES = 3  # launches that one refresh opens: if others reach the cap each time, the next refresh does the rest


@dataclass(frozen=True, slots=True)
class LaunchOrder:
    """Machines to launch, and why. Scale sets need `for_sets` of them urgently. `on_the_way` are those that are not on
    offer yet, besides."""

    resource_class: str
    usage_class: UsageClass
    count: int
    why: str
    on_the_way: int = 0
    for_sets: int = 0


@dataclass(frozen=True, slots=True)
class PoolNeeds:
    """What a launch decides by, as one look at the pool shows it: what sets lack, what operators ask for, and the live
    instances."""

    lacks: Sequence[SetLack]
    asked: OperatorOrders
    live: Sequence[Instance]

    @classmethod
    async def read(cls, ports: Ports, settings: Settings) -> Self:
        asked = await OperatorOrders.read(ports)
        return cls(await set_lacks(ports, settings, asked.pauses), asked, await every_live(ports))

    def ready(self, settings: Settings, resource_class: str, now: datetime) -> list[Instance]:
        """Instances that are on offer, or on their way there, but for those that are being replaced."""
        of_class = [one for one in self.live if one.resource_class == resource_class]
        on_offer = [one for one in of_class if one.is_claimable]
        coming = [one for one in of_class if one.is_pending and not one.is_drained]
        return [*coming, *self.asked.counted(settings, resource_class, on_offer, now)]


async def under_way(ports: Ports, settings: Settings, resource_class: str) -> Counter[UsageClass]:
    """Machines that open launches have yet to register, by usage class."""
    found = Counter[UsageClass]()
    for one in await _launches(ports, settings, resource_class):
        found[one.needs.usage_class] += _to_come([one])
    return found


async def launch(ports: Ports, settings: Settings, order: LaunchOrder) -> PlanReport:
    """Launch as many machines as ordered; reports how many, and what refused the rest. Once they have booted, the next
    process that warms the pool adopts them."""
    await _abort_abandoned(ports, settings, order.resource_class)
    for _ in range(TRIES):
        opening = _opening(ports, settings, order)
        record = ProvisionRecord(ports, opening.after)
        try:
            await ports.records.apply(opening)
            if (needs := await _needs_if_placed(ports, settings, record.stored.id, order)) is not None:
                return _report(order, *await _create(ports, settings, record, order, needs))
        except Outdated:
            raise
        except BullpenError as failure:
            # Machines that it may have launched are found by their tag, and those that it registered are adopted.
            with suppress(BullpenError):  # otherwise it is abandoned
                await _abort(ports, settings, record, str(failure))
            return _report(order, 0, failure)
        await _abort(ports, settings, record, "others launch what is missing, or its class is paused")
        launches = await _launches(ports, settings, order.resource_class, order.usage_class)
        order = _left(settings, order, launches, await PoolNeeds.read(ports, settings), ports.clock.now())
        if order.count <= 0:
            break
    return PlanReport()


async def foresee(ports: Ports, settings: Settings, order: LaunchOrder, foreseen: Counter[str]) -> tuple[Action, ...]:
    """What a launch would create within the caps, and what not. `foreseen` is how many more or fewer there are of each
    class by then: what is created here is added."""
    headroom = _headroom(ports, settings, order, await PoolNeeds.read(ports, settings))
    short = await headroom.shortage(order.resource_class, order.count, foreseen)
    over = min(short.over, order.count) if short else 0
    foreseen[order.resource_class] += order.count - over
    return _actions(order, order.count - over, over, short.error if short else None)


def _report(order: LaunchOrder, created: int, refusal: BullpenError | None) -> PlanReport:
    actions = _actions(order, created, order.count - created if refusal else 0, refusal)
    report = LaunchReport(order.resource_class, order.usage_class, order.on_the_way + created, refusal)
    return PlanReport(actions, None if isinstance(refusal, PASSING) else refusal, report)


def _actions(order: LaunchOrder, created: int, refused: int, refusal: BullpenError | None) -> tuple[Action, ...]:
    kind = order.resource_class + ("" if order.usage_class is UsageClass.ON_DEMAND else f" {order.usage_class}")
    done = (Action("create", f"{created} × {kind}", order.why, kind=f"{kind}: {order.why}"),) if created else ()
    cannot = Action("cannot create", f"{refused} × {kind}", str(refusal), is_done=False, kind=kind)
    return (*done, cannot) if refused else done


def _opening(ports: Ports, settings: Settings, order: LaunchOrder) -> Change[Provision]:
    now = ports.clock.now()
    deadline = later(now, settings.timings.provision)
    needs = settings.requirements(order.resource_class, order.usage_class)
    asked = provisions.absent(f"p-{ports.chance.token()}", "", order.count, needs, deadline, 0.0)
    return provisions.open_(asked, provisions.Opened(at=now, by=BY, why="warm"))


async def _needs_if_placed(ports: Ports, settings: Settings, own_id: str, order: LaunchOrder) -> PoolNeeds | None:
    """What the pool needs, if an open launch, which others can see by now, may go ahead."""
    loop = asyncio.get_running_loop()
    # One whose process was killed never gives up: its deadline ends it.
    patience = loop.time() + settings.timings.takeover
    while True:
        launches = await _launches(ports, settings, order.resource_class, order.usage_class)
        others = [one for one in launches if one.id != own_id]
        firm = [one for one in others if one.fleets or one.id < own_id]
        needs, now = await PoolNeeds.read(ports, settings), ports.clock.now()
        if _left(settings, order, others, needs, now).count >= order.count:
            return needs
        if _left(settings, order, firm, needs, now).count < order.count or loop.time() >= patience:
            return None
        await asyncio.sleep(settings.timings.tick_first)


def _left(
    settings: Settings, order: LaunchOrder, launches: Iterable[Provision], needs: PoolNeeds, now: datetime
) -> LaunchOrder:
    """What the pool still needs of an order beside these launches, which were listed before: a machine that is
    registered in between counts twice, and is never missed. They are for the sets first. Nothing while the class is
    paused, also if that was ordered a moment ago."""
    name, usage_class, coming = order.resource_class, order.usage_class, _to_come(launches)
    if needs.asked.paused(name) is not None:
        return replace(order, count=0, for_sets=0)
    ready = needs.ready(settings, name, now)
    count = lacking(settings, name, ready, needs.lacks, now)[usage_class] - coming
    for_sets = urgent_for_sets(name, ready, needs.lacks)[usage_class] - coming
    return replace(order, count=count, for_sets=max(0, for_sets))


async def _launches(
    ports: Ports, settings: Settings, resource_class: str, usage_class: UsageClass | None = None
) -> list[Provision]:
    """The open launches of a class but for abandoned ones."""
    now = ports.clock.now()
    opened = [one for one in await ports.records.open_provisions(resource_class) if not one.run_id]
    going_on = [one for one in opened if not _is_abandoned(one, settings, now)]
    return [one for one in going_on if usage_class in (None, one.needs.usage_class)]


def _is_abandoned(one: Provision, settings: Settings, now: datetime) -> bool:
    """Whether its process should have ended it. One whose fleets have all answered takes no machine from others."""
    # One that launched nothing took hardly any time: there was no room or no capacity for it.
    fleets = sum(fleet.count > 0 for fleet in one.fleets) or bool(one.fleets)
    patience = ABANDONED + UNANSWERED * fleets
    return _to_come([one]) > 0 and later(one.deadline, patience - settings.timings.provision) <= now


async def _abort_abandoned(ports: Ports, settings: Settings, resource_class: str) -> None:
    now = ports.clock.now()
    for one in await ports.records.open_provisions(resource_class):
        if not one.run_id and _is_abandoned(one, settings, now):
            with suppress(Conflict):  # it goes on, or another process was faster
                event = lifecycle.aborted(ports, settings, "its process launched nothing for long", by=BY)
                (aborted,) = await ports.records.apply(provisions.abort(one, event))
                await ports.records.apply_each([lifecycle.settling(settings, aborted, now, BY)])


def _to_come(launches: Iterable[Provision]) -> int:
    return sum(
        one.want - sum(fleet.count for fleet in one.fleets if fleet.state is FleetState.ANSWERED) for one in launches
    )


async def _create(
    ports: Ports, settings: Settings, record: ProvisionRecord, order: LaunchOrder, needs: PoolNeeds
) -> tuple[int, BullpenError | None]:
    """How many were created, and what refused the rest."""
    now = ports.clock.now()
    holdings = Holdings(ports)
    headroom = _headroom(ports, settings, order, needs)
    creation = Creation(Fleets(ports, settings, record, holdings, headroom, BY), allow_partial=True)
    await asyncio.gather(*(creation.create() for _ in range(record.stored.want)))
    if members := tuple(holdings.held):
        due = later(now, settings.timings.takeover)
        await record.write(provisions.commit, provisions.Decided(at=now, by=BY, members=members, settle_due=due))
        await ports.records.apply_each([lifecycle.settling(settings, record.stored, now, BY)])
    else:
        await _abort(ports, settings, record, str(creation.refusal))
    return len(members), creation.refusal


def _headroom(ports: Ports, settings: Settings, order: LaunchOrder, needs: PoolNeeds) -> Headroom:
    """Room for what the idle target needs is what the caps leave, less what sets need urgently: if their launches fall
    short, it must not fill the room that was made for them. For jobs of sets, idle instances that no set can use make
    room, and provisions that began to wait later than those jobs are not in front."""
    lacks = needs.lacks
    room = _room_of_sets(settings, needs, ports.clock.now())
    room[order.resource_class] -= min(order.for_sets, room[order.resource_class])
    if not order.for_sets or not lacks:
        return Headroom(ports, settings, evicts=False, by=BY, reserved=room)
    share = SetShare(order.for_sets, lambda one: any(lack.fits(one) for lack in lacks))
    headroom = Headroom(ports, settings, evicts=True, by=BY, for_sets=share, reserved=room)
    ordered = [lack for lack in lacks if lack.needs.resource_class == order.resource_class]
    headroom.since = min((lack.since for lack in ordered if lack.since is not None), default=None)
    return headroom


def _room_of_sets(settings: Settings, needs: PoolNeeds, now: datetime) -> Counter[str]:
    """How many more machines sets need urgently, by class. Those that are under way count, too: soon they are there."""
    if not any(lack.urgent for lack in needs.lacks):
        return Counter()
    names = settings.classes
    return Counter(
        {name: urgent_for_sets(name, needs.ready(settings, name, now), needs.lacks).total() for name in names}
    )


async def _abort(ports: Ports, settings: Settings, record: ProvisionRecord, why: str) -> None:
    await record.write(provisions.abort, lifecycle.aborted(ports, settings, why, by=BY))
    await ports.records.apply_each([lifecycle.settling(settings, record.stored, ports.clock.now(), BY)])
