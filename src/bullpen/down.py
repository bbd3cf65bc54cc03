"""Down: end every instance of the pool, whatever its state."""

from collections.abc import Callable

from bullpen import debts, handover
from bullpen.config import Settings
from bullpen.model.instance import TERMINATED
from bullpen.ports import Ports

PAGE = 100


async def down(ports: Ports, settings: Settings, *, tell: Callable[[str], None] = lambda line: None) -> list[str]:
    """Mark all, end all, machines without a record included; returns the ids of what was ended."""
    by = "down"
    ended: list[str] = []
    after = ""
    while page := await ports.records.live(PAGE, after):
        after = page[-1].id
        live = [one for one in page if one.state is not TERMINATED]
        fates = await handover.expire_and_terminate(ports, settings, live, "the pool is taken down", by=by)
        ended += [id for id, fate in fates.items() if fate is handover.Fate.TERMINATED]
        ended += await handover.terminate(ports, settings, [one for one in page if one.state is TERMINATED], by=by)
        tell(f"{len(ended)} ended")
    strays = [seen.id for seen in await ports.compute.sightings() if seen.id not in ended]
    ended += await ports.compute.terminate(strays) if strays else []
    for registration in await ports.ci.registrations():
        await ports.ci.remove(registration.name)
    await debts.pay_due(ports, settings, PAGE, by=by)
    return ended
