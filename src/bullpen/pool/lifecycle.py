"""Lifecycle: instances are committed to a run, given back to the pool, or ended.

Several processes may work on one record at the same time. Every write is conditional on the record as read, every call
to an engine is idempotent, and the process that comes second gets a Conflict and leaves the record alone.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

from bullpen.config import Settings
from bullpen.errors import Conflict
from bullpen.model import instance as instances
from bullpen.model import provision as provisions
from bullpen.model.instance import CLAIMED, CREATED, RUNNING, TERMINATED, Instance, InstanceFate
from bullpen.model.provision import Provision
from bullpen.model.times import later
from bullpen.model.transition import Change
from bullpen.pool import busy
from bullpen.ports import Ports


async def carry_out(
    ports: Ports, settings: Settings, decided: Provision, held: Iterable[Instance], *, by: str, hurry: bool = False
) -> tuple[dict[str, Instance | None], list[str]]:
    """Carry out the decision of a provision on every instance held for it; returns the records as stored, by id, and
    the ids that were left alone because they execute a job.

    Members of a committed provision run, and are given back once it is over. Every other claimed instance is given
    back, and every other created one is ended.
    """
    concerned = [one for one in held if _concerns(decided, one)]
    leaving = [one for one in concerned if not _is_to_run(decided, one)]
    at_work = await busy.at_work(ports, settings, [one.id for one in leaving], hurry=hurry)
    await busy.spare(ports, settings, leaving, at_work, by=by, lasts=decided.max_runtime)
    stay = set(at_work)
    if decided.is_revoked:
        # The run goes on: giving a runner back would cancel the job that it executes.
        stay |= await busy.executing(ports, settings, decided.run_id) & {one.id for one in leaving}
    now = ports.clock.now()
    free = [one for one in concerned if one.id not in stay]
    landed = await land_each(ports, free, lambda one: _consequence(ports, settings, decided, one, now, by))
    standing = {one.id: r.found if isinstance(r, Conflict) else r for one, r in zip(free, landed, strict=True)}
    return standing, sorted(stay)


async def land_each(
    ports: Ports, held: Sequence[Instance], step: Callable[[Instance], Change[Instance]]
) -> list[Instance | Conflict]:
    """Take a step of each instance, on its own. One that was drained in between is still the holder's: for it the step
    is taken again, on the record as it stands now."""
    landed: list[Instance | Conflict] = await ports.records.apply_each([step(one) for one in held])
    drained = {at: found for at, one in enumerate(held) if (found := _only_drained(one, landed[at])) is not None}
    if drained:
        again = await ports.records.apply_each([step(one) for one in drained.values()])
        for at, one in zip(drained, again, strict=True):
            landed[at] = one
    return landed


def _only_drained(held: Instance, landed: Instance | Conflict) -> Instance | None:
    """The record, if a drain is all that came between."""
    found = landed.found if isinstance(landed, Conflict) else None
    if not isinstance(found, Instance) or not found.is_drained or held.is_drained:
        return None
    return found if (found.round, found.state) == (held.round, held.state) else None


def _concerns(decided: Provision, held: Instance) -> bool:
    if held.provision_id != decided.id or held.state not in (CLAIMED, CREATED, RUNNING):
        return False
    return held.state is not RUNNING or decided.is_over


def _is_to_run(decided: Provision, held: Instance) -> bool:
    return decided.state is provisions.COMMITTED and held.id in decided.members and not decided.is_over


def _consequence(
    ports: Ports, settings: Settings, decided: Provision, held: Instance, now: datetime, by: str
) -> Change[Instance]:
    if _is_to_run(decided, held):
        until = later(now, decided.max_runtime)
        return instances.commit(
            held, instances.Committed(at=now, by=by, round=held.round, provision=decided, until=until)
        )
    why = decided.reason or ("its run was released" if decided.is_over else "surplus")
    return end(held, now, by, why) if held.state is CREATED else give_back(ports, settings, held, now, by, why)


def aborted(ports: Ports, settings: Settings, why: str, *, by: str) -> provisions.Aborted:
    """The end of an open provision. This process has a head start to settle it."""
    now = ports.clock.now()
    return provisions.Aborted(at=now, by=by, why=why, settle_due=later(now, settings.timings.takeover))


def settling(settings: Settings, decided: Provision, now: datetime, by: str) -> Change[Provision]:
    """The change that marks a provision as settled. Its record outlives the members that run."""
    step = provisions.settle_committed if decided.state is provisions.COMMITTED else provisions.settle_aborted
    runs_on = decided.state is provisions.COMMITTED and not decided.is_over
    lasts = settings.remembers + (decided.max_runtime if runs_on else 0.0)
    return step(decided, provisions.Settled(at=now, by=by, purge_at=later(now, lasts)))


def postponing(decided: Provision, now: datetime, by: str) -> Change[Provision]:
    """The change that postpones a debt: an instance that should be given back executes a job."""
    return provisions.postpone(decided, provisions.Postponed(at=now, by=by, due=later(now, busy.CHECK_AGAIN)))


def give_back(
    ports: Ports, settings: Settings, held: Instance, now: datetime, by: str, why: str, *, lasts: float = 0.0
) -> Change[Instance]:
    """The change that gives a claimed or running instance back to be cleaned, within `lasts` seconds if the usual time
    is too short."""
    fresh = ports.chance.token()
    until = later(now, lasts or settings.timings.cleaning)
    due = later(now, settings.timings.takeover)
    if held.state is RUNNING:
        return instances.release(
            held,
            instances.Released(at=now, by=by, why=why, run_id=held.run_id, round=fresh, until=until, offer_due=due),
        )
    return instances.roll_back(
        held,
        instances.RolledBack(at=now, by=by, why=why, old_round=held.round, round=fresh, until=until, offer_due=due),
    )


def end(held: Instance, now: datetime, by: str, why: str) -> Change[Instance]:
    """The change that marks an instance for its end, as read: it fails if the owner changed in between."""
    return instances.expire(held, instances.Expired(at=now, by=by, why=why, round=held.round))


async def terminate(ports: Ports, settings: Settings, marked: Sequence[Instance], *, by: str) -> list[str]:
    """End the machines of terminated records and write that it is done; returns the ids whose end is certain."""
    owing = [one for one in marked if one.state is TERMINATED and one.owes is not None]
    if not owing:
        return []
    certain = await ports.compute.terminate([one.id for one in owing])
    now = ports.clock.now()
    ended = instances.Ended(at=now, by=by, why="its end is confirmed", purge_at=later(now, settings.remembers))
    await ports.records.apply_each([instances.done(one, ended) for one in owing if one.id in certain])
    return certain


async def expire_and_terminate(
    ports: Ports, settings: Settings, condemned: Sequence[Instance], why: str | Mapping[str, str], *, by: str
) -> dict[str, InstanceFate]:
    """Mark first, terminate after; for one reason or for a reason each, by id. An instance that another process has
    moved is left alone."""
    now = ports.clock.now()
    landed = await land_each(
        ports, condemned, lambda one: end(one, now, by, why if isinstance(why, str) else why[one.id])
    )
    marked = [one for one in landed if isinstance(one, Instance)]
    certain = await terminate(ports, settings, marked, by=by)
    fates = {one.id: InstanceFate.NOT_OURS for one in condemned}
    for one in marked:
        fates[one.id] = InstanceFate.TERMINATED if one.id in certain else InstanceFate.TERMINATING
    return fates
