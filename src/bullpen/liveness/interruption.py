"""Spot interruptions: workers whose machine is about to be taken away, and which reported it.

An idle one would be claimed and lost within minutes: it is ended at once, and refresh fills the pool up as ever. One
that runs finishes its job if it can; it gets no other (jobs/assignment.py) and no longer counts for its run
(provision/existing_members.py, run.py). One that is claimed or booting reports its failure itself.
"""

from bullpen.config import Settings
from bullpen.model.instance import IDLE
from bullpen.pool import lifecycle
from bullpen.ports import Ports

BY = "sweeper"
PAGE = 1000


async def leaving_instances(ports: Ports) -> dict[str, str]:
    """Why each instance that is about to be taken away does not count, by id."""
    found = await ports.workers.leaving(PAGE)
    return {one.instance_id: f"its machine is to be taken away at {one.leaving:%H:%M:%S}Z" for one in found}


async def end_leaving(ports: Ports, settings: Settings) -> list[str]:
    """End the idle ones; returns them, though some may have been claimed meanwhile."""
    leaving = await leaving_instances(ports)
    if not leaving:
        return []
    found = await ports.records.instances([id for id in leaving if id])
    idle = [one for one in found.values() if one.state is IDLE]
    for why in dict.fromkeys(leaving[one.id] for one in idle):
        condemned = [one for one in idle if leaving[one.id] == why]
        await lifecycle.expire_and_terminate(ports, settings, condemned, why, by=BY)
    return [one.id for one in idle]
