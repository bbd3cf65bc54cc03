"""Candidates: the instances of a class, and the rule that refuses each to a run.

The rule of an offer is the one that pickup goes by, `model.ticket.refused_by`; what an offer cannot say, because the
instance is not on offer, is its state.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from bullpen.config import ResourceClass
from bullpen.lazy_dataclass import dataclass
from bullpen.model.instance import CLAIMED, CREATED, IDLE, TERMINATED, Instance
from bullpen.model.scale_set import set_of_run_id
from bullpen.model.ticket import RefusalRule, Requirements, detail_of, refused_by
from bullpen.model.wait import Candidate, WaitCause, counted

LONG_AGO = datetime.min.replace(tzinfo=UTC)
"""How long an instance may stay in its state does not decide whether it would fit once it is on offer."""
MOST = 200  # candidates that are listed

ORDER = (RefusalRule.FITS, RefusalRule.CLEANING, RefusalRule.BOOTING)
"""Listed first: what serves the run soonest."""
LISTED_LAST = (RefusalRule.TAKEN, RefusalRule.ENDING)

CAUSES = {
    RefusalRule.TRUST_DOMAIN: WaitCause.TRUST_DOMAIN,
    RefusalRule.IMAGE_RETIRED: WaitCause.IMAGE_RETIRED,
    RefusalRule.USAGE_CLASS: WaitCause.REQUIREMENTS,
    RefusalRule.INSTANCE_TYPE: WaitCause.REQUIREMENTS,
    RefusalRule.CPU: WaitCause.REQUIREMENTS,
    RefusalRule.MEM: WaitCause.REQUIREMENTS,
    RefusalRule.CLASS_SIZE: WaitCause.REQUIREMENTS,
    RefusalRule.IMAGE_NEWER: WaitCause.IMAGE_RETIRED,
}
"""The cause of a wait where such instances would suffice if this rule did not refuse them."""


@dataclass(frozen=True, slots=True)
class Judged:
    """An instance with the rule that refuses it. `on_offer` if a run could claim it now but for that rule."""

    instance: Instance
    rule: RefusalRule
    detail: str
    on_offer: bool

    def candidate(self) -> Candidate:
        return Candidate(self.instance.id, self.instance.state, self.rule, self.detail)


@dataclass(frozen=True, slots=True)
class Candidates:
    judged: tuple[Judged, ...]

    @property
    def refusals(self) -> tuple[tuple[RefusalRule, int], ...]:
        return counted(one.rule for one in self.judged)

    @property
    def listed(self) -> tuple[Candidate, ...]:
        return tuple(one.candidate() for one in self.judged[:MOST])

    def without(self, run_id: str) -> "Candidates":
        """An instance that the run has itself is no candidate."""
        if not run_id or all(one.instance.run_id != run_id for one in self.judged):
            return self
        return Candidates(tuple(one for one in self.judged if one.instance.run_id != run_id))

    def having(self, rule: RefusalRule) -> list[Instance]:
        return [one.instance for one in self.judged if one.rule is rule]

    def cause_of(self, missing: int) -> tuple[WaitCause, int] | None:
        """Why so many runners cannot come from the pool, where it has them: being cleaned, or on offer and refused. The
        cause, and how many instances it concerns. None where the pool has too few."""
        cleaning = len(self.having(RefusalRule.FITS)) + len(self.having(RefusalRule.CLEANING))
        if cleaning >= missing and self.having(RefusalRule.CLEANING):
            return WaitCause.CLEANING, len(self.having(RefusalRule.CLEANING))
        usable = cleaning
        refused: dict[WaitCause, int] = {}
        for one in self.judged:
            if one.on_offer and one.rule in CAUSES:
                refused[CAUSES[one.rule]] = refused.get(CAUSES[one.rule], 0) + 1
        if not refused or usable + sum(refused.values()) < missing:
            return None
        cause = max(refused, key=lambda one: (refused[one], one.value))
        return cause, refused[cause]


def judged_for(some: Iterable[Instance], needs: Requirements, kind: ResourceClass | None, now: datetime) -> Candidates:
    """The instances of the class of `needs`, those first that serve the run soonest."""
    found = [
        judged
        for one in some
        if one.resource_class == needs.resource_class
        for judged in [judged_one(one, needs, kind, now)]
    ]
    return Candidates(tuple(sorted(found, key=_place)))


def judged_one(one: Instance, needs: Requirements, kind: ResourceClass | None, now: datetime) -> Judged:
    if one.state is TERMINATED:
        return Judged(one, RefusalRule.ENDING, "", False)
    if one.is_claimable:
        rule, detail = _offer_rule(one, needs, kind, now)
        return Judged(one, rule, detail, rule is not RefusalRule.EXPIRED)
    if one.is_pending:
        rule, detail = _offer_rule(one, needs, kind, LONG_AGO)
        if rule is RefusalRule.FITS:
            rule = RefusalRule.CLEANING if one.state is IDLE else RefusalRule.BOOTING
        return Judged(one, rule, detail, False)
    verb = "is prepared for" if one.state in (CLAIMED, CREATED) else "serves"
    return Judged(one, RefusalRule.TAKEN, f"{verb} {_owner(one)}", False)


def _offer_rule(
    one: Instance, needs: Requirements, kind: ResourceClass | None, now: datetime
) -> tuple[RefusalRule, str]:
    ticket = one.ticket()
    cpu, mem = (kind.cpu, kind.mem) if kind is not None else (0, 0)
    rule = refused_by(ticket, needs, cpu, mem, now)
    return rule, detail_of(rule, ticket, needs)


def _owner(one: Instance) -> str:
    name = set_of_run_id(one.run_id)
    return f"scale set {name}" if name is not None else f"run {one.run_id}"


def _place(one: Judged) -> tuple[int, bool, str]:
    if one.rule in ORDER:
        return ORDER.index(one.rule), not one.on_offer, one.instance.id
    last = 2 if one.rule in LISTED_LAST else 0
    return len(ORDER) + last, not one.on_offer, one.instance.id


def holders(some: Sequence[Instance], most: int = 3) -> str:
    """The runs and sets that hold the most of these instances, for people: `run 4711 holds 40`."""
    counts: dict[str, int] = {}
    for one in some:
        if one.run_id:
            counts[_owner(one)] = counts.get(_owner(one), 0) + 1
    top = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:most]
    return ", ".join(f"{name} holds {count}" for name, count in top)
