"""Registrations: the CI lists a runner for each instance that serves a run, and no other.

GitHub also says which runners are online, and that decides. A runner that is offline, and whose instance is gone or
serves another run by now, is a ghost: it is deregistered. A runner that is online without an instance runs on an
unknown machine: refresh raises an alarm and leaves it alone. An instance whose runner GitHub does not see gets no job,
and its run would wait in vain: it is ended.

A member of a scale set registers for one job at a time, and GitHub lists its runner without a label. So its label
proves nothing, and it is not listed while it is cleaned between two jobs. One whose agent says that it has no runner
waits for a registration: GitHub may refuse them all, and then no machine is ended for it. It goes back to the pool.
"""

from collections.abc import AsyncIterator, Sequence
from functools import partial

from bullpen.config import Settings
from bullpen.errors import Outdated, Refused, Unavailable
from bullpen.liveness.protection import FEW
from bullpen.model.activity import parse_listening
from bullpen.model.instance import RUNNING, TERMINATED, Instance
from bullpen.model.set_member import set_of
from bullpen.model.signal import Pulse
from bullpen.pool import busy, lifecycle
from bullpen.ports import Ports, Registration
from bullpen.refresh.action import BY, Action, Plan, alarm
from bullpen.refresh.sightings import seen_twice

UNSEEN = "its agent is alive, but the CI sees no runner there"
UNREGISTERED = "its scale set has not got a runner there for long"


async def plans(ports: Ports, settings: Settings, live: Sequence[Instance], *, dry_run: bool) -> AsyncIterator[Plan]:
    try:
        listed = await ports.ci.registrations()
    except Outdated:
        raise
    except (Refused, Unavailable) as failure:
        if not settings.on_github:
            raise
        yield _unknown(settings, failure)
        return
    async for plan in _ghosts(ports, settings, live, listed, dry_run):
        yield plan
    if settings.on_github:
        async for plan in _unseen(ports, settings, live, listed, dry_run):
            yield plan


def _unknown(settings: Settings, failure: Refused | Unavailable) -> Plan:
    """Nothing else depends on that list. A refusal needs an operator; an outage passes."""

    async def perform() -> None:
        if isinstance(failure, Refused):
            raise failure

    return Plan((Action("cannot list runners", settings.github.scope, str(failure), is_done=False),), perform)


async def _ghosts(
    ports: Ports, settings: Settings, live: Sequence[Instance], listed: Sequence[Registration], dry_run: bool
) -> AsyncIterator[Plan]:
    """Registrations of runners whose instance is gone, or serves another run by now."""
    standing = {one.id: one for one in live if one.state is not TERMINATED}
    strangers = [found for found in listed if found.name not in standing]
    if settings.on_github:  # the embedded CI does not know which runners are online
        online = [found.handle for found in strangers if found.online]
        if online := await seen_twice(ports, settings, "runner without instance", online, dry_run):
            reason = "a runner of this pool is online, and no instance of the pool belongs to it"
            yield alarm(*(Action("spare", handle, reason) for handle in online))
    outlived = [
        found
        for found in listed
        if found.online is False
        and (owner := standing.get(found.name)) is not None
        and set_of(owner) is None
        and found.label != owner.run_id
    ]
    ghosts = [found.handle for found in (*strangers, *outlived) if not found.online]
    for handle in await seen_twice(ports, settings, "registration without instance", ghosts, dry_run):
        # A runner that GitHub still counts as busy stays, and is tried again next time.
        action = Action("deregister", handle, "a registered runner whose instance is gone")
        yield Plan((action,), partial(ports.ci.remove, handle))


async def _unseen(
    ports: Ports, settings: Settings, live: Sequence[Instance], listed: Sequence[Registration], dry_run: bool
) -> AsyncIterator[Plan]:
    """Instances that serve a run and are alive, and that GitHub does not list, or not as online."""
    online = {found.name for found in listed if found.online is not False}
    missing = {one.id: one for one in live if one.state is RUNNING and one.id not in online}
    # A runner for one job is cleaned between two jobs, and is not registered then.
    between_jobs = settings.timings.cleaning
    longer = between_jobs if settings.github.registration == "jit" else 0.0
    of_runs = [id for id, one in missing.items() if set_of(one) is None]
    of_sets = [id for id, one in missing.items() if set_of(one) is not None]
    confirmed = [
        *await seen_twice(ports, settings, "instance unknown to the CI", of_runs, dry_run, longer=longer),
        *await seen_twice(ports, settings, "set member unknown to the CI", of_sets, dry_run, longer=between_jobs),
    ]
    if not confirmed:
        return
    running = sum(one.state is RUNNING for one in live)
    if running > FEW and len(confirmed) > settings.liveness.brake_fraction * running:
        # So many do not lose their connection at once: the fault is GitHub's.
        reason = f"the CI does not see {len(confirmed)} of {running} runners: none of them is ended for that"
        yield alarm(Action("spare", settings.github.scope, reason))
        return
    pulses = await ports.signals.read(confirmed)
    # A silent one is left to its lease. A busy one is not ended: GitHub gives the job up, or sees the runner again.
    living = [id for id in confirmed if pulses[id].is_recent(ports.clock.now(), settings.timings.alive)]
    at_work = busy.activities(settings, pulses)
    if held_up := [id for id in living if id in at_work]:
        yield alarm(*(Action("spare", id, f"{UNSEEN}, and {busy.describe(at_work[id])} runs on it") for id in held_up))
    free = [missing[id] for id in living if id not in at_work]
    if waiting := [one for one in free if set_of(one) is not None and not _listens(pulses[one.id])]:
        yield Plan(
            tuple(Action("give back", one.id, UNREGISTERED) for one in waiting),
            partial(_give_back, ports, settings, waiting),
        )
    if condemned := [one for one in free if one not in waiting]:
        yield Plan(
            tuple(Action("terminate", one.id, UNSEEN) for one in condemned),
            partial(_end_unseen, ports, settings, condemned),
        )


def _listens(pulse: Pulse) -> bool:
    return pulse.heartbeat is not None and parse_listening(pulse.heartbeat.activity) is not None


async def _give_back(ports: Ports, settings: Settings, waiting: Sequence[Instance]) -> None:
    now = ports.clock.now()
    changes = [lifecycle.give_back(ports, settings, one, now, BY, UNREGISTERED) for one in waiting]
    await ports.records.apply_each(changes)


async def _end_unseen(ports: Ports, settings: Settings, condemned: Sequence[Instance]) -> None:
    """End the instances that a second list does not show either: an entry that moves between pages while they are read
    is easily missed. Raises as listing does, and then none is ended."""
    online = {found.name for found in await ports.ci.registrations() if found.online is not False}
    unseen = [one for one in condemned if one.id not in online]
    await lifecycle.expire_and_terminate(ports, settings, unseen, UNSEEN, by=BY)
