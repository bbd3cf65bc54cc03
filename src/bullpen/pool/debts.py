"""Debts: work that records owe. Read the record; if it still owes, do the work, and write that it is done.

A debt is written together with the step that made it, with the time from which any process may pay it. The process that
made it has a head start. If it dies, the next provision, release or refresh, or a running `serve`, takes over.

A debt that cannot be paid stops no other one. It is logged with the reason and tried again later.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TypeVar

from bullpen import jobs
from bullpen.config import Settings
from bullpen.errors import BullpenError, Conflict, Outdated, Unavailable
from bullpen.model import provision as provisions
from bullpen.model.instance import IDLE, TERMINATED, Instance, InstanceFate
from bullpen.model.provision import Provision
from bullpen.model.report import abandoned
from bullpen.model.signal import Pulse
from bullpen.pool import busy, clock_skew, lifecycle, offering
from bullpen.pool.setbacks import Setbacks
from bullpen.ports import Ports
from bullpen.structured_log import LogEvent, happened

REPORT_PATIENCE = 1.0  # seconds that the report of a killed call may take

T = TypeVar("T", Instance, Provision)
Done = TypeVar("Done")

PAID = "debt paid"

PAGES = 10
"""How many times `limit` debts are read. Instances that still clean cannot be paid yet, and may stand in front of
others that can."""


GIVE_UP_AFTER = 3
"""Debts in a row that could not be paid because an engine did not answer: the others wait for the next time."""


async def pay_due(
    ports: Ports, settings: Settings, limit: int, *, by: str, setbacks: Setbacks | None = None
) -> list[LogEvent]:
    """Pay up to `limit` due debts of provisions and as many of instances; returns those that were paid.

    Those that cannot be paid are noted in `setbacks`; those noted there before wait for their time.
    """
    setbacks = Setbacks() if setbacks is None else setbacks
    paid = await _pay_provisions(ports, settings, limit, setbacks, by=by)
    return paid + await _pay_instances(ports, settings, limit, setbacks, by=by)


async def _pay_provisions(
    ports: Ports, settings: Settings, limit: int, setbacks: Setbacks, *, by: str
) -> list[LogEvent]:
    due = await ports.records.due_provisions(ports.clock.now(), limit + len(setbacks.waiting()))
    fresh = [one for one in due if one.id not in setbacks.waiting()][:limit]
    if any(one.state is provisions.OPEN for one in fresh) and await clock_skew.doubt(ports, settings):
        fresh = [one for one in fresh if one.state is not provisions.OPEN]  # by a correct clock they may have time left
    return await _one_by_one(lambda one: settle_provision(ports, settings, one, by=by), fresh, setbacks)


async def _pay_instances(
    ports: Ports, settings: Settings, limit: int, setbacks: Setbacks, *, by: str
) -> list[LogEvent]:
    now = ports.clock.now()
    paid: list[LogEvent] = []
    seen = set(setbacks.waiting())
    first = len(seen)
    for page in range(1, PAGES + 1):
        due = await ports.records.owing_instances(now, first + limit * page)
        fresh = [one for one in due if one.id not in seen][:limit]
        paid += await pay_instances(ports, settings, fresh, setbacks, by=by)
        if len(paid) >= limit or len(due) < first + limit * page:
            break
        seen.update(one.id for one in fresh)
    return paid


async def pay_instances(
    ports: Ports, settings: Settings, due: Sequence[Instance], setbacks: Setbacks, *, by: str
) -> list[LogEvent]:
    """Pay what instances owe, due or not; those that cannot be paid are noted in `setbacks`."""
    ending = [one for one in due if one.state is TERMINATED]
    cleaning = [one for one in due if one.state is not TERMINATED]
    paid = await together_or_alone(lambda some: pay_terminations(ports, settings, some, by=by), ending, setbacks)
    return paid + await together_or_alone(lambda some: pay_offers(ports, settings, some, by=by), cleaning, setbacks)


async def pay_all(ports: Ports, settings: Settings, due: Sequence[Instance], *, by: str) -> list[LogEvent]:
    """Pay what instances owe. Raise Unavailable, when all others are paid, for those that could not be."""
    setbacks = Setbacks()
    paid = await pay_instances(ports, settings, due, setbacks, by=by)
    if failed := setbacks.reasons():
        raise Unavailable("; ".join(f"{id}: {why}" for id, why in failed.items()))
    return paid


async def together_or_alone(
    work: Callable[[Sequence[Instance]], Awaitable[list[Done]]], due: Sequence[Instance], setbacks: Setbacks
) -> list[Done]:
    """Work on all at once; if that fails, on each alone, so that one which cannot be done stops no other."""
    if not due:
        return []
    try:
        done = await work(due)
    except Outdated:
        raise
    except Exception:  # one of them, or all: tried alone, each that fails is noted with its reason
        return await _one_by_one(lambda one: work([one]), due, setbacks)
    setbacks.forget(one.id for one in due)
    return done


async def _one_by_one(work: Callable[[T], Awaitable[list[Done]]], due: Sequence[T], setbacks: Setbacks) -> list[Done]:
    done: list[Done] = []
    unanswered = 0
    for one in due:
        try:
            done += await work(one)
        except Outdated:
            raise
        except Exception as failure:
            setbacks.note(one.id, failure)
            unanswered = unanswered + 1 if isinstance(failure, Unavailable) else 0
            if unanswered == GIVE_UP_AFTER:
                break
        else:
            unanswered = 0
            setbacks.forget([one.id])
    return done


async def settle_provision(ports: Ports, settings: Settings, due: Provision, *, by: str) -> list[LogEvent]:
    """Finish what a provision began: abort it if it is overdue, carry out its decision, mark it as settled.

    While an instance that should be given back executes a job, the debt is postponed, and nothing is reported.
    """
    decided = await _decide(ports, settings, due, by=by)
    if decided is None:
        return []
    held = await instances_of(ports, decided)
    landed, at_work = await lifecycle.carry_out(ports, settings, decided, held, by=by)
    marked = [one for one in landed.values() if one is not None and one.state is TERMINATED]
    await lifecycle.terminate(ports, settings, marked, by=by)
    if decided.is_over and not decided.is_revoked:
        await jobs.conclude(ports, settings, decided.run_id, by=by, why="its run was released")
    now = ports.clock.now()
    if at_work:
        await ports.records.apply_each([lifecycle.postponing(decided, now, by)])
        return []
    await ports.records.apply_each([lifecycle.settling(settings, decided, now, by)])
    return [happened(PAID, provision=decided.id, outcome=decided.state, instances=len(landed))]


async def give_up(ports: Ports, settings: Settings, undecided: Provision, why: str, *, by: str) -> list[LogEvent]:
    """Abort an open provision as it was read, and settle it; nothing if it has moved since."""
    aborted = await _abort(ports, settings, undecided, why, by=by)
    return await settle_provision(ports, settings, aborted, by=by) if aborted is not None else []


async def _decide(ports: Ports, settings: Settings, due: Provision, *, by: str) -> Provision | None:
    if due.state is not provisions.OPEN:
        return due if due.owes is not None else None
    why = why_due(due, ports.clock.now())
    return await _abort(ports, settings, due, why, by=by) if why else None


def why_due(undecided: Provision, now: datetime) -> str:
    """Why an open provision is aborted; empty if it still has time."""
    if undecided.deadline <= now:
        return "its deadline passed"
    if undecided.place is not None and undecided.place.until <= now:
        return "it waited, and its process shows no sign of life"
    return ""


async def _abort(ports: Ports, settings: Settings, undecided: Provision, why: str, *, by: str) -> Provision | None:
    aborted = lifecycle.aborted(ports, settings, why, by=by)
    results: list[Provision | Conflict] = await ports.records.apply_each([provisions.abort(undecided, aborted)])
    if isinstance(landed := results[0], Conflict):
        return None
    await _report(ports, settings, undecided, why)
    return landed


async def _report(ports: Ports, settings: Settings, undecided: Provision, why: str) -> None:
    """The call of a run is counted, although its process was killed and reports nothing. No decision depends on it."""
    if not undecided.run_id:
        return
    with suppress(BullpenError, TimeoutError):
        async with asyncio.timeout(REPORT_PATIENCE):
            if await ports.history.report(undecided.id) is None:
                report = abandoned(undecided, why, settings.timings.provision, ports.clock.now())
                await ports.history.note_provision(report)


async def instances_of(ports: Ports, provision: Provision) -> list[Instance]:
    """Every instance held for a provision: by the index of its run, and its members by id, which never lag."""
    if not provision.run_id:
        return []  # warmed ahead of any run: its instances are adopted or expire on their own
    found = {one.id: one for one in await ports.records.run_instances(provision.run_id)}
    found |= await ports.records.instances([id for id in provision.members if id not in found])
    return [one for one in found.values() if one.provision_id == provision.id]


async def pay_terminations(ports: Ports, settings: Settings, due: Sequence[Instance], *, by: str) -> list[LogEvent]:
    certain = await lifecycle.terminate(ports, settings, due, by=by)
    return [happened(PAID, instance=id, outcome=InstanceFate.TERMINATED) for id in certain]


async def pay_offers(ports: Ports, settings: Settings, due: Sequence[Instance], *, by: str) -> list[LogEvent]:
    """Check once, without waiting. An instance that has attested and is alive goes on offer; one that failed or is late
    is ended; the rest is left, also one that got a job before it knew that it was given back. One that is late, has
    attested, and seems silent may only have another clock: it is watched for a heartbeat before it is ended."""
    cleaning = [one for one in due if one.state is IDLE and not one.attested]
    if not cleaning:
        return []
    now = ports.clock.now()
    pulses = await ports.signals.read([one.id for one in cleaning])
    fates = await offering.offer_living(ports, settings, cleaning, pulses, by=by)
    at_work = await busy.among(ports, settings, {id: pulse for id, pulse in pulses.items() if id not in fates})
    await busy.spare(ports, settings, cleaning, at_work, by=by)
    late = {one.id for one in cleaning if one.threshold <= now and one.id not in fates and one.id not in at_work}
    if late and await clock_skew.doubt(ports, settings):
        late = set()
    if attested := [one for one in cleaning if one.id in late and offering.is_proven(one, pulses[one.id])]:
        fates |= await offering.offer_proven(ports, settings, attested, pulses, by=by)
    hopeless = [
        one
        for one in cleaning
        if one.id not in fates
        and one.id not in at_work
        and (one.id in late or pulses[one.id].departure or _has_failed(settings, one, pulses[one.id], now))
    ]
    reasons = {one.id: _reason(one, pulses[one.id]) for one in hopeless}
    fates |= await lifecycle.expire_and_terminate(ports, settings, hopeless, reasons, by=by)
    return [happened(PAID, instance=id, outcome=fate) for id, fate in fates.items()]


def _reason(one: Instance, pulse: Pulse) -> str:
    """Why it cannot go on offer: what its agent reported, if it reported a failure."""
    if pulse.signal is not None and pulse.signal.fails(one.round):
        return pulse.departure or pulse.signal.failure
    return pulse.departure or "did not attest that it is clean"


def _has_failed(settings: Settings, one: Instance, pulse: Pulse, now: datetime) -> bool:
    """A busy agent has not failed, unless it has died."""
    if pulse.signal is None or not pulse.signal.fails(one.round):
        return False
    return not (busy.is_excused(settings, one, pulse) and pulse.is_recent(now, settings.timings.alive))
