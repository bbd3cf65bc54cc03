"""Release: a run is over; its instances deregister, clean, attest, and go on offer again.

    running → idle (cleaning) → on offer          claimed → rolled back          created → terminated

All of a run's instances are given back in one batch and awaited together. If a release is interrupted, another release,
a refresh, or the last look of the next provision finishes it. An instance that executes a job of GitHub is left alone:
it stays a debt of its provision, and the process that pays that debt gives it back once the job has ended.
"""

import asyncio

from bullpen import jobs
from bullpen.concurrency import gather_or_cancel
from bullpen.config import Settings
from bullpen.errors import Conflict
from bullpen.history.bookkeeper import book_moved_on, quietly
from bullpen.lazy_dataclass import dataclass
from bullpen.model import provision as provisions
from bullpen.model.instance import CREATED, IDLE, LIVE, TERMINATED, Instance, InstanceFate
from bullpen.model.progress import ProgressReport, Tell, WorkPhase
from bullpen.model.provision import Provision
from bullpen.model.times import later
from bullpen.model.transition import STORY_LENGTH, Change
from bullpen.pool import busy, debts, lifecycle, offering
from bullpen.ports import Ports

OVER = "its run was released"
TAKE_OVER = 20
"""Debts of other processes that a release pays at the end."""


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
    ports: Ports, settings: Settings, run_id: str, *, stop: asyncio.Event, tell: Tell = lambda report: None
) -> ReleaseOutcome:
    """Give back every instance of a run. Releasing a run that has none is not an error."""
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
    # Before the debt is settled: another process that pays it ends the jobs as well.
    await jobs.conclude(ports, settings, run_id, by=by, why=OVER)
    # Instances that another process moved, or that are busy, are still owed: the payer of the debt checks again.
    settled = [one for one in owing if one.id not in moved]
    await ports.records.apply_each([lifecycle.settling(settings, one, ports.clock.now(), by) for one in settled])
    # Beside the wait: the time of machines whose stories would soon forget a step is booked.
    fates, _ = await gather_or_cancel([_see_through(ports, settings, landed, stop, tell, by), _book(ports, landed)])
    fates |= dict.fromkeys(at_work, InstanceFate.BUSY)
    if InstanceFate.CLEANING not in fates.values():
        # Clean or ended, nothing runs there any more: no result of a job can come.
        await jobs.conclude(ports, settings, run_id, by=by, why=OVER, running=True)
    await debts.pay_due(ports, settings, TAKE_OVER, by=by)

    def having(*some: InstanceFate) -> tuple[str, ...]:
        return tuple(id for id, fate in fates.items() if fate in some)

    return ReleaseOutcome(
        run_id=run_id,
        offered=having(InstanceFate.OFFERED),
        terminated=having(InstanceFate.TERMINATED, InstanceFate.TERMINATING),
        pending=having(InstanceFate.CLEANING),
        duration=loop.time() - began,
        busy=having(InstanceFate.BUSY),
    )


async def _book(ports: Ports, given_back: list[Instance]) -> dict[str, InstanceFate]:
    """A use takes four steps and a story has sixteen: half of the releases of a machine ask nothing."""
    due = [one for one in given_back if one.version % STORY_LENGTH >= STORY_LENGTH // 2]
    await quietly(book_moved_on(ports, due))
    return {}


async def _decide(ports: Ports, settings: Settings, found: list[Provision], by: str) -> list[Provision]:
    """Abort what is open, so that nothing more is acquired for the run, and finish what was committed."""
    aborted = lifecycle.aborted(ports, settings, OVER, by=by)
    decided = [one for one in found if one.state is not provisions.OPEN]
    undecided = [one for one in found if one.state is provisions.OPEN]
    while undecided:
        landed = await ports.records.apply_each([provisions.abort(one, aborted) for one in undecided])
        # One that its own process decided in between stays decided; one that only moved on is tried again.
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
    """The run's instances, by its index and as members. Each is read by id, because an index may lag."""
    ids = dict.fromkeys(one.id for one in await ports.records.run_instances(run_id))
    ids |= dict.fromkeys(id for one in decided for id in one.members)
    found = await ports.records.instances(list(ids)) if ids else {}
    # One without a provision serves a scale set: no run can release it.
    return [one for one in found.values() if one.run_id == run_id and one.provision_id]


async def _unseen_provisions(ports: Ports, held: list[Instance], decided: list[Provision]) -> list[Provision]:
    """Provisions that hold instances of the run and were opened since the list was read, or are not in the index
    yet."""
    seen = {one.id for one in decided}
    unseen = [id for id in dict.fromkeys(one.provision_id for one in held) if id not in seen]
    return [one for id in unseen if (one := await ports.records.provision(id)) is not None]


async def _conclude(ports: Ports, settings: Settings, decided: list[Provision], by: str) -> list[Provision]:
    """Write down that the run is over, before the first instance is given back; returns the provisions that owe."""
    now = ports.clock.now()
    over = provisions.Concluded(at=now, by=by, why=OVER, settle_due=later(now, settings.timings.takeover))
    # Also one whose members are all gone: until it is released, lost runners of the run are replaced.
    committed = [one for one in decided if one.state is provisions.COMMITTED and not one.is_closed]
    owing = [one for one in decided if one.state is provisions.ABORTED and one.owes is not None]
    while committed:
        landed = await ports.records.apply_each([provisions.release(one, over) for one in committed])
        owing += [one for one in landed if isinstance(one, Provision)]
        # Another process settled or released it at the same moment: this write must land as well.
        committed = [one.found for one in landed if isinstance(one, Conflict) and isinstance(one.found, Provision)]
    return owing


async def _give_back_free(
    ports: Ports, settings: Settings, held: list[Instance], stop: asyncio.Event, by: str
) -> tuple[list[Instance], set[str], list[str]]:
    """Give back all but the busy instances; returns as `_give_back`, and the busy ones."""
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
    """The instances given back, and the provisions of those that another process moved at the same moment."""
    landed = await lifecycle.land_each(ports, held, lambda one: _step(ports, settings, one, by=by))
    moved = {had.provision_id for had, one in zip(held, landed, strict=True) if isinstance(one, Conflict)}
    return [one for one in landed if isinstance(one, Instance)], moved


def _step(ports: Ports, settings: Settings, one: Instance, *, by: str) -> Change[Instance]:
    now = ports.clock.now()
    if one.state is CREATED:
        return lifecycle.end(one, now, by, "its run was released before it was ready")
    return lifecycle.give_back(ports, settings, one, now, by, OVER)


async def _see_through(
    ports: Ports, settings: Settings, landed: list[Instance], stop: asyncio.Event, tell: Tell, by: str
) -> dict[str, InstanceFate]:
    """End the instances that were not ready yet; wait until the others are clean, and put them on offer."""
    marked = [one for one in landed if one.state is TERMINATED]
    cleaning = [one for one in landed if one.state is IDLE]
    certain = await lifecycle.terminate(ports, settings, marked, by=by)
    fates = {one.id: InstanceFate.TERMINATED if one.id in certain else InstanceFate.TERMINATING for one in marked}
    if cleaning:
        tell(ProgressReport(WorkPhase.RELEASE, f"deregistering and cleaning: {len(cleaning)}", total=len(cleaning)))
    return fates | await offering.await_and_offer(ports, settings, cleaning, by=by, stop=stop)
