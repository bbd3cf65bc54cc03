"""Drift: an idle instance whose runner version GitHub is about to refuse is replaced in time.

GitHub refuses runners that are not updated within 30 days of a release, and the runners of the pool do not update
themselves. Agents report the version of the runner when they have booted and when they have cleaned up. A new machine
takes the runner from the image, the directory or the archive that the settings name. If that is old as well, replacing
one machine after the other would not help: so a young machine is spared, and an alarm is raised for the operator.
"""

from collections.abc import AsyncIterator, Mapping, Sequence

from bullpen.config import Settings
from bullpen.model.instance import Instance
from bullpen.pool.runner_versions import advice, is_young, version_of
from bullpen.ports import Ports, Sighting
from bullpen.refresh.action import Action, Plan, alarm, ending


async def plans(
    ports: Ports, settings: Settings, live: Sequence[Instance], sightings: Mapping[str, Sighting]
) -> AsyncIterator[Plan]:
    idle = [one for one in live if one.is_claimable] if settings.on_github else []
    if not idle:
        return
    pulses = await ports.signals.read([one.id for one in idle])
    versions = {one.id: found for one in idle if (found := version_of(pulses[one.id]))}
    refused = await ports.ci.refusals(sorted(dict.fromkeys(versions.values()))) if versions else {}
    now = ports.clock.now()
    for one in idle:
        version = versions.get(one.id, "")
        if version not in refused:
            continue
        reason = f"GitHub refuses its runner {version} from {refused[version]:%Y-%m-%d} on"
        if is_young(sightings.get(one.id), now):
            yield alarm(Action("outdated", one.id, f"{reason}, and {advice(settings)}"))
        else:
            yield ending(ports, settings, [one], reason)
