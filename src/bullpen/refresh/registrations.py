"""Registrations: the CI lists a runner for each instance that serves a run, and no other.

GitHub also says which runners are online, and that decides. A runner that is offline, and whose instance is gone or
serves another run by now, is a ghost: it is deregistered. A runner that is online without an instance runs on an
unknown machine: refresh raises an alarm and leaves it alone. An instance whose runner GitHub does not see gets no job,
and its run would wait in vain: it is ended.

A member of a scale set registers for one job at a time, and GitHub lists its runner without a label. So its label
proves nothing, and it is not listed while it is cleaned between two jobs. What its agent reports decides which of its
registrations it uses, and whether GitHub should see it (ghost_members.py). One without a registration waits for it. If
GitHub refuses them, no machine is ended for that: the member goes back to the pool.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial

from bullpen.config import Settings
from bullpen.errors import Outdated, Refused, Unavailable
from bullpen.liveness.protection import FEW
from bullpen.model.activity import named_runner
from bullpen.model.instance import RUNNING, TERMINATED, Instance
from bullpen.model.set_member import set_of
from bullpen.pool import busy, lifecycle
from bullpen.ports import Ports, Registration
from bullpen.refresh import ghost_members
from bullpen.refresh.action import BY, Action, Plan, alarm
from bullpen.refresh.sightings import seen_twice

UNSEEN_RUNNER = "the CI sees no runner there"
UNSEEN = "its agent is alive, but the CI sees no runner there"
UNREGISTERED = "GitHub refuses to register a runner for its scale set"
INSTANCE_GONE = "a registered runner whose instance is gone"
UNUSED = "a registered runner that its instance does not use any more"


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
    """Registrations of runners whose instance is gone, or serves another run by now, or uses another registration."""
    standing = {one.id: one for one in live if one.state is not TERMINATED}
    strangers = [found for found in listed if found.name not in standing]
    if settings.on_github:  # the embedded CI does not know which runners are online
        online = [found.handle for found in strangers if found.online]
        if online := await seen_twice(ports, settings, "runner without instance", online, dry_run):
            reason = "a runner of this pool is online, and no instance of the pool belongs to it"
            yield alarm(*(Action("spare", handle, reason) for handle in online))
    offline = [found for found in listed if found.online is False and found.name in standing]
    # A registration without a label is that of a set, which the instance does not serve any more.
    outlived = [
        found
        for found in offline
        if set_of(owner := standing[found.name]) is None and (found.label != owner.run_id or not found.label)
    ]
    of_members = [found for found in offline if set_of(standing[found.name]) is not None]
    gone = dict.fromkeys((found.handle for found in strangers if not found.online), INSTANCE_GONE)
    unused = dict.fromkeys((one.handle for one in (*outlived, *await _leftovers(ports, settings, of_members))), UNUSED)
    reasons = gone | unused
    for handle in await seen_twice(ports, settings, "registration without instance", [*reasons], dry_run):
        # A runner that GitHub still counts as busy stays, and is tried again next time.
        yield Plan((Action("deregister", handle, reasons[handle]),), partial(ports.ci.remove, handle))


async def _leftovers(ports: Ports, settings: Settings, offline: Sequence[Registration]) -> list[Registration]:
    """Those of these registrations whose living member uses another one: GitHub's answer was lost, or the process died
    that had it made. A member that uses none at the moment may be about to use any of them."""
    pulses = await ports.signals.read(list({found.name: None for found in offline})) if offline else {}
    now, within = ports.clock.now(), settings.timings.alive
    beats = {id: one.heartbeat for id, one in pulses.items() if one.heartbeat and one.is_recent(now, within)}
    used = {id: runner for id, beat in beats.items() if (runner := named_runner(beat.activity))}
    return [found for found in offline if used.get(found.name, found.handle) != found.handle]


async def _unseen(
    ports: Ports, settings: Settings, live: Sequence[Instance], listed: Sequence[Registration], dry_run: bool
) -> AsyncIterator[Plan]:
    """Instances that serve a run and are alive, and that GitHub does not list, or not as online."""
    online = {found.name for found in listed if found.online is not False}
    unseen = {one.id: one for one in live if one.state is RUNNING and one.id not in online}
    members = {id: one for id, one in unseen.items() if set_of(one) is not None}
    missing = {id: one for id, one in unseen.items() if id not in members}
    # A runner for one job is cleaned between two jobs, and is not registered then.
    longer = settings.timings.cleaning if settings.github.registration == "jit" else 0.0
    confirmed = await seen_twice(ports, settings, "instance unknown to the CI", [*missing], dry_run, longer=longer)
    async for plan in _unregistered(ports, settings, members, dry_run):
        yield plan
    found = await ghost_members.find(ports, settings, members, dry_run=dry_run)
    count = len(confirmed) + len(found.ghosts)
    running = sum(one.state is RUNNING for one in live)
    if running > FEW and count > settings.liveness.brake_fraction * running:
        # So many do not lose their connection at once: the fault is GitHub's.
        reason = f"the CI does not see {count} of {running} runners: none of them is ended for that"
        yield alarm(Action("spare", settings.github.scope, reason))
        return
    for plan in ghost_members.plans(ports, settings, found):
        yield plan
    pulses = await ports.signals.read(confirmed) if confirmed else {}
    # A silent one is left to its lease. A busy one is not ended: GitHub gives the job up, or sees the runner again.
    living = [id for id in confirmed if pulses[id].is_recent(ports.clock.now(), settings.timings.alive)]
    at_work = busy.activities(settings, pulses)
    if held_up := [id for id in living if id in at_work]:
        reasons = {id: f"{busy.describe(at_work[id])}, but {UNSEEN_RUNNER}" for id in held_up}
        yield alarm(*(Action("spare", id, reason, kind="job") for id, reason in reasons.items()))
    if condemned := [missing[id] for id in living if id not in at_work]:
        yield Plan(
            tuple(Action("terminate", one.id, UNSEEN) for one in condemned),
            partial(_end_unseen, ports, settings, condemned),
        )


async def _unregistered(
    ports: Ports, settings: Settings, unseen: Mapping[str, Instance], dry_run: bool
) -> AsyncIterator[Plan]:
    """Members whose living agents report neither a registration nor a job for long, because GitHub refuses to register
    runners for their set. It may do so until an operator acts. While it does not answer, they wait."""
    failures = {id: ports.ci.failing(one.run_id) for id, one in unseen.items()}
    refused = [id for id, failure in failures.items() if failure is not None and failure.is_refusal]
    pulses, now = await ports.signals.read(refused) if refused else {}, ports.clock.now()
    beats = {id: one.heartbeat for id, one in pulses.items() if one.is_recent(now, settings.timings.alive)}
    idle = [id for id, beat in beats.items() if beat is not None and not beat.activity]
    topic, longer = "set member unknown to the CI", settings.timings.cleaning
    if waiting := await seen_twice(ports, settings, topic, idle, dry_run, longer=longer):
        actions = tuple(Action("give back", id, UNREGISTERED) for id in waiting)
        yield Plan(actions, partial(_give_back, ports, settings, [unseen[id] for id in waiting]))


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
