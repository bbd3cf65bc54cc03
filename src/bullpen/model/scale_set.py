"""ScaleSet: what a workflow names in `runs-on`, which jobs it serves, and how Bullpen's record of it may change.

                correct                     correct
                 ┌───┐        found          ┌───┐       retire                        gone
    ─ want ─▶ ┌────────┐ ────────────────▶ ┌───────┐ ────────────────▶ ┌──────────┐ ────────▶ ┌─────────┐
              │ wanted │                   │ ready │                   │ retiring │           │ retired │ ─ want ─▶
              └────────┘ ◀──────────────── └───────┘ ◀──────────────── └──────────┘           └─────────┘
                  │          mark_missing                 revive            ▲
                  └──────────────────────── retire ─────────────────────────┘

The CI has the set itself, and another owner may take a name there at any time. So `want` draws a mark, once, and is
written before the set is created with that mark as a label. A set with the mark was created by Bullpen, even if the
process that created it died before it could write down the set's id. Every other set of the name is left alone, unless
an operator says that it is Bullpen's. `want`, `mark_missing`, and `correct` to another runner group, where other sets
may have the name, ask for the set that has the name at that moment: a taken name is refused before anything is written.

The record has the rules by which every process judges the set's runners and jobs. Only the process that holds the set's
session (set_session.py) should retire it: another one may have older settings.

A retired record stays: there are as many as names were ever used. The record's id is `set:<name>`, which is also the
run id of the instances that serve the set, and not the label of any workflow run.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from enum import StrEnum

from bullpen.errors import Conflict
from bullpen.lazy_dataclass import dataclass
from bullpen.model import limits
from bullpen.model.ticket import UsageClass
from bullpen.model.transition import Check, Debt, Event, Guard, steps_in, transition

ID_PREFIX = limits.SET_PREFIX
"""Before the set's name. The stories of all records are found by id alone, and a name may look like any of theirs."""


class State(StrEnum):
    ABSENT = "absent"  # never stored
    WANTED = "wanted"  # may not exist at the CI yet, or any more
    READY = "ready"
    RETIRING = "retiring"  # gets no new job; busy runners finish
    RETIRED = "retired"  # the CI has it no more


ABSENT, WANTED, READY, RETIRING, RETIRED = State


class SetDebt(StrEnum):
    RETIRE = "retire"  # withdraw the idle runners, wait for the busy ones, delete the set at the CI, then `gone`


class SetEvents(StrEnum):
    """Which events' jobs a set serves."""

    ANY = "any"
    TRUSTED = "trusted"  # those that `model.trust` calls the repository's own


@dataclass(frozen=True, slots=True)
class SetRepository:
    name: str  # owner/name
    id: int = 0  # the CI's; 0: not known yet


@dataclass(frozen=True, slots=True)
class SetRules:
    """What all processes must agree on. No `repositories`: every one that can reach the set."""

    resource_class: str = ""
    usage_class: UsageClass = UsageClass.ON_DEMAND
    trust_domain: str = ""
    events: SetEvents = SetEvents.TRUSTED
    repositories: tuple[SetRepository, ...] = ()
    group: str = ""  # runner group; empty: the default one
    min: int = 0  # runners that are registered and idle
    max: int = 0  # runners altogether
    max_runtime: float = 0.0  # seconds that a job may last

    def knowing(self, known: tuple[SetRepository, ...]) -> "SetRules":
        """With the ids of the repositories that are known by name. A repository that is created again under the same
        name has another id: what was known first counts, unless these rules name an id themselves."""
        ids = {one.name.casefold(): one.id for one in known}
        named = [one if one.id else replace(one, id=ids.get(one.name.casefold(), 0)) for one in self.repositories]
        return replace(self, repositories=tuple(named), trust_domain=_completed(self.trust_domain, named))


def _completed(domain: str, known: Sequence[SetRepository]) -> str:
    """The domain that runs of a repository have is `owner/name/id`, perhaps with `#` and more behind it."""
    name, mark, rest = domain.partition("#")
    id = next((one.id for one in known if one.name.casefold() == name.casefold()), 0)
    return f"{name}/{id}{mark}{rest}" if id else domain


@dataclass(frozen=True, slots=True)
class ScaleSet:
    """One set. `ci_id` and `group_id` are the CI's ids, 0 while they are not known: a set whose group is not known was
    not moved there yet. `mark` is a label of the set at the CI, which no other owner knows."""

    id: str
    state: State
    version: int
    rules: SetRules
    ci_id: int = 0
    group_id: int = 0
    owes: Debt | None = None
    mark: str = ""

    @property
    def name(self) -> str:
        return self.id.removeprefix(ID_PREFIX)

    @property
    def run_id(self) -> str:
        """The run id of the instances that serve it."""
        return self.id

    @property
    def may_have_runners(self) -> bool:
        """True while instances may run for it. A set that was deleted by hand is wanted, and its busy runners go on."""
        return self.state in (WANTED, READY, RETIRING)


