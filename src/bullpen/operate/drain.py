"""Drain: instances that take no new run, and are ended as soon as they are free.

instances   each by one write. Those that are not written when the process is killed were not drained
a class     it is paused, and the pause says that it drains. From then on every process that keeps the pool drains
            what it finds there, also instances that a provision was still launching
"""

from collections.abc import Sequence

from bullpen.config import Settings
from bullpen.errors import ConfigError, NotFound, Unavailable
from bullpen.model.instance import TERMINATED, Instance
from bullpen.model.pause import paused_by
from bullpen.operate.outcome import OperateOutcome, OperatorDeed, check_class, checked_note, classes_of
from bullpen.operate.pauses import paused
from bullpen.pool import draining
from bullpen.pool.draining import DrainPlan
from bullpen.pool.live_instances import every_live
from bullpen.ports import Ports

NAMED = 5  # ids that a message names


async def drain(
    ports: Ports,
    settings: Settings,
    instances: Sequence[str] = (),
    resource_class: str = "",
    note: str = "",
    *,
    operator: str,
    dry_run: bool = False,
) -> OperateOutcome:
    """Drain these instances, or all of a class, which is paused as well: otherwise others would be launched there.

    Raise ConfigError for both or neither and for an unknown class, NotFound for an unknown instance, before anything is
    changed.
    """
    note = checked_note(note)
    if bool(instances) is bool(resource_class):
        raise ConfigError(
            "instances: name some, or a resource class, and not both",
            remedy="Name ids that `bullpen status` shows, or a class with --class.",
            field="instances",
            allowed="ids of instances, or a class",
        )
    if instances:
        return await _drain_named(ports, settings, list(dict.fromkeys(instances)), note, operator, dry_run)
    return await _drain_class(ports, settings, resource_class, note, operator, dry_run)


async def _drain_named(
    ports: Ports, settings: Settings, ids: Sequence[str], note: str, operator: str, dry_run: bool
) -> OperateOutcome:
    found = await ports.records.instances(ids)
    if unknown := [id for id in ids if id not in found]:
        more = f" and {len(unknown) - NAMED} more" if len(unknown) > NAMED else ""
        raise NotFound(
            f"{', '.join(unknown[:NAMED])}{more}: no such instance",
            remedy="Run `bullpen status` to list the instances. Nothing was drained.",
        )
    some = [found[id] for id in ids]
    done = draining.plan_drain(some)
    if not dry_run:
        done = await _carry_out(ports, settings, done, note, operator)
    dealt_with = {one.id for one in (*done.ends, *done.marks)}
    skipped = [_skipped(one) for one in some if one.id not in dealt_with]
    return OperateOutcome(dry_run, (*_deeds(done), *skipped), note=note)


async def _drain_class(
    ports: Ports, settings: Settings, resource_class: str, note: str, operator: str, dry_run: bool
) -> OperateOutcome:
    live = await every_live(ports)
    check_class(settings, resource_class, classes_of(live))
    outcome = await paused(ports, resource_class, note, operator, drains=True, dry_run=dry_run)
    # Read again: what was registered before the pause landed is in this list, or a later process finds it.
    live = live if dry_run else await every_live(ports)
    done = draining.plan_drain(one for one in live if one.resource_class == resource_class)
    if not dry_run:
        done = await _carry_out(ports, settings, done, note, operator)
    pause = outcome.pause if dry_run else paused_by(await ports.records.pauses(), resource_class)
    return OperateOutcome(dry_run, (*outcome.actions, *_deeds(done)), pause, outcome.note or note)


async def _carry_out(ports: Ports, settings: Settings, planned: DrainPlan, note: str, operator: str) -> DrainPlan:
    """What was done, which differs from the plan if a run was faster."""
    done, left = await draining.carry_out(
        ports, settings, planned, draining.words_of_drain(operator, note), by=operator
    )
    if left:
        raise Unavailable(
            f"{', '.join(left[:NAMED])}: not drained, other processes kept changing the record", remedy="Try again."
        )
    return done


def _deeds(done: DrainPlan) -> list[OperatorDeed]:
    return [
        *(OperatorDeed("end", one.id, "it is free") for one in done.ends),
        *(OperatorDeed("drain", one.id, _until(one)) for one in done.marks),
    ]


def _until(one: Instance) -> str:
    if one.run_id:
        return f"it is {one.state} for {one.run_id}; it is ended once that has given it back"
    return "it is being cleaned; it is ended after that"


def _skipped(one: Instance) -> OperatorDeed:
    is_marked = one.is_drained and one.state is not TERMINATED
    return OperatorDeed("skip", one.id, "it is drained already" if is_marked else "it has ended")
