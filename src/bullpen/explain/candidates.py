"""Candidates: the instances of a class, and the rule that refuses each to a run.

The rule of an offer is the one that pickup goes by, `model.ticket.refused_by`; what an offer cannot say, because the
instance is not on offer, is its state. Thousands of instances have few differences that a rule looks at: those that are
alike are judged once.
"""

import heapq
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice

from bullpen.config import ResourceClass
from bullpen.lazy_dataclass import dataclass
from bullpen.model.instance import CLAIMED, CREATED, IDLE, Instance
from bullpen.model.scale_set import set_of_run_id
from bullpen.model.ticket import RefusalRule, Requirements, detail_of, refused_by
from bullpen.model.wait import Candidate, WaitCause, by_count

LONG_AGO = datetime.min.replace(tzinfo=UTC)
"""How long an instance may stay in its state does not decide whether it would fit once it is on offer."""
MOST = 200  # candidates that are listed

ORDER = (RefusalRule.FITS, RefusalRule.CLEANING, RefusalRule.BOOTING)
"""Listed first: what serves the run soonest."""

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
    """Instances that one rule refuses, by id. `on_offer` if a run could claim them now but for that rule."""

    instances: tuple[Instance, ...]
    rule: RefusalRule
    on_offer: bool
    needs: Requirements

    def __len__(self) -> int:
        return len(self.instances)

    @property
    def place(self) -> tuple[int, bool]:
        """What serves the run soonest comes first."""
        if self.rule in ORDER:
            return ORDER.index(self.rule), not self.on_offer
        return len(ORDER) + (self.rule is RefusalRule.TAKEN), not self.on_offer

    def candidates(self) -> Iterator[Candidate]:
        return (Candidate(one.id, one.state, self.rule, self._detail(one)) for one in self.instances)

    def without(self, some: Iterable[str]) -> "Judged":
        left = frozenset(some)
        return replace(self, instances=tuple(one for one in self.instances if one.id not in left))

    def _detail(self, one: Instance) -> str:
        if self.rule is RefusalRule.TAKEN:
            verb = "is prepared for" if one.state in (CLAIMED, CREATED) else "serves"
            return f"{verb} {_owner(one)}"
        return detail_of(self.rule, one.ticket(), self.needs)


@dataclass(frozen=True, slots=True)
class Candidates:
    judged: tuple[Judged, ...]

    @property
    def refusals(self) -> tuple[tuple[RefusalRule, int], ...]:
        found = Counter[RefusalRule]()
        for one in self.judged:
            found[one.rule] += len(one)
        return by_count(found)

    @property
    def listed(self) -> tuple[Candidate, ...]:
        """What serves the run soonest first, then by id."""
        found: list[Candidate] = []
        for place in sorted({one.place for one in self.judged}):
            there = [one.candidates() for one in self.judged if one.place == place]
            merged = heapq.merge(*there, key=lambda one: one.instance_id)
            found += islice(merged, MOST - len(found))
        return tuple(found)

    def without(self, run_id: str) -> "Candidates":
        """An instance that the run has itself is no candidate."""
        own = [one.id for judged in self.judged for one in judged.instances if run_id and one.run_id == run_id]
        return self.besides(own)

    def besides(self, ids: Collection[str]) -> "Candidates":
        """The others."""
        if not ids:
            return self
        left = (one.without(ids) for one in self.judged)
        return Candidates(tuple(one for one in left if one.instances))

    def having(self, rule: RefusalRule) -> list[Instance]:
        return [one for judged in self.judged if judged.rule is rule for one in judged.instances]

    def cause_of(self, missing: int) -> tuple[WaitCause, int] | None:
        """Why so many runners cannot come from the pool, where it has them: being cleaned, or on offer and refused. The
        cause, and how many instances it concerns. None where the pool has too few."""
        cleaning = len(self.having(RefusalRule.CLEANING))
        usable = len(self.having(RefusalRule.FITS)) + cleaning
        if usable >= missing and cleaning:
            return WaitCause.CLEANING, cleaning
        refused: dict[WaitCause, int] = {}
        for one in self.judged:
            if one.on_offer and one.rule in CAUSES:
                refused[CAUSES[one.rule]] = refused.get(CAUSES[one.rule], 0) + len(one)
        if not refused or usable + sum(refused.values()) < missing:
            return None
        cause = max(refused, key=lambda one: (refused[one], one.value))
        return cause, refused[cause]


Alike = Mapping[str, Sequence[tuple[Instance, ...]]]


def alike(some: Iterable[Instance], now: datetime) -> Alike:
    """Instances by class, those together that every rule judges alike, by id."""
    found: dict[str, dict[Hashable, list[Instance]]] = {}
    for one in sorted(some, key=lambda one: one.id):
        found.setdefault(one.resource_class, {}).setdefault(_traits(one, now), []).append(one)
    return {name: [tuple(group) for group in groups.values()] for name, groups in found.items()}


def _traits(one: Instance, now: datetime) -> Hashable:
    """What the rules look at."""
    if not (one.is_claimable or one.is_pending):
        return None
    is_over = one.is_claimable and one.threshold <= now
    size = one.instance_type, one.cpu, one.mem
    return one.state, one.is_claimable, is_over, one.usage_class, size, one.trust_domain, one.image_generation


def judged_for(
    groups: Iterable[tuple[Instance, ...]], needs: Requirements, kind: ResourceClass | None, now: datetime
) -> Candidates:
    """The instances of the class of `needs`, as `alike` has them."""
    return Candidates(tuple(_judged(group, needs, kind, now) for group in groups))


def _judged(group: tuple[Instance, ...], needs: Requirements, kind: ResourceClass | None, now: datetime) -> Judged:
    one = group[0]
    if not (one.is_claimable or one.is_pending):
        return Judged(group, RefusalRule.TAKEN, False, needs)
    cpu, mem = (kind.cpu, kind.mem) if kind is not None else (0, 0)
    rule = refused_by(one.ticket(), needs, cpu, mem, now if one.is_claimable else LONG_AGO)
    if rule is RefusalRule.FITS and one.is_pending:
        rule = RefusalRule.CLEANING if one.state is IDLE else RefusalRule.BOOTING
    return Judged(group, rule, one.is_claimable and rule is not RefusalRule.EXPIRED, needs)


def _owner(one: Instance) -> str:
    name = set_of_run_id(one.run_id)
    return f"scale set {name}" if name is not None else f"run {one.run_id}"


def holders(some: Sequence[Instance], most: int = 3) -> str:
    """The runs and sets that hold the most of these instances, for people: `run 4711 holds 40`."""
    counts: dict[str, int] = {}
    for one in some:
        if one.run_id:
            counts[_owner(one)] = counts.get(_owner(one), 0) + 1
    top = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:most]
    return ", ".join(f"{name} holds {count}" for name, count in top)
