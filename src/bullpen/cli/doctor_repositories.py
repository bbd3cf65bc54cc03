"""The check of `doctor` on the repositories of scale sets: each exists, the credentials see it, and it is the one that
the pool knows by its name. It changes nothing. Whether a runner group admits them is asked with the groups."""

from collections.abc import Mapping

from bullpen.config import Settings
from bullpen.errors import BullpenError, NotFound
from bullpen.model.scale_set import SetRepository
from bullpen.ports import Ports
from bullpen.ports.health import Finding, Health
from bullpen.scale_sets.rules import rules_of, tables

NAME = "set repositories"
SHOWN = 5  # repositories that are listed where all is well
UNSEEN = "Correct the setting, let the credentials see the repository, or write its id: OWNER/NAME/ID."


async def check_set_repositories(ports: Ports, settings: Settings) -> list[Finding]:
    """One finding for all sets; none if no set names a repository. Never raises a BullpenError."""
    named = _named(settings)
    if not named:
        return []
    try:
        recorded = await ports.records.repositories([one.name for one in named])
        first_ids = {name: one.ci_id for name, one in recorded.items()}
        for one, where in named.items():
            if (failed := await _check(ports, one, where, first_ids, named)) is not None:
                return [failed]
    except BullpenError as exc:
        return [Finding(NAME, Health.FAILED, str(exc), exc.remedy or "Try again.")]
    names = [*dict.fromkeys(one.name for one in named)]
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return [Finding(NAME, Health.OK, f"known by their ids: {', '.join(names[:SHOWN])}{more}")]


async def _check(
    ports: Ports,
    one: SetRepository,
    where: str,
    first_ids: Mapping[str, int],
    named: Mapping[SetRepository, str],
) -> Finding | None:
    """What is wrong with a repository; None if nothing is."""
    try:
        now = await ports.workflows.repository_id(one.name)
    except NotFound as exc:
        if one.id:  # the operator knows better than GitHub shows
            return None
        return Finding(NAME, Health.FAILED, f"{where}: {exc}; until then it is known by its name", UNSEEN)
    known = one.id or first_ids.get(one.name.casefold(), now)
    if now in (known, *(other.id for other in named if other.name.casefold() == one.name.casefold())):
        return None
    found = f"{where}: {one.name} has the id {now} now, and this pool knows it by {known}: its jobs are refused"
    remedy = f'It was created again. If it may have the same runners, write "{one.name}/{now}" there.'
    return Finding(NAME, Health.FAILED, found, remedy)


def _named(settings: Settings) -> dict[SetRepository, str]:
    """Each repository of a set, and the setting that names it first."""
    places = tables(settings)
    found: dict[SetRepository, str] = {}
    for name, rules in rules_of(settings).items():
        for one in rules.repositories:
            found.setdefault(one, f"{places[name]}.repositories")
    return found
