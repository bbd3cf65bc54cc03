"""Supply: how many runners a set needs, and which members it does not need. Pure.

    waiting = assigned − running, of one snapshot, without phantoms and without jobs that began since
    need    = waiting + min
    have    = idle + starting
    missing = need − have, as far as `max` allows: claimed from the pool, or launched

Four things may make the CI's numbers wrong for long, and none may cost a machine or a job:

- *A ghost*: a runner listens and the CI does not know it. A job that waits beside an idle member for long has the one
  that idled longest register again, and one more member is claimed.
- *A phantom*: after an incident the CI counts jobs that do not exist. What waits for ten minutes beside idle members
  counts as phantom. It never exceeds what waits, and one old job that starts ends it. One member stays as a probe.
- *Silence*: a re-run is not announced to a set without a runner. If a webhook or a list shows a queued job, and none
  begins, one member waits for it.
- *An outage*: without an answer of the CI nothing is claimed, withdrawn or launched.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from bullpen.lazy_dataclass import dataclass
from bullpen.model.instance import CLAIMED, RUNNING
from bullpen.model.scale_set import READY, ScaleSet
from bullpen.model.served_set import mismatch, served
from bullpen.model.ticket import Requirements
from bullpen.ports.demand import JobDemand
from bullpen.scale_sets.members import REPORTED, MemberState, SetMember

ANNOUNCED = 60.0  # seconds for which a job that was announced beside a count of 0 is believed
OUTAGE = 300.0  # seconds without an answer after which nothing is decided by old numbers
GHOST = 30.0  # seconds that a job may wait beside an idle member: the CI gives it one within one
GHOST_AGAIN = 300.0  # seconds between two recalls: a job may also wait for a reason of its own
PHANTOM = 600.0  # seconds that jobs may wait beside idle members: the CI takes an assignment back after 300
PROBED = 300.0  # seconds after a session began in which one member waits for jobs that were never announced
QUEUED = 20.0  # seconds that a job may be queued before the CI has announced it for sure
UNANNOUNCED = 300.0  # seconds in which one member waits for a queued job that the CI did not announce
MARGIN = 900.0  # seconds of a member's threshold beyond the longest job
RENEWED_BELOW = 300.0  # seconds of that margin that may be left
BEGUN = 1000  # runners: more than a set gets while a message may be late
BETWEEN_JOBS = 600.0  # seconds that a member may take from one job to the next registration: cleaning takes 120


@dataclass(frozen=True, slots=True)
class QueuedHint:
    """A webhook, a list, or the rescue of a lost job, showed a job of the set that waits."""

    since: float  # when it was first shown
    at: float  # when it was last shown

    def again(self, time: float) -> "QueuedHint":
        return QueuedHint(self.since, time) if time - self.at < UNANNOUNCED else QueuedHint(time, time)


@dataclass(frozen=True, slots=True)
class SupplyMemory:
    """What one plan leaves to the next. Times are the event loop's, but for `phantom_at`."""

    phantom: int = 0
    phantom_at: datetime | None = None  # when it last rose, on the wall clock: jobs say when they were queued
    phantom_since: float = 0.0  # the same by the event loop: only jobs that start later show anything
    beside_since: float | None = None  # since when jobs wait although a member idles
    recalled_at: float | None = None
    queued: QueuedHint | None = None
    begun: tuple[tuple[str, float], ...] = ()  # runners that a heartbeat showed with a job, and when it first did


@dataclass(frozen=True, slots=True)
class SupplyPlan:
    """`claims` are wanted beyond what is being claimed. The others are members, by id."""

    memory: SupplyMemory
    waiting: int = 0
    claims: int = 0
    withdraw: tuple[str, ...] = ()  # registered, and not needed
    release: tuple[str, ...] = ()  # not registered, and their set does not take them any more
    recall: tuple[str, ...] = ()  # jobs wait beside them, and the CI gives them none
    outdated: tuple[str, ...] = ()  # idle, and would judge their job by rules that the set had before
    renew: tuple[str, ...] = ()
    capped: bool = False  # jobs wait because the set has as many members as it may have
    is_frozen: bool = False  # the CI has not answered for long


