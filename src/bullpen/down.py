"""Down: end every instance of the pool, whatever its state, and report what could not be ended."""

from datetime import timedelta

from bullpen.config import Settings
from bullpen.errors import BullpenError, ConfigError, Outdated, Refused, Unavailable
from bullpen.history.bookkeeper import book_ended, quietly
from bullpen.lazy_dataclass import dataclass
from bullpen.liveness.stopping import close_workers
from bullpen.model import provision as provisions
from bullpen.model.instance import TERMINATED, Instance
from bullpen.model.progress import ProgressReport, Tell, WorkPhase
from bullpen.pool import debts, lifecycle
from bullpen.pool.live_instances import every_live
from bullpen.pool.setbacks import Setbacks
from bullpen.ports import Ports, Removal
from bullpen.structured_log import get_logger

BY = "down"
ROUNDS = 12
"""How often the pool is read again for what is left: a command that runs at the same time may move an instance."""
PAUSE = 0.5
"""Seconds between rounds. Together they last longer than a machine may be about to start (5 s on this engine)."""


SERVING_FOR = timedelta(seconds=45)
"""A service notes about every 10 s that it runs. One that was killed is taken for running no longer than this."""

log = get_logger("bullpen.down")


@dataclass(frozen=True, slots=True)
class TakenDown:
    """`ended` are ids of ended instances, `left` those that are still there, or may be, and `said` is what the engine
    reports about them. `listed` are runners that GitHub does not deregister yet because it believes that a job runs,
    and `trouble` is why GitHub could not be asked."""

    ended: tuple[str, ...]
    left: tuple[str, ...]
    said: tuple[str, ...] = ()
    listed: tuple[str, ...] = ()
    trouble: BullpenError | None = None


async def serving(ports: Ports) -> list[str]:
    """The services that noted lately that they run: they will launch idle instances again."""
    now = ports.clock.now()
    return [one.process for one in await ports.health.services(now) if one.seen_at + SERVING_FOR > now]


async def down(ports: Ports, settings: Settings, *, tell: Tell = lambda report: None) -> TakenDown:
    """Mark and end all, with machines that have no record; deregister all runners that the CI lets go."""
    ended: dict[str, None] = {}
    left: dict[str, str] = {}
    setbacks = Setbacks()
    for number in range(ROUNDS):
        if number:
            await ports.signals.wait(PAUSE)
        all_decided = await _abort_open(ports, settings, setbacks)
        ended |= dict.fromkeys(await _end_all(ports, settings, setbacks))
        left = await _remaining(ports, setbacks)
        text = f"{len(ended)} ended, {len(left)} left"
        tell(ProgressReport(WorkPhase.END, text, len(ended), len(ended) + len(left)))
        if all_decided and not left:
            break
    gone = [id for id in ended if id not in left]
    await _close_workers(ports, settings, gone)
    await quietly(book_ended(ports))
    listed, trouble = await _deregistered(ports, settings)
    if settings.engines.pool == "embedded":
        # SQS does not allow the name of a deleted queue for a minute. There the tickets of the ended machines stay: a
        # provision that takes one finds it stale.
        for name in await ports.queue.names():
            await ports.queue.retire(name)
    return TakenDown(
        tuple(gone),
        tuple(left),
        tuple(f"{id}: {why}" for id, why in left.items() if why),
        tuple(listed) if settings.on_github else (),
        trouble,
    )


async def _close_workers(ports: Ports, settings: Settings, gone: list[str]) -> None:
    """Not needed: their leases run out by themselves. So no failure keeps the rest from being done and reported."""
    try:
        await close_workers(ports, settings, gone, by=BY)
    except Outdated:
        raise
    except BullpenError as failure:
        log.warning("workers of ended instances cannot be closed", error=failure)


async def _deregistered(ports: Ports, settings: Settings) -> tuple[list[str], BullpenError | None]:
    """The runners that the CI keeps because it believes them busy; or why GitHub could not be asked. The machines are
    gone all the same, and the next refresh removes what GitHub still lists."""
    try:
        handles = [registration.handle for registration in await ports.ci.registrations()]
        return [handle for handle in handles if await ports.ci.remove(handle) is Removal.BUSY], None
    except (Refused, Unavailable, ConfigError) as failure:
        if not settings.on_github:
            raise
        return [], failure


async def _end_all(ports: Ports, settings: Settings, setbacks: Setbacks) -> list[str]:
    """One attempt; returns what has certainly ended. An instance that cannot be ended does not stop the others."""
    live = await every_live(ports)
    now = ports.clock.now()
    standing = [one for one in live if one.state is not TERMINATED]
    marks = [lifecycle.end(one, now, BY, "the pool is taken down") for one in standing]
    marked = [one for one in await ports.records.apply_each(marks) if isinstance(one, Instance)]
    owing = marked + [one for one in live if one.state is TERMINATED]
    ended = await debts.together_or_alone(
        lambda some: lifecycle.terminate(ports, settings, some, by=BY), owing, setbacks
    )
    known = {one.id for one in live}
    strays = [seen.id for seen in await ports.compute.sightings() if seen.alive and seen.id not in known]
    return ended + await _end_strays(ports, strays, setbacks)


async def _end_strays(ports: Ports, ids: list[str], setbacks: Setbacks) -> list[str]:
    """Machines without a record: all at once; if that fails, each alone."""
    try:
        return await ports.compute.terminate(ids) if ids else []
    except Outdated:
        raise
    except Exception as failure:
        if len(ids) == 1:
            setbacks.note(ids[0], failure)
            return []
    return [id for one in ids for id in await _end_strays(ports, [one], setbacks)]


async def _remaining(ports: Ports, setbacks: Setbacks) -> dict[str, str]:
    """What is alive by its record or by its machine, or owes its end; by id, with the reason if it is known."""
    records = {one.id: "" for one in await every_live(ports)}
    machines = {seen.id: seen.stays for seen in await ports.compute.sightings() if seen.alive}
    reasons = setbacks.reasons()
    return {id: why or reasons.get(id, "") for id, why in sorted((records | machines).items())}


async def _abort_open(ports: Ports, settings: Settings, setbacks: Setbacks) -> bool:
    """Abort open provisions, so that none registers more machines. False if one moved in between: it may be about to
    launch, and must be read again."""
    aborted = lifecycle.aborted(ports, settings, "the pool is taken down", by=BY)
    names = dict.fromkeys([*settings.classes, *await ports.queue.names()])
    found = [one for name in names for one in await ports.records.open_provisions(name)]
    results = await ports.records.apply_each([provisions.abort(one, aborted) for one in found])
    for landed in results:
        if not isinstance(landed, provisions.Provision):
            continue
        try:
            await debts.settle_provision(ports, settings, landed, by=BY)
        except Outdated:
            raise
        except Exception as failure:  # its instances are ended below all the same
            setbacks.note(landed.id, failure)
    return all(isinstance(landed, provisions.Provision) for landed in results)