def absent(name: str) -> ScaleSet:
    return ScaleSet(id=set_run_id(name), state=ABSENT, version=0, rules=SetRules())


def set_run_id(name: str) -> str:
    return f"{ID_PREFIX}{name}"


def set_of_run_id(run_id: str) -> str | None:
    """The name of the set; None if it is the id of a run."""
    return run_id.removeprefix(ID_PREFIX) or None if run_id.startswith(ID_PREFIX) else None


def fits_set(labels: Collection[str], name: str) -> bool:
    """Whether a set can run a job that asks for these labels: each must be a label of the set, and the name is the only
    one that workflows know."""
    return {label.casefold() for label in labels} == {name.casefold()}


def must_be_ready(name: str) -> Check:
    """The condition of a write that gives a set another runner."""
    return Check(ScaleSet, set_run_id(name), (Guard("state", "is", READY),))


Step = tuple[ScaleSet, tuple[Guard, ...]]


class NameEvent(Event):
    """After it, Bullpen creates a set of this name at the CI. `existing` is what had the name just before."""

    existing: int = 0  # the CI's id of a set that has this name already; 0: there was none
    adopt: bool = False  # an operator says that the existing one is to be Bullpen's


class SetWanted(NameEvent):
    rules: SetRules
    mark: str


@transition(ABSENT, RETIRED, to=WANTED)
def want(scale_set: ScaleSet, event: SetWanted) -> Step:
    """The settings ask for it. Written before it is created at the CI."""
    _check_owner(scale_set, event)
    return replace(scale_set, rules=event.rules, ci_id=0, group_id=0, mark=scale_set.mark or event.mark), ()


class SetFound(Event):
    ci_id: int
    group_id: int = 0


@transition(WANTED, to=READY)
def found(scale_set: ScaleSet, event: SetFound) -> Step:
    """The CI has it: it was created, or an earlier process had created it."""
    if event.ci_id < 1:
        raise Conflict(f"{scale_set.id}: {event.ci_id} is not the id of a set", found=scale_set)
    return replace(scale_set, ci_id=event.ci_id, group_id=event.group_id), ()


class SetCorrected(NameEvent):
    """`existing` is what has the name in the runner group of the new rules, if that is another one than before."""

    rules: SetRules
    group_id: int = 0  # 0: as before, or not known yet if the rules name another group


@transition(WANTED, READY, to=None)
def correct(scale_set: ScaleSet, event: SetCorrected) -> Step:
    """The settings have changed, or the id of a repository became known. Ids that are known stay."""
    if moves := event.rules.group != scale_set.rules.group:
        _check_owner(scale_set, event)
    rules = event.rules.knowing(scale_set.rules.repositories)
    return replace(scale_set, rules=rules, group_id=event.group_id or (0 if moves else scale_set.group_id)), ()


class SetMissing(NameEvent):
    ci_id: int


@transition(READY, to=WANTED)
def mark_missing(scale_set: ScaleSet, event: SetMissing) -> Step:
    """The CI does not have it any more: it is created again. Busy runners go on."""
    _check_owner(scale_set, event)
    return replace(scale_set, ci_id=0, group_id=0), (Guard("ci_id", "is", event.ci_id),)


class SetRetired(Event):
    due: datetime


@transition(WANTED, READY, to=RETIRING)
def retire(scale_set: ScaleSet, event: SetRetired) -> Step:
    """The settings do not have it any more. Its runners are given back as they become free, and it is deleted."""
    return replace(scale_set, owes=Debt(SetDebt.RETIRE, event.due)), ()


class SetRevived(Event):
    rules: SetRules


@transition(RETIRING, to=READY)
def revive(scale_set: ScaleSet, event: SetRevived) -> Step:
    """The settings have it again before it was deleted."""
    if not scale_set.ci_id:
        raise Conflict(f"{scale_set.id} was never found at the CI: it retires first", found=scale_set)
    rules = event.rules.knowing(scale_set.rules.repositories)
    group_id = scale_set.group_id if rules.group == scale_set.rules.group else 0
    return replace(scale_set, rules=rules, group_id=group_id, owes=None), ()


class SetGone(Event):
    pass


@transition(RETIRING, to=RETIRED)
def gone(scale_set: ScaleSet, event: SetGone) -> Step:
    """It has no runner any more, and the CI has deleted it."""
    return replace(scale_set, ci_id=0, group_id=0, owes=None), ()


STEPS = steps_in(globals())


def _check_owner(scale_set: ScaleSet, event: NameEvent) -> None:
    """Raise Conflict if another owner's set has the name."""
    if event.existing and event.existing != scale_set.ci_id and not event.adopt:
        what = f"the CI has a set of this name, {event.existing}, that Bullpen did not create"
        raise Conflict(f"{scale_set.id}: {what}", found=scale_set)