def plan(
    scale_set: ScaleSet,
    demand: JobDemand | None,
    members: Sequence[SetMember],
    memory: SupplyMemory,
    *,
    needs: Requirements | None,
    claiming: int,
    linger: float,
    time: float,
    now: datetime,
) -> SupplyPlan:
    """`needs` is what the set asks of an instance, None if its class is not configured any more. `claiming` claims are
    under way and not among the members yet."""
    is_frozen = demand is None or time - demand.heard_at > OUTAGE
    waits = [one for one in members if is_frozen or one.state is MemberState.IDLE or time - one.since < BETWEEN_JOBS]
    renew = _ids(one for one in waits if _is_short(one, scale_set, now))
    if demand is None and scale_set.state is not READY:  # the CI may have deleted it, and then never says anything
        return _retired(memory, 0, members, renew, time)
    if demand is None or is_frozen:
        return SupplyPlan(replace(memory, beside_since=None), renew=renew, is_frozen=True)
    memory = _fallen(_heeded(_noted(memory, members, time), demand, members, time), demand)
    listening = sorted(_in(members, MemberState.IDLE), key=lambda one: (one.since, one.id))
    starting = _in(members, MemberState.STARTING)
    waiting = _waiting(demand, members, memory, time)
    # One that stopped listening may have lost its registration instead. Until it reports a job, its job may wait.
    unproven = _waiting(demand, [one for one in members if one.activity is not None], memory, time)
    if scale_set.state is not READY:
        return _retired(memory, waiting, members, renew, time)
    # One of another domain, class or image must not get a job of the set any more, and serves no need.
    unfit = {
        one.id: one for one in (*listening, *starting, *_unengaged(members)) if mismatch(one.instance, scale_set, needs)
    }
    strange, release = _leaving([*unfit.values()], time)
    idle, starting = ([one for one in some if one.id not in unfit] for some in (listening, starting))
    memory = _beside(memory, demand, bool(unproven and idle), time)
    if waiting and memory.beside_since is not None and time - memory.beside_since >= PHANTOM:
        phantom = memory.phantom + waiting
        memory = replace(memory, phantom=phantom, phantom_at=now, phantom_since=time, beside_since=None)
        waiting = unproven = 0
    recall = _ghost(idle, memory, time) if waiting else ()
    memory = replace(memory, recalled_at=time) if recall else memory
    need = max(waiting + scale_set.rules.min, _probes(scale_set, demand, memory, time))
    have = len(idle) - len(recall) + len(starting) + claiming
    room = max(0, scale_set.rules.max - len(members) - claiming)
    claims = min(max(0, need - have), room)
    # While jobs wait, as many stay as may be needed. The others are no help to them, and may be to another set.
    needed = max(need, unproven + scale_set.rules.min)
    spare = max(0, len(idle) - len(recall) - needed)
    lingered = [one.id for one in idle if time - one.since >= linger and one.id not in recall]
    leaving = {*recall, *lingered[:spare]}
    old = [one for one in idle if one.listening is not None and one.listening.rules != served(scale_set).digest]
    return SupplyPlan(
        memory,
        waiting,
        claims=claims,
        withdraw=(*strange, *lingered[:spare]),
        release=release,
        recall=recall,
        outdated=_ids(one for one in old if one.id not in leaving),
        renew=renew,
        capped=bool(waiting) and need > have and not room,
    )


def _retired(
    memory: SupplyMemory, waiting: int, members: Sequence[SetMember], renew: tuple[str, ...], time: float
) -> SupplyPlan:
    """The set gives back every member that has no job."""
    withdraw, release = _leaving([one for one in members if one.state is not MemberState.BUSY], time)
    return SupplyPlan(memory, waiting, withdraw=withdraw, release=release, renew=renew)


def _ids(members: Iterable[SetMember]) -> tuple[str, ...]:
    return tuple(one.id for one in members)


def _in(members: Sequence[SetMember], state: MemberState) -> list[SetMember]:
    return [one for one in members if one.state is state]


def _unengaged(members: Sequence[SetMember]) -> list[SetMember]:
    """Claims whose runner listens, and which are not engaged although it had time: drained meanwhile, for example."""
    late = [one for one in _in(members, MemberState.CLEANING) if one.instance.state is CLAIMED]
    return [one for one in late if one.listening is not None and one.listening.is_of(one.instance.round)]


