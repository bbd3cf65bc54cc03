"""Repository: which one a bare name means, and how Bullpen's record of that may change.

               see              meet
    ─────────────▶ ┌───────┐ ─────┐
                   │ known │      │
                   └───────┘ ◀────┘

A bare name, as `acme/web`, is in settings and in records from before trust domains had ids (trust.py). It means the
repository that Bullpen sees first under that name, for ever: `see` writes its id once, and of any number of processes
one lands. A repository that is created again under the name has another id. `meet` notes that for the operator, and
changes nothing of what the name means.

A record stays: there are as many as names of repositories were ever seen. Names differ by more than their case.
"""

from dataclasses import replace
from enum import StrEnum

from bullpen.errors import Conflict
from bullpen.lazy_dataclass import dataclass
from bullpen.model import limits
from bullpen.model.transition import Event, Guard, steps_in, transition

ID_PREFIX = limits.REPOSITORY_PREFIX
"""Before the name. The stories of all records are found by id alone, and the key of a worker may have a slash too."""
OTHERS_KEPT = 10  # ids that came later: enough to recognise those that still run, and the record stays small


class State(StrEnum):
    ABSENT = "absent"  # never stored
    KNOWN = "known"


ABSENT, KNOWN = State


@dataclass(frozen=True, slots=True)
class Repository:
    """The repository that a bare name means. `ci_id` is its id at the CI, `others` those that had the name later."""

    id: str
    state: State
    version: int
    name: str = ""  # as it was spelt when it was seen
    ci_id: int = 0
    others: tuple[int, ...] = ()

    def has_met(self, ci_id: int) -> bool:
        return ci_id == self.ci_id or ci_id in self.others


def absent(name: str) -> Repository:
    return Repository(id=repository_key(name), state=ABSENT, version=0, name=name)


def repository_key(name: str) -> str:
    """The id of the record."""
    return f"{ID_PREFIX}{name.casefold()}"


Step = tuple[Repository, tuple[Guard, ...]]


class RepositorySeen(Event):
    ci_id: int


@transition(ABSENT, to=KNOWN)
def see(repository: Repository, event: RepositorySeen) -> Step:
    """A repository of this name is seen for the first time: bare names mean this one."""
    return replace(repository, ci_id=event.ci_id), ()


@transition(KNOWN, to=KNOWN)
def meet(repository: Repository, event: RepositorySeen) -> Step:
    """Another repository has the name: the first was deleted or renamed. It inherits nothing from bare names."""
    if repository.has_met(event.ci_id):
        raise Conflict(f"{repository.id}: {event.ci_id} is known already", found=repository)
    return replace(repository, others=(*repository.others, event.ci_id)[-OTHERS_KEPT:]), ()


STEPS = steps_in(globals())
