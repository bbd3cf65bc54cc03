"""Read-only questions about the pool: what there is, what is on offer, and what happened to a record.

`status`, `why` and every other view ask the same ones, so they agree.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime

from bullpen.config import Settings
from bullpen.inventory.instance_views import InstanceView, leaving_at, viewed, views
from bullpen.inventory.pages import Page, instance_page, job_page
from bullpen.inventory.record_stories import Story, stories
from bullpen.inventory.run_list import RunList, RunView, require_run, run_exists, runs
from bullpen.inventory.sets import SetView, set_views
from bullpen.lazy_dataclass import dataclass
from bullpen.liveness.protection import DomainState, protection_state
from bullpen.model.control import Control
from bullpen.model.instance import TERMINATED, Instance, State
from bullpen.model.pause import Pause
from bullpen.model.provision import Provision
from bullpen.model.rotation import Rotation
from bullpen.model.schedule import TargetNow
from bullpen.model.worker import ACTIVE, Card, Worker
from bullpen.pool.live_instances import live_pages
from bullpen.ports import FailingLoop, Ports

__all__ = [
    "Enrolled",
    "InstanceView",
    "Page",
    "Pool",
    "Roster",
    "RunList",
    "RunView",
    "SetView",
    "Silence",
    "Status",
    "Story",
    "instance_page",
    "is_suspect",
    "job_page",
    "overview",
    "pools",
    "require_run",
    "roster",
    "run_exists",
    "runs",
    "silences",
    "status",
    "stories",
    "views",
]

PAGE = 500
RUNS_SHOWN = 1000
ROSTER_PAGE = 1000  # workers read at a time


@dataclass(frozen=True, slots=True)
class Pool:
    """The offers of a class: messages in its queue, and instances that a run could claim now.

    Where `counts_expired`, `tickets` includes expired ones until a run or refresh takes them out. `target` is how many
    the class keeps on offer now; a class that is not configured any more keeps none.
    """

    resource_class: str
    tickets: int
    claimable: int
    counts_expired: bool = False
    target: TargetNow = TargetNow(0)


@dataclass(frozen=True, slots=True)
class Silence:
    """A worker that missed its lease: suspect, or lost already. `jobs` are still bound to it."""

    worker: Worker
    jobs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Enrolled:
    """A worker, and what it reports about itself."""

    worker: Worker
    card: Card


@dataclass(frozen=True, slots=True)
class Roster:
    """A page of workers by key. `next` is where the next page begins; empty at the end."""

    workers: tuple[Enrolled, ...]
    next: str = ""


@dataclass(frozen=True, slots=True)
class RotationView:
    """A rotation under way, and how many of its instances still live."""

    rotation: Rotation
    left: int


@dataclass(frozen=True, slots=True)
class Status:
    """`counts` has live instances by class and state, `domains` workers by failure domain. `hold` says why no worker is
    declared lost now, if so; `failing` which loops of services keep failing. `waiting` are the provisions that wait for
    room under a cap, first come first; of a great many, some. `runs` are those that the pool serves; of a great many,
    the first `RUNS_SHOWN` by id. `sets` are the scale sets, whose runners belong to no run. `pauses` and
    `rotations` are those in force."""

    instances: tuple[InstanceView, ...]
    pools: tuple[Pool, ...]
    silent: tuple[Silence, ...] = ()
    hold: str = ""
    failing: tuple[FailingLoop, ...] = ()
    waiting: tuple[Provision, ...] = ()
    counts: Mapping[tuple[str, State], int] = field(default_factory=dict)
    domains: tuple[DomainState, ...] = ()
    controls: tuple[Control, ...] = ()
    runs: tuple[RunView, ...] = ()
    sets: tuple[SetView, ...] = ()
    pauses: tuple[Pause, ...] = ()
    rotations: tuple[RotationView, ...] = ()


async def status(ports: Ports, settings: Settings) -> Status:
    """Every instance that lives or whose end is owed, in order of id, every run that it serves, and every pool."""
    pids = {seen.id: seen.pid for seen in await ports.compute.sightings() if seen.alive}
    leaving = await leaving_at(ports)
    found: list[InstanceView] = []
    async for page in live_pages(ports):
        found += await viewed(ports, settings, page, leaving, pids)
    live = [view.instance for view in found]
    served = (await runs(ports, RUNS_SHOWN, live=live)).runs
    return replace(await overview(ports, settings, live), instances=tuple(found), runs=served)


async def overview(ports: Ports, settings: Settings, live: Sequence[Instance]) -> Status:
    """The pool as a whole, without its instances. `live` are all that live or whose end is owed."""
    offers = await pools(ports, settings, live)
    protection = await protection_state(ports)
    now = ports.clock.now()
    queue = await ports.records.waiting_provisions(PAGE)
    return Status(
        instances=(),
        pools=offers,
        silent=await silences(ports),
        hold=protection.why if protection.held_since else "",
        failing=tuple(await ports.health.noted(now)),
        waiting=tuple(one for one in queue if one.place is not None and one.place.until > now),
        counts=Counter((one.resource_class, one.state) for one in live if one.state is not TERMINATED),
        domains=protection.domains,
        controls=tuple((await ports.workers.controls()).values()),
        sets=await set_views(ports, settings, live),
        pauses=tuple(one for one in await ports.records.pauses() if one.is_on),
        rotations=await _rotations(ports, live),
    )


async def _rotations(ports: Ports, live: Sequence[Instance]) -> tuple[RotationView, ...]:
    under_way = [one for one in (await ports.records.rotations()).values() if one.is_on]
    living = {one.id for one in live if one.state is not TERMINATED} if under_way else set()
    return tuple(RotationView(one, one.left(living)) for one in under_way)


async def pools(ports: Ports, settings: Settings, live: Sequence[Instance]) -> tuple[Pool, ...]:
    """What each class has on offer, of any usage class and trust domain. `live` are all instances that live."""
    now = ports.clock.now()
    claimable = Counter(one.resource_class for one in live if one.is_claimable and one.threshold > now)
    names = dict.fromkeys([*settings.classes, *await ports.queue.names()])
    rough = ports.queue.counts_expired
    targets = {name: kind.target_now(now) for name, kind in settings.classes.items()}
    return tuple(
        [
            Pool(name, await ports.queue.count(name), claimable[name], rough, targets.get(name, TargetNow(0)))
            for name in names
        ]
    )


async def roster(ports: Ports, limit: int, after: str = "", state: str = "") -> Roster:
    """Workers by key, tombstones excluded, at most `limit` and after `after`; `state` is active, inactive or suspect.

    Where many must be passed over for a state, a page may hold fewer, even none, and still have a next one.
    """
    now = ports.clock.now()
    size = max(limit, ROSTER_PAGE) if state else limit
    read = await ports.workers.listed(size, after)
    fitting = [one for one in read if _is_in(one, state, now)]
    found = fitting[:limit]
    last = found[-1] if len(fitting) > limit else read[-1] if len(read) == size else None
    cards = await ports.workers.cards([one.id for one in found]) if found else {}
    return Roster(tuple(Enrolled(one, cards.get(one.id, Card())) for one in found), last.id if last else "")


def _is_in(worker: Worker, state: str, now: datetime) -> bool:
    if state == "suspect":
        return is_suspect(worker, now)
    return not state or worker.state == state


def is_suspect(worker: Worker, now: datetime) -> bool:
    """Whether its lease is out, and it is not lost yet."""
    return worker.state is ACTIVE and worker.deadline is not None and worker.deadline <= now


async def silences(ports: Ports) -> tuple[Silence, ...]:
    """The workers that have missed their lease; of a great many, some."""
    now = ports.clock.now()
    found = {one.id: one for one in await ports.workers.suspects(now, PAGE)}
    found |= {one.id: one for one in await ports.workers.lost(PAGE)}
    some = list(found.values())[:PAGE]
    machines = await ports.records.instances([one.instance_id for one in some if one.instance_id])
    silences = []
    for one in some:
        held = await ports.jobs.held(one.id, one.epoch, PAGE)
        machine = machines.get(one.instance_id)
        # A worker is expected to be silent if its machine was ended on purpose, unless a job was lost with it.
        if held or not one.instance_id or (machine is not None and machine.state is not TERMINATED):
            silences.append(Silence(one, tuple(job.id for job in held)))
    return tuple(silences)