def _leaving(members: Sequence[SetMember], time: float) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Which of these to withdraw, and which to release: their agents say that they have neither a runner nor a job. A
    silent one stays, because its runner may have a job. If its agent is dead, it is ended as lost.

    An agent whose runner got a job a moment ago may say the same until its next heartbeat. The process that saw its
    runner listen knows that, and the next holder of the set does not: so none is released as soon as it is seen."""
    withdraw = [one for one in members if one.listening is not None]
    unregistered = [one for one in members if one.is_heard and one.listening is None]
    return _ids(withdraw), _ids(one for one in unregistered if time - one.since >= REPORTED)


def _waiting(demand: JobDemand, members: Sequence[SetMember], memory: SupplyMemory, time: float) -> int:
    # A heartbeat may come after the message about the start, whose counts include the job.
    counted = {one.runner for one in demand.starts}
    busy = [one for one in _in(members, MemberState.BUSY) if one.since >= demand.counted_at]
    began = sum(one.activity is None or one.activity.runner not in counted for one in busy)
    waiting = max(0, demand.assigned - demand.running - memory.phantom - began)
    announced = demand.announced_at is not None and time - demand.announced_at <= ANNOUNCED
    return 1 if announced and not waiting and not began else waiting


def _heeded(memory: SupplyMemory, demand: JobDemand, members: Sequence[SetMember], time: float) -> SupplyMemory:
    """Without the hint about a queued job, if it is old or a job has begun since."""
    hint = memory.queued
    if hint is None:
        return memory
    began = any(one.since > hint.at for one in _in(members, MemberState.BUSY))
    began = began or any(one.heard_at > hint.at for one in demand.starts)
    return replace(memory, queued=None) if began or time - hint.at >= UNANNOUNCED else memory


def _fallen(memory: SupplyMemory, demand: JobDemand) -> SupplyMemory:
    """Phantoms never exceed what waits by the CI's count, and there are none if an old job starts."""
    phantom, rose = min(memory.phantom, max(0, demand.assigned - demand.running)), memory.phantom_at
    since = [one for one in demand.starts if one.heard_at > memory.phantom_since]
    if rose is not None and any(one.queued_at is not None and one.queued_at < rose for one in since):
        phantom = 0
    return replace(memory, phantom=phantom, phantom_at=rose if phantom else None)


def _noted(memory: SupplyMemory, members: Sequence[SetMember], time: float) -> SupplyMemory:
    """With the runners that have a job by now."""
    known = dict(memory.begun)
    fresh = [(one.activity.runner, time) for one in members if one.activity and one.activity.runner not in known]
    return replace(memory, begun=(*memory.begun, *fresh)[-BEGUN:]) if fresh else memory


def _beside(memory: SupplyMemory, demand: JobDemand, is_beside: bool, time: float) -> SupplyMemory:
    """Since when jobs wait although a member idles. A job that starts begins it again: the CI works. The message about
    a start may come minutes late: a job that a heartbeat showed before began then."""
    if not is_beside:
        return replace(memory, beside_since=None)
    begun = dict(memory.begun)
    starts = [min(one.heard_at, begun.get(one.runner, one.heard_at)) for one in demand.starts]
    last_start = max([*starts, *begun.values()], default=0.0)
    since = time if memory.beside_since is None else memory.beside_since
    return replace(memory, beside_since=max(since, last_start))


def _ghost(idle: Sequence[SetMember], memory: SupplyMemory, time: float) -> tuple[str, ...]:
    """The member to recall: the one that idled longest, and the CI gave it no job."""
    waits = memory.beside_since is not None and time - memory.beside_since >= GHOST
    again = memory.recalled_at is None or time - memory.recalled_at >= GHOST_AGAIN
    return (idle[0].id,) if waits and again and idle and time - idle[0].since >= GHOST else ()


def _probes(scale_set: ScaleSet, demand: JobDemand, memory: SupplyMemory, time: float) -> int:
    """Members that wait for jobs which the CI does not announce: while it counts phantoms, after a new session, and
    while a queued job was shown and has not begun."""
    if memory.queued is not None and time - memory.queued.since >= QUEUED:
        return 1
    return 1 if memory.phantom or time - demand.listens_since < PROBED else 0


def _is_short(one: SetMember, scale_set: ScaleSet, now: datetime) -> bool:
    """Whether a job that begins now might meet the member's threshold. To one that is silent no job comes any more: at
    the latest its threshold ends it."""
    if one.instance.state is not RUNNING or one.state is MemberState.BUSY or not one.is_heard:
        return False
    return one.instance.threshold - now < timedelta(seconds=scale_set.rules.max_runtime + RENEWED_BELOW)
