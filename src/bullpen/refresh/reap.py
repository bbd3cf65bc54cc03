"""Reap: pay debts that are due, and end instances past their threshold, in every live state."""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from functools import partial

from bullpen.config import Settings
from bullpen.model import provision as provisions
from bullpen.model.activity import Activity
from bullpen.model.instance import CLAIMED, CREATED, RUNNING, TERMINATED, Instance
from bullpen.model.signal import Kind
from bullpen.model.times import later
from bullpen.pool import busy, debts, lifecycle, offering
from bullpen.pool.watcher import Watcher
from bullpen.ports import Ports
from bullpen.refresh.action import BY, Action, Plan

PAGE = 100
OVERTIME = 120.0
"""Seconds past its maximum runtime in which a busy instance ends itself: its agent does so after a minute, and then
GitHub knows at once instead of waiting for a runner that does not answer."""


async def decisions(ports: Ports, settings: Settings) -> AsyncIterator[Plan]:
    """Provisions first: what becomes of a claim depends on them."""
    now = ports.clock.now()
    seen: set[str] = set()
    while fresh := [one for one in await ports.records.due_provisions(now, PAGE) if one.id not in seen]:
        for due in fresh:
            seen.add(due.id)
            is_open = due.state is provisions.OPEN
            reason = debts.why_due(due, now) if is_open else "its decision is not carried out yet"
            action = Action("settle provision", due.id, reason)
            yield Plan((action,), partial(debts.settle_provision, ports, settings, due, by=BY))


async def plans(ports: Ports, settings: Settings, live: Sequence[Instance]) -> AsyncIterator[Plan]:
    """Instances that owe something, or are past their threshold."""
    now = ports.clock.now()
    overdue = [one for one in live if one.due_at is not None and one.due_at <= now]
    if ending := [one for one in overdue if one.state is TERMINATED]:
        yield Plan(
            tuple(Action("terminate", one.id, "its machine is still to be terminated") for one in ending),
            partial(debts.pay_all, ports, settings, ending, by=BY),
        )
    if cleaning := [one for one in overdue if one.is_pending and one.owes is not None]:
        yield Plan(
            tuple(Action("await and offer", one.id, "it was given back and not yet offered") for one in cleaning),
            partial(debts.pay_all, ports, settings, cleaning, by=BY),
        )
    late = [one for one in overdue if one.owes is None and one.threshold <= now]
    if running := await _overtime(ports, settings, [one for one in late if one.state is RUNNING], now):
        yield _ending(ports, settings, running, "it ran longer than its maximum runtime")
    async for plan in _created(ports, settings, [one for one in late if one.state is CREATED]):
        yield plan
    async for plan in _claimed(ports, settings, [one for one in late if one.state is CLAIMED], now):
        yield plan


async def _overtime(ports: Ports, settings: Settings, late: Sequence[Instance], now: datetime) -> Sequence[Instance]:
    """Instances past their maximum runtime: at once, or a little later while a job runs."""
    fresh = [one.id for one in late if later(one.threshold, OVERTIME) > now]
    at_work = await busy.at_work(ports, settings, fresh)
    return [one for one in late if one.id not in at_work]


async def _created(ports: Ports, settings: Settings, late: Sequence[Instance]) -> AsyncIterator[Plan]:
    """A pre-warmed instance that did boot is adopted; the others never got ready."""
    if not late:
        return
    pulses = await ports.signals.read([one.id for one in late])
    booted = [
        one
        for one in late
        if not one.run_id and (signal := pulses[one.id].signal) is not None and signal.proves(Kind.OK, one.round)
    ]
    if booted:
        yield Plan(
            tuple(Action("adopt", one.id, "pre-warmed and booted") for one in booted),
            partial(offering.offer_proven, ports, settings, booted, pulses, by=BY),
        )
    never = [one for one in late if one not in booted]
    at_work = await busy.at_work(ports, settings, [one.id for one in never])
    if at_work:
        yield _sparing(ports, settings, never, at_work)
    if ended := [one for one in never if one.id not in at_work]:
        yield _ending(ports, settings, ended, "it was not ready by its threshold")


async def _claimed(ports: Ports, settings: Settings, late: Sequence[Instance], now: datetime) -> AsyncIterator[Plan]:
    """Claims that were never finished: given back if the agent is alive and free, ended if it is silent."""
    at_work = await busy.at_work(ports, settings, [one.id for one in late])
    if at_work:
        yield _sparing(ports, settings, late, at_work)
    late = [one for one in late if one.id not in at_work]
    if not late:
        return
    async with Watcher(ports.signals, ports.clock, settings.timings) as watcher:
        alive = await watcher.signs_of_life([one.id for one in late])
    if living := [one for one in late if one.id in alive]:
        why = "its claim was never finished; its agent is alive"
        changes = [lifecycle.give_back(ports, settings, one, now, BY, why) for one in living]
        yield Plan(
            tuple(Action("roll back", one.id, why) for one in living), partial(ports.records.apply_each, changes)
        )
    if silent := [one for one in late if one.id not in alive]:
        yield _ending(ports, settings, silent, "its claim was never finished and its agent is silent")


def _sparing(ports: Ports, settings: Settings, late: Sequence[Instance], at_work: Mapping[str, Activity]) -> Plan:
    return Plan(
        tuple(Action("spare", id, busy.describe(job), kind="job") for id, job in at_work.items()),
        partial(busy.spare, ports, settings, late, at_work, by=BY),
    )


def _ending(ports: Ports, settings: Settings, condemned: Sequence[Instance], reason: str) -> Plan:
    return Plan(
        tuple(Action("terminate", one.id, f"{one.state}: {reason}") for one in condemned),
        partial(lifecycle.expire_and_terminate, ports, settings, condemned, reason, by=BY),
    )
