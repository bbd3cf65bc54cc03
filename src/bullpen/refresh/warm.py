"""Warm: each class has on offer what its idle target and scale sets need. The youngest instances are kept, and only the
surplus expires.

An instance whose worker is lost does not count: it is ended, and another one is launched in its place. A member of a
scale set is ended in the same way if it has no job (lost_members.py), and its set claims another.

While an operator has paused a class, it has no idle target and nothing is launched for its sets: what is on offer stays
until its threshold. What operators asked for else is done first (orders.py).
"""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from functools import partial

from bullpen.config import Settings
from bullpen.liveness.lost_instances import is_member, lost_instances
from bullpen.model import instance as instances
from bullpen.model.instance import Instance
from bullpen.model.ticket import UsageClass
from bullpen.model.times import later
from bullpen.pool import offering
from bullpen.ports import Ports
from bullpen.provision.launch_report import LaunchReport
from bullpen.refresh import launch, lost_members, orders
from bullpen.refresh.action import BY, Action, Plan, PlanReport, ending
from bullpen.refresh.lack import lacking, reason, set_lacks, urgent_for_sets
from bullpen.refresh.launch import LaunchOrder
from bullpen.refresh.orders import OperatorOrders


async def plans(
    ports: Ports, settings: Settings, live: Sequence[Instance], *, dry_run: bool = False
) -> AsyncIterator[Plan]:
    now = ports.clock.now()
    asked = await OperatorOrders.read(ports)
    drained: set[str] = set()
    foreseen: Counter[str] = Counter()  # for a dry run: how many more or fewer there are of each class by then
    lost = await lost_instances(ports, live) if settings.liveness.tracking else {}
    # A lost instance is no replacement of another one.
    async for plan, planned in orders.plans(ports, settings, [one for one in live if one.id not in lost], asked):
        yield plan
        drained.update(one.id for one in (*planned.ends, *planned.marks))
        foreseen.subtract(one.resource_class for one in planned.ends)
    if gone := [one for one in live if one.id in lost]:
        foreseen.subtract(one.resource_class for one in gone)
        if members := [one for one in gone if is_member(one)]:
            yield lost_members.ending(ports, settings, members, lost)
        if others := [one for one in gone if not is_member(one)]:
            yield ending(ports, settings, others, lost)
    lacks = await set_lacks(ports, settings, asked.pauses)
    for name in settings.classes:
        of_class = [one for one in live if one.resource_class == name and one.id not in lost]
        if pending := [one for one in of_class if one.is_pending]:
            yield await _finish(ports, settings, pending)
        of_class = [one for one in of_class if not one.is_drained and one.id not in drained]
        pending = [one for one in of_class if one.is_pending]
        on_offer = [one for one in of_class if one.is_claimable]
        target = asked.idle_target(settings, name, now)
        youngest = sorted(on_offer, key=lambda one: (one.offered_at or now, one.id), reverse=True)
        kept, surplus = youngest[:target], youngest[target:]
        if ageing := [one for one in kept if one.threshold <= later(now, settings.timings.idle / 2)]:
            yield _keeping(ports, settings, ageing, now)
        if expired := [one for one in surplus if one.threshold <= now]:
            foreseen.subtract([name] * len(expired))
            yield ending(ports, settings, expired, "idle past its threshold")
        if asked.paused(name) is not None:
            continue
        on_offer = asked.counted(settings, name, on_offer, now)
        missing = lacking(settings, name, [*on_offer, *pending], lacks, now)
        under_way = await launch.under_way(ports, settings, name) if any(missing.values()) else Counter[UsageClass]()
        missing.subtract(under_way)
        urgent = urgent_for_sets(name, [*on_offer, *pending], lacks)
        for usage_class, count in missing.items():
            coming = sum(one.usage_class is usage_class for one in pending) + under_way[usage_class]
            if count > 0:
                # What is under way is for the sets first, so that only what they still lack may end others.
                for_sets = min(count, max(0, urgent[usage_class] - under_way[usage_class]))
                why = reason(settings, name, lacks, now)
                order = LaunchOrder(name, usage_class, count, why, coming, for_sets)
                actions = await launch.foresee(ports, settings, order, foreseen) if dry_run else ()
                yield Plan(actions, partial(launch.launch, ports, settings, order), is_certain=False)
            elif coming:
                yield _coming(LaunchReport(name, usage_class, coming))


def _coming(report: LaunchReport) -> Plan:
    """Nothing is to be launched: what is on its way suffices."""

    async def perform() -> PlanReport:
        return PlanReport(launch=report)

    return Plan((), perform, is_certain=False)


async def _finish(ports: Ports, settings: Settings, pending: Sequence[Instance]) -> Plan:
    """Offer or adopt instances that have attested or booted, also within the head start of their debt."""
    pulses = await ports.signals.read([one.id for one in pending])
    proven = [one for one in pending if offering.is_proven(one, pulses[one.id])]
    return Plan(
        tuple(_action_for(one) for one in proven),
        partial(offering.offer_proven, ports, settings, proven, pulses, by=BY),
    )


def _action_for(proven: Instance) -> Action:
    if proven.is_drained:
        return Action("terminate", proven.id, offering.DRAINED_AND_FREE)
    return Action("offer", proven.id, "attested, and not on offer yet")


def _keeping(ports: Ports, settings: Settings, ageing: Sequence[Instance], now: datetime) -> Plan:
    event = instances.Kept(at=now, by=BY, why="kept for the idle target", until=later(now, settings.timings.idle))

    async def perform() -> None:
        landed = await ports.records.apply_each([instances.keep(one, event) for one in ageing])
        await offering.send_tickets(ports, [one for one in landed if isinstance(one, Instance)])

    return Plan(tuple(Action("keep", one.id, "the idle target needs it") for one in ageing), perform)
