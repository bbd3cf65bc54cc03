"""Scale sets as their records show them: which process listens, how many jobs and runners there are, what waits.

A member is *busy* or *idle* as its agent reports; *starting* from its claim until then; *cleaning* between two jobs,
which includes one whose agent is silent. The numbers of jobs are GitHub's, as the process that listens heard them last:
while no process listens, they are not known.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

from bullpen.config import Settings
from bullpen.lazy_dataclass import dataclass
from bullpen.model import activity, scale_set
from bullpen.model.instance import CLAIMED, TERMINATED, Instance
from bullpen.model.scale_set import ABSENT, READY, RETIRED, RETIRING, ScaleSet
from bullpen.model.set_member import set_of
from bullpen.model.set_session import HELD, JobCounts, SetSession
from bullpen.model.signal import Pulse
from bullpen.ports import Ports
from bullpen.settings.scale_sets import completed

UNRENEWED = 2.0  # leases after which a holder is shown as gone: for people, by the wall clock


class ServingState(StrEnum):
    BUSY = "busy"
    IDLE = "idle"
    STARTING = "starting"
    CLEANING = "cleaning"


@dataclass(frozen=True, slots=True)
class SetView:
    """`holder` is the process that listens, empty if none does; `since` when that began. `jobs` is None if they are not
    known. `waits_since` is since when the oldest job waits, and `why` the reason of that, or why no process listens. A
    job that the CI has taken back is the oldest only if no other waits."""

    name: str
    state: scale_set.State
    resource_class: str
    min: int
    max: int
    holder: str = ""
    since: datetime | None = None
    heard_at: datetime | None = None
    jobs: JobCounts | None = None
    busy: int = 0
    idle: int = 0
    starting: int = 0
    cleaning: int = 0
    dropped: int = 0
    waiting: int = 0
    waits_since: datetime | None = None
    why: str = ""


async def set_views(ports: Ports, settings: Settings, live: Sequence[Instance]) -> tuple[SetView, ...]:
    """Every set of the settings, and every other one that is not retired; by name. `live` are all that live."""
    stored = await ports.records.scale_sets()
    asked = {one.name: (one.resource_class, one.min, one.max) for one in completed(settings).values()}
    names = sorted({*asked, *(name for name, one in stored.items() if one.state is not RETIRED)})
    if not names:
        return ()
    sessions = await ports.records.set_sessions()
    members = await _members(ports, settings, live)
    found = []
    for name in names:
        one = stored.get(name, scale_set.absent(name))
        kind, least, most = asked.get(name) or (one.rules.resource_class, one.rules.min, one.rules.max)
        if one.state not in (ABSENT, RETIRED):
            kind, least, most = one.rules.resource_class, one.rules.min, one.rules.max
        counts, session = members.get(name, Counter()), sessions.get(name)
        is_heard = listens(ports.clock.now(), settings, session)
        waiting = session.waiting if session is not None else ()
        found.append(
            SetView(
                name,
                one.state,
                kind,
                least,
                most,
                holder=session.holder if session is not None and is_heard else "",
                since=_since(session, is_heard),
                heard_at=session.heard_at if session is not None else None,
                jobs=session.statistics if session is not None and is_heard else None,
                **{state.value: counts[state] for state in ServingState},
                dropped=session.dropped if session is not None and is_heard else 0,
                waiting=len(waiting),
                waits_since=waiting[0].since if waiting else None,
                why=_why(one, session, is_heard, counts),
            )
        )
    return tuple(found)


async def _members(ports: Ports, settings: Settings, live: Iterable[Instance]) -> Mapping[str, Counter[ServingState]]:
    serving = [(name, one) for one in live if one.state is not TERMINATED and (name := set_of(one)) is not None]
    pulses = await ports.signals.read([one.id for _, one in serving]) if serving else {}
    now, counts = ports.clock.now(), dict[str, Counter[ServingState]]()
    for name, one in serving:
        counts.setdefault(name, Counter())[_state(one, pulses[one.id], now, settings.timings.alive)] += 1
    return counts


def _state(one: Instance, pulse: Pulse, now: datetime, within: float) -> ServingState:
    if one.state is CLAIMED:
        return ServingState.STARTING
    told = pulse.heartbeat.activity if pulse.heartbeat is not None and pulse.is_recent(now, within) else ""
    if activity.parse(told) is not None:
        return ServingState.BUSY
    return ServingState.IDLE if activity.parse_listening(told) is not None else ServingState.CLEANING


def listens(now: datetime, settings: Settings, session: SetSession | None) -> bool:
    """Whether a process listens to the set, and GitHub answers it."""
    if session is None or session.state is not HELD or session.failing_since is not None or session.beat_at is None:
        return False
    return now - session.beat_at <= timedelta(seconds=UNRENEWED * settings.timings.lease)


def _since(session: SetSession | None, is_heard: bool) -> datetime | None:
    if session is None:
        return None
    return session.taken_at if is_heard else session.failing_since or session.beat_at


def _why(one: ScaleSet, session: SetSession | None, is_heard: bool, counts: Counter[ServingState]) -> str:
    """One sentence at most: the reason that an operator looks for first."""
    if one.state in (ABSENT, RETIRED):
        return "not created yet: `bullpen serve` and `bullpen refresh` create it"
    if one.state is RETIRING:
        return f"the settings do not have it; {counts.total()} of its runners are left"
    if session is None:
        return "no `bullpen serve` has listened to it yet"
    if session.why:
        return session.why
    if one.state is not READY:
        return "GitHub does not have it, or does not have it any more"
    if not is_heard:
        return f"{session.holder} does not renew its session" if session.state is HELD else "no process listens to it"
    return session.waiting[0].why if session.waiting else ""
