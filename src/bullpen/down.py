"""Down: end every instance of the pool, whatever its state, and say what would not end."""

from dataclasses import dataclass

from bullpen.config import Settings
from bullpen.errors import BullpenError, ConfigError, Outdated, Refused, Unavailable
from bullpen.inventory import every_live
from bullpen.model import provision as provisions
from bullpen.model.instance import TERMINATED, Instance
from bullpen.model.progress import ProgressReport, Tell, WorkPhase
from bullpen.pool import debts, lifecycle
from bullpen.pool.setbacks import Setbacks
from bullpen.ports import Ports, Removal

BY = "down"
ROUNDS = 12
"""How often what escaped is looked for again: a command that runs meanwhile may move an instance under our hands."""
PAUSE = 0.5
"""Seconds between rounds. Together they last longer than a machine may be about to start (5 s on this engine)."""


@dataclass(frozen=True, slots=True)
class TakenDown:
    """The ids of what was ended, and of what is still there in spite of us, or may be; what the engine said of those
    that it would not end; the runners that the CI would not forget yet, because it believes that a job runs; and why
    it could not be asked to forget any."""

    ended: tuple[str, ...]
    left: tuple[str, ...]
    said: tuple[str, ...] = ()
    listed: tuple[str, ...] = ()
    trouble: BullpenError | None = None


async def down(ports: Ports, settings: Settings, *, tell: Tell = lambda report: None) -> TakenDown:
    """Mark all, end all, machines without a record included; no registration is left either, unless the CI insists."""
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
    listed, trouble = await _deregistered(ports, settings)
    if settings.engines.pool == "embedded":
        # SQS does not give out the name of a deleted queue for a minute. There the tickets stay, of machines that are
        # gone: whoever takes one finds it stale.
        for name in await ports.queue.names():
            await ports.queue.retire(name)
    return TakenDown(
        tuple(id for id in ended if id not in left),
        tuple(left),
        tuple(f"{id}: {why}" for id, why in left.items() if why),
        tuple(listed) if settings.on_github else (),
        trouble,
    )


async def _deregistered(ports: Ports, settings: Settings) -> tuple[list[str], BullpenError | None]:
    """The runners that the CI keeps because it believes them busy; or why GitHub could not be asked. That hides nothing
    else: the machines are gone, and what it lists of them are ghosts, which the next refresh removes."""
    try:
        handles = [registration.handle for registration in await ports.ci.registrations()]
        return [handle for handle in handles if await ports.ci.remove(handle) is Removal.BUSY], None
    except (Refused, Unavailable, ConfigError) as failure:
        if not settings.on_github:
            raise
        return [], failure


async def _end_all(ports: Ports, settings: Settings, setbacks: Setbacks) -> list[str]:
    """One attempt; returns what has certainly ended. One that cannot be ended keeps no other from its end."""
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
    """What lives by its record or by its machine, or owes its end; by id, with why it stays if that is known."""
    records = {one.id: "" for one in await every_live(ports)}
    machines = {seen.id: seen.stays for seen in await ports.compute.sightings() if seen.alive}
    reasons = setbacks.reasons()
    return {id: why or reasons.get(id, "") for id, why in sorted((records | machines).items())}


async def _abort_open(ports: Ports, settings: Settings, setbacks: Setbacks) -> bool:
    """A live provision must not register machines behind our back: it finds its record aborted. False if one moved
    under our hands: it may be about to launch, and must be found again."""
    now = ports.clock.now()
    due = lifecycle.later(now, settings.timings.takeover)
    aborted = provisions.Aborted(at=now, by=BY, why="the pool is taken down", settle_due=due)
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
