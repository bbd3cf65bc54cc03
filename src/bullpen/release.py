"""Release: a run is over; its instances deregister, clean, attest, and go on offer again.

    running → idle (cleaning) → on offer          claimed → rolled back          created → terminated

All of a run's instances are given back in one batch and awaited at once. Cut off anywhere, running it again, a refresh,
or the next provision's last look finishes it. One that executes a job of a CI which has jobs of its own stays as it is:
its provision goes on to owe it, and whoever pays that debt finds it free some day.
"""

import asyncio
from dataclasses import dataclass

from bullpen import jobs
from bullpen.config import Settings
from bullpen.errors import Conflict
from bullpen.model import provision as provisions
from bullpen.model.instance import CREATED, IDLE, LIVE, TERMINATED, Instance
from bullpen.model.progress import ProgressReport, Tell, WorkPhase
from bullpen.model.provision import Provision
from bullpen.model.transition import Change
from bullpen.pool import busy, debts, lifecycle, offering
from bullpen.pool.lifecycle import Fate
from bullpen.ports import Ports

OVER = "its run was released"
TAKE_OVER = 20
"""Debts of others that a release pays on its way."""


@dataclass(frozen=True, slots=True)
class ReleaseOutcome:
    """What became of the run's instances. `pending` ones are still cleaning: a later call puts them on offer. `busy`
    ones execute a job: they go back once that has ended."""

    run_id: str
    offered: tuple[str, ...]
    terminated: tuple[str, ...]
    pending: tuple[str, ...]
    duration: float
    busy: tuple[str, ...] = ()


async def release(
    ports: Ports,
    settings: Settings,
    run_id: str,
    *,
    stop: asyncio.Event,
    tell: Tell = lambda report: None,
) -> ReleaseOutcome:
    """Give every instance of a run back. Releasing a run that has none is no error: there is nothing left to do."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    by = f"release of {run_id}"
    decided = await _decide(ports, settings, await ports.records.run_provisions(run_id), by)
    held = await _instances(ports, run_id, decided)
    if newer := await _unseen_provisions(ports, held, decided):
        decided += await _decide(ports, settings, newer, by)
        held = await _instances(ports, run_id, decided)
    owing = await _conclude(ports, settings, decided, by)
    landed, moved, at_work = await _give_back_free(ports, settings, held, stop, by)
    # Before the debt is settled: whoever pays it in our place ends the jobs as well.
    await jobs.conclude(ports, settings, run_id, by=by, why=OVER)
    # What moved under our hands, or is at work, is still owed: whoever pays the provision's debt looks again.
    settled = [one for one in owing if one.id not in moved]
    await ports.records.apply_each([lifecycle.settling(settings, one, ports.clock.now(), by) for one in settled])
    fates = await _see_through(ports, settings, landed, stop, tell, by)
    fates |= dict.fromkeys(at_work, Fate.BUSY)
    if Fate.CLEANING not in fates.values():
        # Clean or ended, nothing runs there any more: a job that nobody has reported on will not be.
        await jobs.conclude(ports, settings, run_id, by=by, why=OVER, running=True)
    await debts.pay_due(ports, settings, TAKE_OVER, by=by)
    return ReleaseOutcome(
        run_id=run_id,
        offered=tuple(id for id, fate in fates.items() if fate is Fate.OFFERED),
        terminated=tuple(id for id, fate in fates.items() if fate in (Fate.TERMINATED, Fate.TERMINATING)),
        pending=tuple(id for id, fate in fates.items() if fate is Fate.CLEANING),
        duration=loop.time() - began,
        busy=tuple(id for id, fate in fates.items() if fate is Fate.BUSY),
    )


async def _decide(ports: Ports, settings: Settings, found: list[Provision], by: str) -> list[Provision]:
    """Abort what is open, so that nothing more is acquired for the run, and finish what was committed."""
    now = ports.clock.now()
    due = lifecycle.later(now, settings.timings.takeover)
    aborted = provisions.Aborted(at=now, by=by, why=OVER, settle_due=due)
    decided = [one for one in found if one.state is not provisions.OPEN]
    undecided = [one for one in found if one.state is provisions.OPEN]
    while undecided:
        landed = await ports.records.apply_each([provisions.abort(one, aborted) for one in undecided])
        # One that was decided under our hands stays as it was decided; one that only moved on is tried again.
        current = [one.found if isinstance(one, Conflict) else one for one in landed]
        decided += [one for one in current if isinstance(one, Provision) and one.state is not provisions.OPEN]
        undecided = [one for one in current if isinstance(one, Provision) and one.state is provisions.OPEN]
    settled = []
    for one in decided:
        if one.state is provisions.COMMITTED and one.owes is not None:
            await debts.settle_provision(ports, settings, one, by=by)
            one = await ports.records.provision(one.id) or one
        settled.append(one)
    return settled


async def _instances(ports: Ports, run_id: str, decided: list[Provision]) -> list[Instance]:
    """The run's instances: by its index and as members, each as it stands, for an index may be behind."""
    ids = dict.fromkeys(one.id for one in await ports.records.run_instances(run_id))
    ids |= dict.fromkeys(id for one in decided for id in one.members)
    found = await ports.records.instances(list(ids)) if ids else {}
    return [one for one in found.values() if one.run_id == run_id]


