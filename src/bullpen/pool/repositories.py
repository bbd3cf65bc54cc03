"""Repositories by id: the first sight of one, and what a run may inherit by bare names.

    a domain with an id, or a webhook ─▶ see: which repository does the bare name mean?
                                            this one     bare names in records and settings are its own
                                            another one  it was created again: only names with its id are

The record is written once, under a condition, and never changes its meaning: a process that dies right after has
decided for all others, and one that is told again finds what is there. Without permission to read or write it, a run
inherits nothing by bare names: it gets clean machines of its own, which costs time and no trust.
"""

from dataclasses import replace

from bullpen.config import Settings
from bullpen.errors import Conflict, PermissionDenied
from bullpen.model import repository
from bullpen.model.repository import Repository, RepositorySeen
from bullpen.model.ticket import Requirements
from bullpen.model.trust import bare, inherited, of_repository, repository_names
from bullpen.ports import Ports
from bullpen.structured_log import get_logger

REMEDY = "Give it the current policy: `bullpen iam-policy` prints it."

log = get_logger("bullpen.pool")


async def with_inherited(ports: Ports, settings: Settings, needs: Requirements, by: str) -> Requirements:
    """The requirements with every trust domain that the run inherits, spelt in every way that records may have it.

    The repository of the run's domain is seen by this, if the domain has its id.
    """
    rules = settings.trust.inherits
    own_rules = (named for key, named in rules.items() if bare(key) == bare(needs.trust_domain))
    names = repository_names([needs.trust_domain, *needs.inherits, *(one for named in own_rules for one in named)])
    if not names:
        return needs
    try:
        first_ids = await _first_ids(ports, names, needs.trust_domain, by)
    except PermissionDenied as exc:
        log.warning("bare names of repositories are not completed", error=exc, remedy=REMEDY)
        first_ids = {}
    return replace(needs, inherits=inherited(needs.trust_domain, rules, first_ids, also=needs.inherits))


async def see(ports: Ports, name: str, ci_id: int, by: str) -> Repository:
    """The record of a repository's name, after a repository with this id was seen under it."""
    found = await ports.records.repositories([name])
    return await _seen(ports, found.get(name.casefold()) or repository.absent(name), ci_id, by)


async def _first_ids(ports: Ports, names: list[str], domain: str, by: str) -> dict[str, int]:
    found = await ports.records.repositories(names)
    if (own := of_repository(domain)) is not None and own.id:
        key = own.name.casefold()
        found[key] = await _seen(ports, found.get(key) or repository.absent(own.name), own.id, by)
    return {name: one.ci_id for name, one in found.items()}


async def _seen(ports: Ports, found: Repository, ci_id: int, by: str) -> Repository:
    while not found.has_met(ci_id):
        event = RepositorySeen(at=ports.clock.now(), by=by, why=_why(found, ci_id), ci_id=ci_id)
        step = repository.see if found.state is repository.ABSENT else repository.meet
        try:
            (found,) = await ports.records.apply(step(found, event))
        except Conflict as exc:  # another process has seen one: what it wrote counts
            if not isinstance(exc.found, Repository):
                raise
            found = exc.found
    return found


def _why(found: Repository, ci_id: int) -> str:
    if found.state is repository.ABSENT:
        return f"{found.name} means the repository with the id {ci_id} from now on"
    return (
        f"{found.name} means the repository with the id {found.ci_id}; the one with the id {ci_id} inherits nothing of"
        f" it. Write {found.name}/{ci_id} in trust.inherits if it may"
    )
