"""Handing instances over: to the run that committed them, back to the pool, or to their end.

Nothing here trusts that it is alone. Two may look at one record; every write is conditional on the record as seen,
every outside call is idempotent, and whoever comes second finds a Conflict and leaves it at that.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

from bullpen.config import Settings
from bullpen.errors import Conflict
from bullpen.model import instance as instances
from bullpen.model import provision as provisions
from bullpen.model.instance import CLAIMED, CREATED, RUNNING, TERMINATED, Instance
from bullpen.model.provision import Provision
from bullpen.model.transition import Change
from bullpen.pool import busy
from bullpen.ports import Ports


class Fate(StrEnum):
    """What became of an instance that was given up."""

    TERMINATED = "terminated"  # its end is certain
    TERMINATING = "terminating"  # its end is written down and owed
    OFFERED = "offered"  # clean and on offer again
    CLEANING = "cleaning"  # given back; its attestation is awaited
    BUSY = "busy"  # its CI gave it a job: it goes back once that has ended
    NOT_OURS = "not ours"  # belongs to somebody else meanwhile: left alone


def later(at: datetime, seconds: float) -> datetime:
    return at + timedelta(seconds=seconds)


async def carry_out(
    ports: Ports, settings: Settings, decided: Provision, held: Iterable[Instance], *, by: str, hurry: bool = False
) -> tuple[dict[str, Instance | None], list[str]]:
    """Do what a decided provision says to every instance held for it; returns the records as they stand, by id, and
    those that were left alone because they are at work.

    Members of a committed one run, and are given back once it is over; everything else that was claimed is given back,
    and what was created is ended.
    """
    concerned = [one for one in held if _concerns(decided, one)]
    leaving = [one for one in concerned if not _is_to_run(decided, one)]
    at_work = await busy.at_work(ports, settings, [one.id for one in leaving], hurry=hurry)
    await busy.spare(ports, settings, leaving, at_work, by=by, lasts=decided.max_runtime)
    stay = set(at_work)
    if decided.is_revoked:
        # The run goes on: a runner that is given back would cancel the job that it executes.
        stay |= await busy.executing(ports, settings, decided.run_id) & {one.id for one in leaving}
    now = ports.clock.now()
    changes = [_consequence(ports, settings, decided, one, now, by) for one in concerned if one.id not in stay]
    landed = await ports.records.apply_each(changes)
    standing = {c.before.id: r.found if isinstance(r, Conflict) else r for c, r in zip(changes, landed, strict=True)}
    return standing, sorted(stay)


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


def settling(settings: Settings, decided: Provision, now: datetime, by: str) -> Change[Provision]:
    """The change that says that nothing is owed any more. The record outlives the members that run."""
    step = provisions.settle_committed if decided.state is provisions.COMMITTED else provisions.settle_aborted
    runs_on = decided.state is provisions.COMMITTED and not decided.is_over
    lasts = settings.remembers + (decided.max_runtime if runs_on else 0.0)
    return step(decided, provisions.Settled(at=now, by=by, purge_at=later(now, lasts)))


def postponing(decided: Provision, now: datetime, by: str) -> Change[Provision]:
    """The change that leaves a debt for later: somebody who should be given back is at work."""
    return provisions.postpone(decided, provisions.Postponed(at=now, by=by, due=later(now, busy.LOOK_AGAIN)))


def give_back(ports: Ports, settings: Settings, held: Instance, now: datetime, by: str, why: str) -> Change[Instance]:
    """The change that gives a claimed or running instance back to be cleaned."""
    fresh = ports.chance.token()
    until = later(now, settings.timings.cleaning)
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
    """The change that marks an instance for its end, as seen: it fails if the owner changed meanwhile."""
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
    ports: Ports, settings: Settings, condemned: Sequence[Instance], why: str, *, by: str
) -> dict[str, Fate]:
    """Mark first, terminate after; what belongs to somebody else meanwhile is left alone."""
    return await end_together(ports, settings, [(one, why) for one in condemned], by=by)


async def end_together(
    ports: Ports, settings: Settings, condemned: Sequence[tuple[Instance, str]], *, by: str
) -> dict[str, Fate]:
    """Each for its own reason."""
    now = ports.clock.now()
    landed = await ports.records.apply_each([end(one, now, by, why) for one, why in condemned])
    marked = [one for one in landed if isinstance(one, Instance)]
    certain = await terminate(ports, settings, marked, by=by)
    fates = {one.id: Fate.NOT_OURS for one, _ in condemned}
    for one in marked:
        fates[one.id] = Fate.TERMINATED if one.id in certain else Fate.TERMINATING
    return fates
