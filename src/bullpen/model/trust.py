"""Trust domain of a workflow run: which repository its code belongs to, and whether it is certainly that one's own.

    acme/web/42                    runs of the repository with the id 42, of code that is certainly its own
    acme/web/42#pull-request       its other runs
    acme/web, acme/web#pull-request    bare names: in settings, and in records from before ids were part of a domain

A name is not enough: a repository that is deleted and created again keeps it, and has another id and other authors. A
bare name means the repository that Bullpen saw first under it (repository.py). So the bare name and the name with that
id are two spellings of one domain, and every other id is a stranger.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from bullpen.lazy_dataclass import dataclass
from bullpen.model import limits

TRUSTED = ("push", "schedule", "workflow_dispatch", "repository_dispatch", "merge_group", "release")
"""Events that only users with write access trigger, and that run code of the repository."""
DEPENDABOT = "dependabot[bot]"
PULL_REQUEST = "#pull-request"
_OF_REPOSITORY = re.compile(
    rf"(?P<name>{limits.REPOSITORY})(/(?P<id>{limits.REPOSITORY_ID}))?(?P<kind>{PULL_REQUEST})?"
)


def trust_domain(repository: str, repository_id: int, event: str, ref: str, actor: str) -> str:
    """The trust domain of a run: that of its repository, if its code is certainly the repository's own.

    A run that a pull request, a comment, or the end of another run triggers may execute code that a stranger wrote, and
    a run of Dependabot executes code that a stranger published. These and every unknown event get a domain of their
    own. No other domain reuses its machines, unless `trust.inherits` allows it. (A pull request from a fork gets no
    token from GitHub anyway.) An id of 0 is not known: the domain then is a bare name.
    """
    return str(RepositoryDomain(repository, repository_id, "" if is_own_code(event, ref, actor) else PULL_REQUEST))


def is_own_code(event: str, ref: str, actor: str) -> bool:
    """Whether the code of such a run is certainly the repository's own."""
    return event in TRUSTED and ref.startswith(("refs/heads/", "refs/tags/")) and actor not in ("", DEPENDABOT)


@dataclass(frozen=True, slots=True)
class RepositoryDomain:
    """The parts of a domain that is a repository's. `id` is 0 in a bare name."""

    name: str
    id: int = 0
    kind: str = ""

    def __str__(self) -> str:
        return f"{self.name}{f'/{self.id}' if self.id else ''}{self.kind}"


def of_repository(domain: str) -> RepositoryDomain | None:
    """The parts of a domain; None if it does not have the form of a repository's."""
    found = _OF_REPOSITORY.fullmatch(domain)
    return RepositoryDomain(found["name"], int(found["id"] or 0), found["kind"] or "") if found else None


def bare(domain: str) -> str:
    """The domain without the id of its repository."""
    found = of_repository(domain)
    return str(replace(found, id=0)) if found else domain


def spellings(domain: str, first_ids: Mapping[str, int]) -> tuple[str, ...]:
    """The domain, and how else it may be written. `first_ids` are those of repositories by case-folded name."""
    found = of_repository(domain)
    first = first_ids.get(found.name.casefold(), 0) if found else 0
    if found is None or not first or found.id not in (0, first):
        return (domain,)
    return (domain, str(replace(found, id=0 if found.id else first)))


def inherited(
    domain: str, inherits: Mapping[str, Sequence[str]], first_ids: Mapping[str, int], also: Iterable[str] = ()
) -> tuple[str, ...]:
    """The domains whose used machines a run of `domain` may get besides its own and those of `also`, in every spelling.
    `inherits` are the rules of the settings, which may have bare names on both sides."""
    own = spellings(domain, first_ids)
    named = [*also, *(one for spelling in own for one in inherits.get(spelling, ()))]
    found = dict.fromkeys([*own, *(spelling for one in named for spelling in spellings(one, first_ids))])
    return tuple(one for one in found if one != domain)


def repository_names(domains: Iterable[str]) -> list[str]:
    """The names of the repositories that these domains belong to, each once."""
    found = (of_repository(domain) for domain in domains)
    return [*dict.fromkeys(one.name for one in found if one)]
