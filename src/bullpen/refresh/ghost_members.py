"""Ghost members: the runner of a scale set listens, and GitHub does not show it online. It gets no job, and its set
counts it as idle.

    listens unseen ── for long ──▶ recalled: it registers again ──▶ seen: forgotten
                                                               └──▶ listens unseen again, for as long: ended

What its living agent reports decides. A member that does not listen is no ghost, however long GitHub does not show it:
it is cleaned between two jobs, or GitHub makes no registrations at the moment. Each registration counts for itself, so
a member with short jobs is not suspected because several looks fell between two of them. A silent member is left to its
lease.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial

from bullpen.concurrency import gather_or_cancel
from bullpen.config import Settings
from bullpen.errors import Conflict
from bullpen.lazy_dataclass import dataclass
from bullpen.model import set_member
from bullpen.model.activity import Listening, parse_listening
from bullpen.model.instance import Instance
from bullpen.model.times import later
from bullpen.pool import lifecycle
from bullpen.ports import Ports, Removal
from bullpen.refresh.action import BY, Action, Plan, PlanReport
from bullpen.refresh.sightings import seen_twice

UNSEEN = "its runner listens, but the CI does not see it"
IN_VAIN = f"{UNSEEN}, although it has registered again"
RECALLED = "set member recalled"


@dataclass(frozen=True, slots=True)
class GhostMember:
    instance: Instance
    listening: Listening
    was_recalled: bool  # and is a ghost still, or again


@dataclass(frozen=True, slots=True)
class GhostMembers:
    """`recalled` members were ghosts, and GitHub has shown none of their runners online since."""

    ghosts: Sequence[GhostMember]
    recalled: Sequence[str]


async def find(ports: Ports, settings: Settings, unseen: Mapping[str, Instance], *, dry_run: bool) -> GhostMembers:
    """The ghosts among these members, of which GitHub shows no runner online. None of a set for which it registers no
    runners at the moment: they could not register again."""
    now, longer = ports.clock.now(), settings.timings.cleaning
    able = [id for id, one in unseen.items() if ports.ci.failing(one.run_id) is None]
    listening = await _listening(ports, settings, able)
    members = {one.listens: id for id, one in listening.items()}
    topic = "runner of a set unknown to the CI"
    confirmed = await seen_twice(ports, settings, topic, [*members], dry_run, longer=longer)
    since = await ports.observations.observe(RECALLED, [*unseen], now, remember=False)
    recalled = {id: at for id, at in since.items() if at < now}
    # The others have been seen: they are recalled once more if they become ghosts again.
    await ports.observations.observe(RECALLED, [*recalled], now, remember=not dry_run)
    over = {id for id, at in recalled.items() if later(at, settings.timings.orphan + longer) <= now}
    ids = [members[runner] for runner in confirmed]
    ghosts = [GhostMember(unseen[id], listening[id], id in over) for id in ids if id in over or id not in recalled]
    return GhostMembers(ghosts, [*recalled])


def plans(ports: Ports, settings: Settings, found: GhostMembers) -> list[Plan]:
    """Recall the new ghosts, and end those whose recall did not help."""
    made = []
    if fresh := [one for one in found.ghosts if not one.was_recalled]:
        perform = partial(_recall, ports, fresh, found.recalled)
        made.append(Plan(_actions("recall", fresh, UNSEEN), perform, is_certain=False))
    if lasting := [one for one in found.ghosts if one.was_recalled]:
        made.append(
            Plan(_actions("terminate", lasting, IN_VAIN), partial(_end, ports, settings, lasting), is_certain=False)
        )
    return made


async def _listening(ports: Ports, settings: Settings, ids: Sequence[str]) -> dict[str, Listening]:
    """The registrations with which living agents listen."""
    pulses = await ports.signals.read(ids) if ids else {}
    now, within = ports.clock.now(), settings.timings.alive
    beats = {id: one.heartbeat for id, one in pulses.items() if one.heartbeat and one.is_recent(now, within)}
    return {id: found for id, beat in beats.items() if (found := parse_listening(beat.activity)) is not None}


async def _recall(ports: Ports, ghosts: Sequence[GhostMember], recalled: Sequence[str]) -> PlanReport:
    free, busy = await _deregister(ports, ghosts)
    now, done = ports.clock.now(), []
    for one in free:
        old, fresh = one.instance.round, ports.chance.token()
        event = set_member.Recalled(at=now, by=BY, why=UNSEEN, old_round=old, round=fresh)
        with suppress(Conflict):  # another process moved it, and knows better
            await ports.records.apply(set_member.recall(one.instance, event))
            done.append(one)
    await ports.observations.observe(RECALLED, [*recalled, *(one.instance.id for one in done)], now)
    return PlanReport((*_actions("recall", done, UNSEEN), *_spared(busy)))


async def _end(ports: Ports, settings: Settings, ghosts: Sequence[GhostMember]) -> PlanReport:
    """End those that a second list does not show either: an entry that moves between pages while they are read is
    easily missed. Raise as listing and deregistering do, and then none is ended: their agents live."""
    online = {found.handle for found in await ports.ci.registrations() if found.online is not False}
    free, busy = await _deregister(ports, [one for one in ghosts if one.listening.listens not in online])
    await lifecycle.expire_and_terminate(ports, settings, [one.instance for one in free], IN_VAIN, by=BY)
    return PlanReport((*_actions("terminate", free, IN_VAIN), *_spared(busy)))


async def _deregister(
    ports: Ports, ghosts: Sequence[GhostMember]
) -> tuple[Sequence[GhostMember], Sequence[GhostMember]]:
    """Have their registrations removed; returns those that are free now, and those that GitHub calls busy."""
    removals = await gather_or_cancel([ports.scale_sets.remove_runner(one.listening.id) for one in ghosts])
    busy = [one for one, removal in zip(ghosts, removals, strict=True) if removal is Removal.BUSY]
    return [one for one in ghosts if one not in busy], busy


def _actions(what: str, ghosts: Sequence[GhostMember], why: str) -> tuple[Action, ...]:
    return tuple(Action(what, one.instance.id, why) for one in ghosts)


def _spared(ghosts: Sequence[GhostMember]) -> tuple[Action, ...]:
    return _actions("spare", ghosts, f"{UNSEEN}, and GitHub knows of a job on it")
