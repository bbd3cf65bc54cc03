"""Lost members: a member of a scale set whose worker is lost, and that reports no job, is deregistered and ended.

    deregister ──▶ removed, or no answer ──▶ ended; the set claims another
              └──▶ GitHub knows of a job there ──▶ left alone: the job counts, as long as GitHub believes in it

GitHub gives a job to any registered runner, also to one whose agent Bullpen does not hear. So the registration goes
first: a runner that is cut off from Bullpen, and not from GitHub, is not ended under a job that it has just got. While
GitHub does not answer, the dead are ended all the same; refresh removes their registrations later. Where the machine
is known to be gone, no runner is left that could be at work, and the member is ended in any case.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from bullpen.concurrency import gather_or_cancel
from bullpen.config import Settings
from bullpen.errors import Refused, Unavailable
from bullpen.model.activity import parse_listening
from bullpen.model.instance import Instance
from bullpen.model.signal import Pulse
from bullpen.pool import lifecycle
from bullpen.ports import Ports, Removal
from bullpen.refresh.action import BY, Action, Plan, PlanReport


def ending(
    ports: Ports,
    settings: Settings,
    condemned: Sequence[Instance],
    why: Mapping[str, str],
    *,
    machine_is_gone: bool = False,
) -> Plan:
    """A plan that ends the members, for a reason each, by id."""
    actions = tuple(Action("terminate", one.id, why[one.id]) for one in condemned)
    return Plan(actions, partial(_end, ports, settings, condemned, why, machine_is_gone), is_certain=machine_is_gone)


async def _end(
    ports: Ports, settings: Settings, condemned: Sequence[Instance], why: Mapping[str, str], machine_is_gone: bool
) -> PlanReport | None:
    pulses = await ports.signals.read([one.id for one in condemned])
    are_free = await gather_or_cancel([_is_free(ports, one, pulses[one.id]) for one in condemned])
    free = [one for one, is_free in zip(condemned, are_free, strict=True) if is_free or machine_is_gone]
    busy = [one.id for one in condemned if one not in free]
    await lifecycle.expire_and_terminate(ports, settings, free, why, by=BY)
    if machine_is_gone:
        return None
    spared = tuple(Action("spare", id, f"{why[id]}, and GitHub knows of a job on its runner") for id in busy)
    return PlanReport((*(Action("terminate", one.id, why[one.id]) for one in free), *spared))


async def _is_free(ports: Ports, one: Instance, pulse: Pulse) -> bool:
    """Deregister its runner; False if GitHub knows that it executes a job."""
    listening = parse_listening(pulse.heartbeat.activity) if pulse.heartbeat is not None else None
    try:
        if listening is not None:
            removal = await ports.scale_sets.remove_runner(listening.id)
        else:  # it may have got a registration that no heartbeat names
            removal = await ports.ci.remove(one.id)
    except (Refused, Unavailable):
        return True
    return removal is Removal.REMOVED
