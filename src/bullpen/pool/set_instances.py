"""Instances of scale sets: one that its set does not take any more is given back between two jobs.

The settings of a set may change while its runners live: the set is retired, gets another trust domain or class, or its
class a new image. The agent of such an instance asks for its next registration and must not get one. The same request
gives the instance back, so that the agent deregisters, cleans and attests, and the instance goes on offer again.
"""

from bullpen.config import Settings
from bullpen.model.instance import CLAIMED, RUNNING
from bullpen.model.served_set import mismatch
from bullpen.model.set_member import set_of
from bullpen.pool import busy, lifecycle
from bullpen.ports import Ports


async def give_back_mismatched(ports: Ports, settings: Settings, instance_id: str, round: str) -> None:
    """Give the instance back if it serves a set in this round that must not have it any more, and executes no job. If
    another process has moved it, that process knows better."""
    one = (await ports.records.instances([instance_id])).get(instance_id)
    if one is None or one.round != round or one.state not in (CLAIMED, RUNNING) or (name := set_of(one)) is None:
        return
    found = (await ports.records.scale_sets()).get(name)
    why = mismatch(one, found, settings.set_requirements(found.rules) if found is not None else None)
    # A request that comes late or twice may meet a job that has begun since: the agent asks again after it.
    if why and not await busy.at_work(ports, settings, [one.id], hurry=True):
        change = lifecycle.give_back(ports, settings, one, ports.clock.now(), one.id, why)
        await ports.records.apply_each([change])
