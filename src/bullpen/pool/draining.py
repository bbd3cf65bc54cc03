"""Draining: instances that take no new run. A free one is ended at once, any other one when it is free.

    on offer, or booting for no run ──▶ ended
    created or claimed for a run, running, being cleaned ──▶ marked ──▶ given back and clean ──▶ ended, not offered

A mark and an end are each one conditional write. A claim that is faster keeps its instance, which is then marked as
claimed; a mark that is faster is seen by the claim, which takes another instance. No instance is ended before its run
has given it back.
"""

from collections.abc import Iterable

from bullpen.config import Settings
from bullpen.lazy_dataclass import dataclass
from bullpen.model import instance as instances
from bullpen.model.instance import CREATED, TERMINATED, Instance
from bullpen.model.pause import Pause, paused_by
from bullpen.pool import lifecycle
from bullpen.ports import Ports

TRIES = 5
"""How often an instance is read again that another process moved at the same moment: a claim, a commit, a release."""


@dataclass(frozen=True, slots=True)
class DrainPlan:
    """What there is to do: `ends` are free, `marks` are not."""

    ends: tuple[Instance, ...] = ()
    marks: tuple[Instance, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.ends or self.marks)


def plan_drain(some: Iterable[Instance]) -> DrainPlan:
    """For all of these that are not drained, or ended, yet."""
    living = [one for one in some if one.state is not TERMINATED and not one.is_drained]
    free = [one for one in living if _is_free(one)]
    return DrainPlan(tuple(free), tuple(one for one in living if not _is_free(one)))


async def carry_out(
    ports: Ports, settings: Settings, planned: DrainPlan, why: str, *, by: str
) -> tuple[DrainPlan, list[str]]:
    """Drain them; returns what was done, and the ids of those that could not be written, as other processes kept moving
    them. One that a run claims before it is ended is marked instead."""
    left = [*planned.ends, *planned.marks]
    ends, marks = list[Instance](), list[Instance]()
    for _ in range(TRIES):
        found = plan_drain(left)
        fates = await lifecycle.expire_and_terminate(ports, settings, found.ends, why, by=by) if found.ends else {}
        event = instances.Drained(at=ports.clock.now(), by=by, why=why)
        landed = await ports.records.apply_each([instances.drain(one, event) for one in found.marks])
        moved = [id for id, fate in fates.items() if fate is instances.InstanceFate.NOT_OURS]
        moved += [one.id for one, now in zip(found.marks, landed, strict=True) if not isinstance(now, Instance)]
        ends += [one for one in found.ends if one.id not in moved]
        marks += [one for one in found.marks if one.id not in moved]
        if not moved:
            break
        left = [*(await ports.records.instances(moved)).values()]
    else:
        return DrainPlan(tuple(ends), tuple(marks)), [one.id for one in left]
    return DrainPlan(tuple(ends), tuple(marks)), []


def draining_pause(pauses: Iterable[Pause], resource_class: str) -> Pause | None:
    """The pause that drains a class, if one does."""
    return paused_by([one for one in pauses if one.drains], resource_class)


def words_of_drain(operator: str, note: str) -> str:
    """Why, for the story of an instance."""
    return f"drained by {operator}" + (f": {note}" if note else "")


def _is_free(one: Instance) -> bool:
    """On offer, or launched ahead of any run and booting."""
    return one.is_claimable or (one.state is CREATED and not one.run_id)
