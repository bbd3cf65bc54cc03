"""Seen twice: what only looks wrong because a list lags is left alone."""

from collections.abc import Sequence

from bullpen.config import Settings
from bullpen.pool import lifecycle
from bullpen.ports import Ports


async def seen_twice(
    ports: Ports, settings: Settings, topic: str, ids: Sequence[str], dry_run: bool, *, longer: float = 0.0
) -> list[str]:
    """Those seen in this condition before, at least `timings.orphan` and `longer` ago and at every look since."""
    now = ports.clock.now()
    since = await ports.observations.observe(topic, ids, now, remember=not dry_run)
    return [id for id in ids if lifecycle.later(since[id], settings.timings.orphan + longer) <= now]
