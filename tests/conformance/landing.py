"""Bringing records into a store and looking at them there."""

from collections.abc import Sequence

from builders import NOW, Walk
from bullpen.model.instance import Instance
from bullpen.model.usage import Booking, Meter, Owner
from bullpen.ports import TOGETHER_LIMIT, History, Records


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


async def book_to_their_ends(history: History, *ids: str) -> None:
    """Nothing of these machines is left to be booked: a purge may remove them."""
    over = [Meter(id, 1, NOW, Owner.CLEANING, 1, over=True) for id in ids]
    assert await history.book([Booking(None, meter, ()) for meter in over]) == [True] * len(ids)