async def _unseen_provisions(ports: Ports, held: list[Instance], decided: list[Provision]) -> list[Provision]:
    """Provisions that hold instances of the run and were opened after we looked, or are not in the index yet."""
    seen = {one.id for one in decided}
    unseen = [id for id in dict.fromkeys(one.provision_id for one in held) if id not in seen]
    return [one for id in unseen if (one := await ports.records.provision(id)) is not None]


async def _conclude(ports: Ports, settings: Settings, decided: list[Provision], by: str) -> list[Provision]:
    """Write down that the run is over, before the first instance is given back; returns the provisions that owe."""
    now = ports.clock.now()
    over = provisions.Concluded(at=now, by=by, why=OVER, settle_due=lifecycle.later(now, settings.timings.takeover))
    # Also one whose members are all gone: as long as it is not over, the run is owed runners like them.
    committed = [one for one in decided if one.state is provisions.COMMITTED and not one.is_closed]
    owing = [one for one in decided if one.state is provisions.ABORTED and one.owes is not None]
    while committed:
        landed = await ports.records.apply_each([provisions.release(one, over) for one in committed])
        owing += [one for one in landed if isinstance(one, Provision)]
        # Somebody wrote that it is settled, or over, at the same moment: ours must stand too.
        committed = [one.found for one in landed if isinstance(one, Conflict) and isinstance(one.found, Provision)]
    return owing


async def _give_back_free(
    ports: Ports, settings: Settings, held: list[Instance], stop: asyncio.Event, by: str
) -> tuple[list[Instance], set[str], list[str]]:
    """Give back all but those at work, who are left to their job; returns as `_give_back`, and who is left."""
    standing = [one for one in held if one.state in LIVE and one.state is not IDLE]
    at_work = await busy.at_work(ports, settings, [one.id for one in standing])
    landed, moved = await _give_back(ports, settings, [one for one in standing if one.id not in at_work], by)
    if at_work and not stop.is_set():
        named, at_work = at_work, await busy.outlasting(ports, settings, list(at_work))
        freed = [one for one in standing if one.id in named and one.id not in at_work]
        more, moved_too = await _give_back(ports, settings, freed, by)
        landed, moved = landed + more, moved | moved_too
    await busy.spare(ports, settings, standing, at_work, by=by)
    return landed, moved | {one.provision_id for one in standing if one.id in at_work}, list(at_work)


async def _give_back(
    ports: Ports, settings: Settings, held: list[Instance], by: str
) -> tuple[list[Instance], set[str]]:
    """The instances given back, and the provisions of those that somebody else moved at the same moment."""
    changes = [_step(ports, settings, one, by=by) for one in held]
    landed = await ports.records.apply_each(changes)
    moved = {c.before.provision_id for c, one in zip(changes, landed, strict=True) if isinstance(one, Conflict)}
    return [one for one in landed if isinstance(one, Instance)], moved


def _step(ports: Ports, settings: Settings, one: Instance, *, by: str) -> Change[Instance]:
    now = ports.clock.now()
    if one.state is CREATED:
        return lifecycle.end(one, now, by, "its run was released before it was ready")
    return lifecycle.give_back(ports, settings, one, now, by, OVER)


async def _see_through(
    ports: Ports,
    settings: Settings,
    landed: list[Instance],
    stop: asyncio.Event,
    tell: Tell,
    by: str,
) -> dict[str, Fate]:
    """End what was not ready yet; wait until the others are clean, and put them on offer."""
    marked = [one for one in landed if one.state is TERMINATED]
    cleaning = [one for one in landed if one.state is IDLE]
    certain = await lifecycle.terminate(ports, settings, marked, by=by)
    fates = {one.id: Fate.TERMINATED if one.id in certain else Fate.TERMINATING for one in marked}
    tell(ProgressReport(WorkPhase.RELEASE, f"{len(cleaning)} deregister and clean", total=len(cleaning)))
    return fates | await offering.await_and_offer(ports, settings, cleaning, by=by, stop=stop)
