"""Instances with what their agents reported: the last beat, the job of a CI, and whether they are about to go."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from bullpen.config import Settings
from bullpen.lazy_dataclass import dataclass
from bullpen.liveness.silence import is_mute
from bullpen.model.activity import Activity
from bullpen.model.instance import TERMINATED, Instance
from bullpen.model.signal import Pulse
from bullpen.pool import busy
from bullpen.ports import Ports

PAGE = 500  # machines that are to be interrupted


@dataclass(frozen=True, slots=True)
class InstanceView:
    """An instance as its record says, what its agent last reported, and its process where it runs on this machine.

    `leaving` is when its machine is to be interrupted, if its worker reported it; `silent` whether it has not beaten
    for as long as it takes to declare its worker lost; `activity` the job that a CI with jobs of its own runs there.
    """

    instance: Instance
    pulse: Pulse
    pid: int | None
    leaving: datetime | None = None
    silent: bool = False
    activity: Activity | None = None


async def views(ports: Ports, settings: Settings, some: Sequence[Instance]) -> list[InstanceView]:
    """Instances with what their agents reported. Their processes are not looked for."""
    return await viewed(ports, settings, some, await leaving_at(ports) if some else {}, {})


async def viewed(
    ports: Ports,
    settings: Settings,
    some: Sequence[Instance],
    leaving: Mapping[str, datetime],
    pids: Mapping[str, int | None],
) -> list[InstanceView]:
    pulses = await ports.signals.read([one.id for one in some]) if some else {}
    jobs, now = activities(ports, settings, pulses), ports.clock.now()
    return [
        InstanceView(
            one,
            pulses[one.id],
            pids.get(one.id),
            leaving.get(one.id),
            one.state is not TERMINATED and is_mute(settings, pulses[one.id].heartbeat, now),
            jobs.get(one.id),
        )
        for one in some
    ]


def activities(ports: Ports, settings: Settings, pulses: Mapping[str, Pulse]) -> dict[str, Activity]:
    """What living runners execute."""
    now, within = ports.clock.now(), settings.timings.alive
    return {id: job for id, job in busy.activities(settings, pulses).items() if pulses[id].is_recent(now, within)}


async def leaving_at(ports: Ports) -> dict[str, datetime]:
    """When machines are to be interrupted, by instance; of a great many, some."""
    return {one.instance_id: one.leaving for one in await ports.workers.leaving(PAGE) if one.leaving}
