"""Pause and resume: one record for a class or for the whole pool, changed by one conditional write."""

from bullpen.config import Settings
from bullpen.errors import Conflict, Unavailable
from bullpen.model import pause as pauses
from bullpen.model.pause import Pause, paused_by, subject_of
from bullpen.operate.outcome import TRIES, OperateOutcome, OperatorDeed, check_class, checked_note
from bullpen.ports import Ports

PAUSED = "no provision of it starts, and nothing is launched or kept warm for it; what runs goes on"
DRAINED = "drained"  # the note of a drain without one
RESUMED = "provisions start again, and the idle target is kept"


async def pause(
    ports: Ports, settings: Settings, resource_class: str, note: str, *, operator: str, dry_run: bool = False
) -> OperateOutcome:
    """Start nothing new in a class, or with an empty name in the pool, until it is resumed. A further pause changes the
    note. Raise ConfigError for an unknown class, and for a note that is missing or cannot be shown."""
    check_class(settings, resource_class)
    return await paused(ports, resource_class, checked_note(note, is_needed=True), operator, dry_run=dry_run)


async def paused(
    ports: Ports, resource_class: str, note: str, operator: str, *, drains: bool = False, dry_run: bool = False
) -> OperateOutcome:
    """The same, checked already. `drains`: each of its instances is drained as well. An empty note keeps that of the
    pause in force."""
    given = note
    for _ in range(TRIES):
        standing = {one.resource_class: one for one in await ports.records.pauses()}
        one = standing.get(resource_class) or pauses.absent(resource_class)
        note = given or one.note or DRAINED
        if one.is_on and one.note == note and one.drains >= drains:
            return OperateOutcome(dry_run, (), paused_by(standing.values(), resource_class))
        only_note = one.is_on and one.drains >= drains
        reason = f"it is paused already, with the note: {one.note}" if only_note else PAUSED
        actions = (OperatorDeed("change note" if only_note else "pause", one.subject, reason),)
        if dry_run:
            return OperateOutcome(dry_run, actions, paused_by(standing.values(), resource_class))
        event = pauses.PoolPaused(
            at=ports.clock.now(), by=operator, why=note, note=note, operator=operator, drains=drains
        )
        try:
            (landed,) = await ports.records.apply(pauses.pause(one, event))
        except Conflict:
            continue
        in_force = paused_by([*_others(standing, landed), landed], resource_class)
        return OperateOutcome(dry_run, actions, in_force, note)
    raise Unavailable(f"{subject_of(resource_class)}: other operators keep changing its pause", remedy="Try again.")


async def resume(
    ports: Ports, settings: Settings, resource_class: str, *, operator: str, dry_run: bool = False
) -> OperateOutcome:
    """Let a class, or with an empty name the pool, go on. One that is not paused is no error: then nothing is done.
    The pause of the whole pool is none of its classes, and the other way around. Raise ConfigError for an unknown
    class."""
    for _ in range(TRIES):
        standing = {one.resource_class: one for one in await ports.records.pauses()}
        check_class(settings, resource_class, standing)
        one = standing.get(resource_class)
        if one is None or not one.is_on:
            return OperateOutcome(dry_run, (), paused_by(standing.values(), resource_class))
        actions = (OperatorDeed("resume", one.subject, RESUMED),)
        if dry_run:
            return OperateOutcome(dry_run, actions, paused_by(standing.values(), resource_class))
        event = pauses.PoolResumed(at=ports.clock.now(), by=operator, why=f"was paused: {one.note}")
        try:
            (landed,) = await ports.records.apply(pauses.resume(one, event))
        except Conflict:
            continue
        return OperateOutcome(dry_run, actions, paused_by(_others(standing, landed), resource_class))
    raise Unavailable(f"{subject_of(resource_class)}: other operators keep changing its pause", remedy="Try again.")


def _others(standing: dict[str, Pause], landed: Pause) -> list[Pause]:
    return [one for name, one in standing.items() if name != landed.resource_class]
