"""Bringing records into a store and looking at them there."""

from collections.abc import Sequence

from builders import Walk
from bullpen.model.instance import Instance
from bullpen.ports import TOGETHER_LIMIT, Records


async def land(records: Records, walk: Walk) -> Instance:
    """Apply each change of a walk; the record as stored at its end."""
    landed: Instance | None = None
    for change in walk:
        (landed,) = await records.apply(change)
    assert landed is not None
    return landed


async def land_all(records: Records, walks: Sequence[Walk]) -> list[Instance]:
    """Apply walks of equal length side by side, as many together as the store takes."""
    landed: list[Instance] = []
    for at in range(0, len(walks), TOGETHER_LIMIT):
        portion: list[Instance] = []
        for changes in zip(*walks[at : at + TOGETHER_LIMIT], strict=True):
            portion = await records.apply(*changes)
        landed += portion
    return landed


async def stored(records: Records, instance_id: str) -> Instance:
    return (await records.instances([instance_id]))[instance_id]
