"""Whose set it is that has a name at the CI.

Another owner may take a name at any time: also while no process of this pool looks, and between its look and its call
that creates the set. The answer of that call may be lost. So neither the name nor the time shows whose a set is. It is
the pool's own if the record has its id, or if it has the record's mark: a label that was drawn when the set was wanted,
which the call that creates the set sends, and which no other owner knows.

A CI that drops labels beside the name shows no mark. There, a set whose creation was not answered is not known as the
pool's own until an operator says so.
"""

from bullpen.errors import Conflict, PermissionDenied, Refused
from bullpen.model.scale_set import ScaleSet
from bullpen.ports import Chance, Ports, RegisteredSet

MARK = "bullpen-owner-"  # before the part that is drawn


def draw_mark(chance: Chance) -> str:
    return f"{MARK}{chance.token()}"


def is_own(scale_set: ScaleSet, seen: RegisteredSet) -> bool:
    """Whether the pool created this set, or an operator said that it is the pool's."""
    has_mark = bool(scale_set.mark) and scale_set.mark in (label.casefold() for label in seen.labels)
    return has_mark or (scale_set.ci_id > 0 and seen.id == scale_set.ci_id)


async def find_in_group(ports: Ports, name: str, group: str) -> RegisteredSet | None:
    """The set of this name in a group that may not exist any more."""
    try:
        return await ports.scale_sets.find_named(name, group)
    except PermissionDenied:
        raise
    except Refused:
        return None


async def check_other_groups(ports: Ports, table: str, scale_set: ScaleSet) -> None:
    """Raise Refused if any runner group has another owner's set of this name: sets with equal labels get each other's
    jobs. `table` is the set's in the settings. It takes a request for each group."""
    name = scale_set.name
    for place, found in (await ports.scale_sets.find_everywhere(name)).items():
        if not is_own(scale_set, found):
            raise Refused(
                f"{table}.name ({name!r}): the runner group {place!r} has a scale set of this name, too, {found.id}:"
                " GitHub gives a job to either of them",
                remedy=f"Set another name, or delete the other set. If it is this pool's, set {table}.runner-group to"
                f" {place!r}. If no repository may use both groups, create this set with `bullpen refresh --adopt-set"
                f" {name}`.",
            )


def taken(table: str, name: str, found: RegisteredSet) -> Refused:
    """Another owner's set has the name. `table` is the set's in the settings."""
    return Refused(
        f"{table}.name ({name!r}): GitHub has a scale set of this name, {found.id}, that this pool did not create",
        remedy=f"Set another name. If no other pool or controller serves that set, take it with `bullpen refresh"
        f" --adopt-set {name}`.",
    )


def session_taken(refusal: Conflict, table: str, name: str) -> Conflict:
    """Another process listens to the set. `table` is the set's in the settings."""
    return Conflict(
        f"{refusal}. The session of a killed process ends within a minute. If this error lasts longer, another pool or"
        f" controller listens to the set. Stop that program, or change {table}.name ({name!r})"
    )
