"""The runs that the pool serves now, or is asked to serve.

    waiting        a provision of the run waits for room under a cap, or its jobs wait and it has no runner
    provisioning   an open provision acquires runners, or a decided one has not handed the first over yet
    running        it has runners
    releasing      its runners are given back

A run whose runners are back in the pool is not listed: `bullpen why` has its story until that is purged. A page reads
instances, provisions and jobs of its own runs only; beside them, the provisions that are just being carried out, of all
runs. So the cost grows with the page, and neither with the pool nor with what was. With a filter, a page looks at a
bounded number of runs: it may hold fewer than its limit, even none, and still have a next one. So may a page that comes
upon scale sets, whose runners belong to no run.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime

from bullpen.concurrency import gather_or_cancel
from bullpen.errors import NotFound
from bullpen.lazy_dataclass import dataclass
from bullpen.model import job as jobs
from bullpen.model import limits
from bullpen.model.instance import RUNNING, TERMINATED, Instance
from bullpen.model.job import Job
from bullpen.model.provision import COMMITTED, OPEN, Provision, RunState
from bullpen.model.scale_set import set_of_run_id
from bullpen.ports import Ports

ANY_TIME = datetime.max.replace(tzinfo=UTC)
"""Every provision that is open or owes something is due by then: an index of undecided and unsettled ones."""
UNSETTLED = 10_000  # provisions of all runs that are looked at; far above what a pool serves at once
LOOKED_AT = 1000  # runs that one page reads to find those that fit
COUNTED_JOBS = 1_000  # queued and running jobs of one run that are counted
SIDE_BY_SIDE = 16  # runs of a page that are read at once


@dataclass(frozen=True, slots=True)
class RunView:
    """`wanted` is how many runners its provisions ask for, `held` how many instances belong to it now. `queued` and
    `running` count its jobs, up to `COUNTED_JOBS` together. `since` is when the oldest provision that still counts was
    opened; None if the run has only jobs. `waits_for` is the setting of the cap that it waits for."""

    id: str
    state: RunState
    classes: tuple[str, ...]
    wanted: int
    held: int
    queued: int = 0
    running: int = 0
    since: datetime | None = None
    repository: str = ""
    waits_for: str = ""


@dataclass(frozen=True, slots=True)
class RunList:
    """A page of runs by id. `next` is where the next page begins; empty at the end."""

    runs: tuple[RunView, ...]
    next: str = ""


@dataclass(slots=True)
class _Found:
    """What belongs to one run: its live instances, and its provisions that are open or owe something."""

    instances: list[Instance] = field(default_factory=list)
    unsettled: list[Provision] = field(default_factory=list)

    @property
    def state(self) -> RunState:
        open_ = [one for one in self.unsettled if one.state is OPEN]
        if any(not one.is_waiting for one in open_):
            return RunState.PROVISIONING
        if open_:
            return RunState.WAITING
        given_back = {one.id for one in self.unsettled if one.is_over or one.state is not COMMITTED}
        staying = [one for one in self.instances if one.provision_id not in given_back]
        if any(one.state is RUNNING for one in staying):
            return RunState.RUNNING
        if staying:
            return RunState.PROVISIONING
        return RunState.RELEASING if self.unsettled or self.instances else RunState.WAITING

    @property
    def classes(self) -> tuple[str, ...]:
        of_open = [one.needs.resource_class for one in self.unsettled if one.state is OPEN]
        return tuple(sorted({*of_open, *(one.resource_class for one in self.instances)}))


async def runs(
    ports: Ports,
    limit: int,
    after: str = "",
    *,
    state: RunState | None = None,
    resource_class: str = "",
    live: Sequence[Instance] | None = None,
) -> RunList:
    """The runs of the pool by id, at most `limit` and after `after`; of a state and of a resource class, if named.

    `live` are all instances that live, if the caller has read them already.
    """
    size = max(limit, LOOKED_AT) if state or resource_class else limit + 1
    found = await _next_runs(ports, size, after, live)
    fitting = [
        run_id
        for run_id, one in found.items()
        if (state is None or one.state is state)
        and (not resource_class or resource_class in one.classes)
        and set_of_run_id(run_id) is None  # `sets` shows those
    ]
    page = fitting[:limit]
    views = await _viewed(ports, {run_id: found[run_id] for run_id in page})
    last = page[-1] if len(fitting) > limit else [*found][-1] if len(found) == size else ""
    return RunList(tuple(views), last)


async def _next_runs(ports: Ports, size: int, after: str, live: Sequence[Instance] | None) -> dict[str, _Found]:
    """The first `size` runs after `after`, by id, with what belongs to them."""
    found: dict[str, _Found] = defaultdict(_Found)
    for run_id in await ports.jobs.waiting_runs(size, after):
        found[run_id]  # it has an entry from now on
    if live is None:
        for run_id, instances in (await ports.records.served_runs(size, after)).items():
            found[run_id].instances += instances
    for one in live or ():
        if one.run_id > after and one.state is not TERMINATED:
            found[one.run_id].instances.append(one)
    for provision in await ports.records.due_provisions(ANY_TIME, UNSETTLED):
        if provision.run_id > after:
            found[provision.run_id].unsettled.append(provision)
    return {run_id: found[run_id] for run_id in sorted(found)[:size]}


async def run_exists(ports: Ports, run_id: str) -> bool:
    """Whether the run ever had a provision of which the record is not purged, or has instances now."""
    if await ports.records.told_provisions(run_id, 1):
        return True
    return bool(await ports.records.run_instances(run_id))


async def require_run(ports: Ports, run_id: str) -> None:
    """Raise NotFound unless the run exists. A job for a run that never had a provision would wait for a runner that
    never comes: more often than not, the run's id is misspelt."""
    if not await run_exists(ports, run_id):
        raise unknown_run(run_id)


