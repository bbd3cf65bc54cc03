"""The end of a scale set that the settings do not have any more: once the CI has nothing of it, it is retired."""

from bullpen.errors import Conflict
from bullpen.model import scale_set as sets
from bullpen.model.instance import Instance
from bullpen.model.scale_set import RETIRED, RETIRING, ScaleSet, SetGone
from bullpen.ports import Ports
from bullpen.scale_sets.ownership import find_in_group, is_own


async def members_of(ports: Ports, scale_set: ScaleSet) -> list[Instance]:
    """The instances that serve it. The list may lag: an instance that it lacks cannot become a member any more,
    because `engage` asks for a set that is ready."""
    return await ports.records.run_instances(scale_set.run_id)


async def finish_retiring(ports: Ports, scale_set: ScaleSet, *, by: str) -> ScaleSet:
    """Close the session of a retiring set, delete the set at the CI and land `gone`; returns the record as stored.

    The set stays as it is while it has members. Repeat it after a failure or a kill: what is gone already is success.
    If the settings get the set back meanwhile, it is ready and missing at the CI, where it is then created again.
    """
    if scale_set.state is not RETIRING or await members_of(ports, scale_set):
        return scale_set
    session = (await ports.records.set_sessions()).get(scale_set.name)
    for id in await _ids(ports, scale_set):
        if session is not None and session.ci_session:
            await ports.scale_sets.close(id, session.ci_session)
        await ports.scale_sets.delete(id)
    try:
        stored: list[ScaleSet] = await ports.records.apply(sets.gone(scale_set, SetGone(at=ports.clock.now(), by=by)))
    except Conflict as conflict:
        if isinstance(conflict.found, ScaleSet) and conflict.found.state is RETIRED:
            return conflict.found  # another process has finished it
        raise
    return stored[0]


async def _ids(ports: Ports, scale_set: ScaleSet) -> list[int]:
    """Of the set at the CI. A process may have created it and died before it wrote down the id."""
    if scale_set.ci_id:
        return [scale_set.ci_id]
    found = await find_in_group(ports, scale_set.name, scale_set.rules.group)
    return [found.id] if found is not None and is_own(scale_set, found) else []
