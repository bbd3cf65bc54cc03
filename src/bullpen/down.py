"""Down: end every instance of the pool, whatever its state."""

from collections.abc import Callable

from bullpen import debts, handover
from bullpen.config import Settings
from bullpen.handover import Fate
from bullpen.inventory import every_live
from bullpen.model import provision as provisions
from bullpen.model.instance import TERMINATED
from bullpen.ports import Ports

BY = "down"
ROUNDS = 5
"""How often what escaped is looked for again: a command that runs meanwhile may move an instance under our hands."""


async def down(ports: Ports, settings: Settings, *, tell: Callable[[str], None] = lambda line: None) -> list[str]:
    """Mark all, end all, machines without a record included; returns the ids of what was ended."""
    await _abort_open(ports, settings)
    ended: dict[str, None] = {}
    for _ in range(ROUNDS):
        live = await every_live(ports)
        standing = [one for one in live if one.state is not TERMINATED]
        fates = await handover.expire_and_terminate(ports, settings, standing, "the pool is taken down", by=BY)
        ended |= dict.fromkeys(id for id, fate in fates.items() if fate is Fate.TERMINATED)
        owing = [one for one in live if one.state is TERMINATED]
        ended |= dict.fromkeys(await handover.terminate(ports, settings, owing, by=BY))
        strays = [seen.id for seen in await ports.compute.sightings() if seen.alive]
        ended |= dict.fromkeys(await ports.compute.terminate(strays) if strays else [])
        tell(f"{len(ended)} ended")
        if not standing and not strays:
            break
    for registration in await ports.ci.registrations():
        await ports.ci.remove(registration.name)
    return list(ended)


async def _abort_open(ports: Ports, settings: Settings) -> None:
    """A live provision must not register machines behind our back: it finds its record aborted."""
    now = ports.clock.now()
    due = handover.later(now, settings.timings.takeover)
    aborted = provisions.Aborted(at=now, by=BY, why="the pool is taken down", settle_due=due)
    names = dict.fromkeys([*settings.classes, *await ports.queue.names()])
    found = [one for name in names for one in await ports.records.open_provisions(name)]
    for landed in await ports.records.apply_each([provisions.abort(one, aborted) for one in found]):
        if isinstance(landed, provisions.Provision):
            await debts.settle_provision(ports, settings, landed, by=BY)
