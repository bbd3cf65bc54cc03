"""Drift: an idle instance whose runner version GitHub is about to refuse is replaced in time.

GitHub refuses runners that are not updated within 30 days of a release, and the runners of the pool do not update
themselves. Agents report the version of the runner when they have booted and when they have cleaned up. A new machine
takes the runner from the image, the directory or the archive that the settings name. If that is old as well, replacing
one machine after the other would not help: so a young machine is spared, and an alarm is raised for the operator.
"""

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime

from bullpen.config import Settings
from bullpen.model.instance import Instance
from bullpen.model.signal import Pulse
from bullpen.model.times import later
from bullpen.ports import Ports, Sighting
from bullpen.refresh.action import Action, Plan, alarm, ending

YOUNG = 3600.0
"""Seconds after its launch in which a machine shows which version a new one would have. So it is replaced hourly at
most."""
VERSION = re.compile(r"\brunner=([0-9]+(?:\.[0-9]+){1,3})\b", re.ASCII)


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
        if _is_young(sightings.get(one.id), now):
            source = "github.runner-url" if settings.github.runner_url else "the image or github.runner-directory"
            advice = f"{reason}, and new machines have it too: put a newer one into {source}"
            yield alarm(Action("outdated", one.id, advice))
        else:
            yield ending(ports, settings, [one], reason)


def version_of(pulse: Pulse) -> str:
    """The version of the runner, from the last signal; empty if that does not name it."""
    found = VERSION.search(pulse.signal.text) if pulse.signal is not None and not pulse.signal.kind.is_failure else None
    return found[1] if found else ""


def _is_young(seen: Sighting | None, now: datetime) -> bool:
    return seen is not None and later(seen.launched_at, YOUNG) > now
