"""Read-only questions about the pool: what there is, what is on offer, and what happened to a record.

`status`, `why` and every other view ask the same ones, so they cannot tell different tales.
"""

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass

from bullpen.config import Settings
from bullpen.errors import NotFound
from bullpen.model.instance import Instance
from bullpen.model.provision import Provision
from bullpen.model.signal import Pulse
from bullpen.model.transition import StoryLine
from bullpen.ports import Ports

PAGE = 500


@dataclass(frozen=True, slots=True)
class Standing:
    """An instance as its record says, what its agent last reported, and its process where it runs on this machine."""

    instance: Instance
    pulse: Pulse
    pid: int | None


@dataclass(frozen=True, slots=True)
class Pool:
    """The offers of a class: messages in its queue, and instances that a run could claim now."""

    resource_class: str
    tickets: int
    claimable: int


@dataclass(frozen=True, slots=True)
class Status:
    instances: tuple[Standing, ...]
    pools: tuple[Pool, ...]


@dataclass(frozen=True, slots=True)
class Story:
    """What is left of a record (None once purged) and its last steps, oldest first."""

    id: str
    record: Instance | Provision | None
    lines: tuple[StoryLine, ...]


async def status(ports: Ports, settings: Settings) -> Status:
    """Every instance that lives or whose end is owed, in order of id, and every pool."""
    pids = {seen.id: seen.pid for seen in await ports.compute.sightings() if seen.alive}
    standings = []
    async for page in _pages(ports):
        pulses = await ports.signals.read([one.id for one in page])
        standings += [Standing(one, pulses[one.id], pids.get(one.id)) for one in page]
    now = ports.clock.now()
    found = [standing.instance for standing in standings]
    claimable = Counter(one.resource_class for one in found if one.is_claimable and one.threshold > now)
    names = dict.fromkeys([*settings.classes, *await ports.queue.names()])
    pools = tuple([Pool(name, await ports.queue.count(name), claimable[name]) for name in names])
    return Status(tuple(standings), pools)


async def stories(ports: Ports, subject: str) -> list[Story]:
    """The story of an instance or provision by id, or of everything that belongs to a run. Raise NotFound."""
    records = await _records(ports, subject)
    told = await ports.records.stories([*records])
    found = [Story(id, record, tuple(told.get(id, ()))) for id, record in records.items()]
    found = [story for story in found if story.record or story.lines]
    if not found:
        raise NotFound(
            f"{subject}: no such instance, provision or run",
            remedy="`bullpen status` lists what there is; ended records are forgotten after timings.purge.",
        )
    return found


async def _records(ports: Ports, subject: str) -> dict[str, Instance | Provision | None]:
    if subject.startswith("i-") and (instance := (await ports.records.instances([subject])).get(subject)):
        return {subject: instance}
    if subject.startswith("p-") and (provision := await ports.records.provision(subject)):
        return {subject: provision}
    of_run: list[Instance | Provision] = [
        *await ports.records.run_provisions(subject),
        *await ports.records.run_instances(subject),
    ]
    return {record.id: record for record in of_run} or {subject: None}


async def every_live(ports: Ports) -> list[Instance]:
    """All live instances, and those whose end is owed: the size of the pool, not of its history."""
    return [one async for page in _pages(ports) for one in page]


async def _pages(ports: Ports) -> AsyncIterator[list[Instance]]:
    after = ""
    while page := await ports.records.live(PAGE, after):
        yield page
        after = page[-1].id