def unknown_run(run_id: str) -> NotFound:
    return NotFound(
        f"run {run_id[: limits.RUN_ID_LENGTH]}: no provision was ever requested",
        remedy="Run `bullpen status` to list the runs. Begin a new one with `bullpen provision --run-id ID --count N`.",
    )


async def _viewed(ports: Ports, found: Mapping[str, _Found]) -> list[RunView]:
    asked = list(found)
    provisions: dict[str, list[Provision]] = {}
    unfinished: dict[str, list[Job]] = {}
    for at in range(0, len(asked), SIDE_BY_SIDE):
        some = asked[at : at + SIDE_BY_SIDE]
        held = await gather_or_cancel([ports.records.run_provisions(id) for id in some])
        left = await gather_or_cancel([ports.jobs.unfinished(id, COUNTED_JOBS) for id in some])
        provisions |= zip(some, held, strict=True)
        unfinished |= zip(some, left, strict=True)
    ids = [one.id for of_run in provisions.values() for one in of_run]
    stories = await ports.records.stories(ids) if ids else {}
    opened = {id: lines[0].at for id, lines in stories.items() if lines}
    return [_view(id, one, provisions[id], unfinished[id], opened) for id, one in found.items()]


def _view(
    run_id: str,
    found: _Found,
    provisions: Sequence[Provision],
    unfinished: Sequence[Job],
    opened: Mapping[str, datetime],
) -> RunView:
    repositories = [one.needs.repository for one in provisions] + [one.repository for one in found.instances]
    return RunView(
        run_id,
        found.state,
        found.classes or tuple(sorted({one.needs.resource_class for one in provisions})),
        _wanted(found, provisions),
        len(found.instances),
        queued=sum(job.state is jobs.QUEUED for job in unfinished),
        running=sum(job.state is jobs.RUNNING for job in unfinished),
        since=min((opened[one.id] for one in provisions if one.id in opened), default=None),
        repository=next(filter(None, repositories), ""),
        waits_for=next((one.waits_for for one in found.unsettled if one.waits_for), ""),
    )


def _wanted(found: _Found, provisions: Sequence[Provision]) -> int:
    """A provision of a run that has runners asks only for those that are missing: it adds to them. Of decided ones the
    largest counts, because a lost member and the one that replaces it were asked for twice."""
    if missing := {one.id: one.want for one in provisions if one.state is OPEN}:
        return sum(missing.values()) + sum(one.provision_id not in missing for one in found.instances)
    kept = [one for one in provisions if one.state is COMMITTED and not one.is_over]
    return max([len(found.instances), *(one.want for one in kept)]) if kept else 0
