"""Seen twice: a lagging list can make something look wrong that is not, so one observation is not enough."""

from collections.abc import Sequence

from bullpen.config import Settings
from bullpen.model.times import later
from bullpen.ports import Ports


async def seen_twice(
    ports: Ports, settings: Settings, topic: str, ids: Sequence[str], dry_run: bool, *, longer: float = 0.0
) -> list[str]:
    """The ids that have been in this condition for at least `timings.orphan` and `longer`, at every observation
    since."""
    now = ports.clock.now()
    since = await ports.observations.observe(topic, ids, now, remember=not dry_run)
    return [id for id in ids if later(since[id], settings.timings.orphan + longer) <= now]
