"""How many machines a class lacks: those of its idle target, and those that scale sets asked the pool for in vain.

The holder of a set writes how many runners the pool did not have into the session's record. So every process can launch
for it, also while the holder is being replaced. What is on offer or on its way counts for a set only if the set could
use it: an instance of another trust domain does not help.

A set may lack a runner for no job: one waits for a while after each new session, in case the CI did not announce a job.
Only what jobs or the set's `min` need is *urgent*: for that, other idle instances are ended where a cap is reached.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from bullpen.config import Settings
from bullpen.errors import ConfigError
from bullpen.lazy_dataclass import dataclass
from bullpen.model.instance import Instance
from bullpen.model.pause import Pause, paused_by
from bullpen.model.scale_set import READY
from bullpen.model.set_session import SetSession
from bullpen.model.ticket import Requirements, UsageClass
from bullpen.model.times import later
from bullpen.pool.repositories import with_inherited
from bullpen.ports import Ports
from bullpen.refresh.action import BY
from bullpen.scale_sets.claims import needs_of

HEARD_WITHIN = 300.0  # seconds: older numbers of a set decide nothing


@dataclass(frozen=True, slots=True)
class SetLack:
    """What one scale set asked the pool for in vain."""

    name: str
    needs: Requirements
    missing: int
    urgent: int  # of them
    since: datetime | None = None  # how long its oldest assigned job waits; None: no job waits, or not for long

    def fits(self, one: Instance) -> bool:
        """Whether it could use the instance, in this process or in one with newer settings."""
        needs = replace(self.needs, image_generation=max(one.image_generation, self.needs.image_generation))
        return one.resource_class == needs.resource_class and _fits(one, needs)


async def set_lacks(ports: Ports, settings: Settings, pauses: Sequence[Pause]) -> list[SetLack]:
    """Of every set that a process listens to, but for those whose class is paused."""
    if not settings.on_github or not settings.github.scale_sets:
        return []
    sessions, sets = await ports.records.set_sessions(), await ports.records.scale_sets()
    oldest = later(ports.clock.now(), -HEARD_WITHIN)
    found = []
    for name, session in sorted(sessions.items()):
        scale_set = sets.get(name)
        is_fresh = session.heard_at is not None and session.heard_at >= oldest
        if scale_set is None or scale_set.state is not READY or not session.missing or not is_fresh:
            continue
        if paused_by(pauses, scale_set.rules.resource_class) is not None:
            continue
        try:
            needs = needs_of(settings, scale_set)
        except ConfigError:  # its class is not configured any more: the set is corrected, or retires
            continue
        since = min((job.since for job in session.waiting if job.taken_back_at is None), default=None)
        urgent = min(session.missing, _waiting(session) + scale_set.rules.min)
        needs = await with_inherited(ports, settings, needs, BY)
        found.append(SetLack(name, needs, session.missing, urgent, since))
    return found


def lacking(
    settings: Settings, resource_class: str, ready: Iterable[Instance], lacks: Sequence[SetLack], now: datetime
) -> Counter[UsageClass]:
    """How many more machines a class needs beside those that are on offer or on their way there, by usage class."""
    found, _, left = _lacking_for_sets(resource_class, ready, lacks)
    found[UsageClass.ON_DEMAND] += max(0, settings.resource_class(resource_class).target_at(now) - len(left))
    return found


def urgent_for_sets(resource_class: str, ready: Iterable[Instance], lacks: Sequence[SetLack]) -> Counter[UsageClass]:
    """How many of those scale sets need urgently."""
    return _lacking_for_sets(resource_class, ready, lacks)[1]


def _lacking_for_sets(
    resource_class: str, ready: Iterable[Instance], lacks: Sequence[SetLack]
) -> tuple[Counter[UsageClass], Counter[UsageClass], list[Instance]]:
    """All, the urgent ones, and the instances that no set takes."""
    left, found, urgent = list(ready), Counter[UsageClass](), Counter[UsageClass]()
    for lack in lacks:
        if lack.needs.resource_class != resource_class:
            continue
        usable = [one for one in left if _fits(one, lack.needs)]
        # Of its own usage class first: what is only as good may be what another set, or the target, needs.
        usable.sort(key=lambda one: one.usage_class is not lack.needs.usage_class)
        fitting = {one.id for one in usable[: lack.missing]}
        left = [one for one in left if one.id not in fitting]
        found[lack.needs.usage_class] += lack.missing - len(fitting)
        urgent[lack.needs.usage_class] += max(0, lack.urgent - len(fitting))
    return found, urgent, left


def reason(settings: Settings, resource_class: str, lacks: Sequence[SetLack], now: datetime) -> str:
    """Why machines of a class are launched, for people."""
    found = settings.resource_class(resource_class).target_now(now)
    target = found.target
    sets = [f"{one.name} lacks {one.missing}" for one in lacks if one.needs.resource_class == resource_class]
    by_clock = f" ({found.entry})" if found.entry else ""
    return ", ".join([*([f"the idle target is {target}{by_clock}"] if target or not sets else []), *sets])


def _waiting(session: SetSession) -> int:
    """How many jobs wait for a runner, by the CI's count; more if messages named more."""
    counts = session.statistics
    counted = counts.assigned - counts.running - session.phantom if counts is not None else 0
    return max(0, counted, sum(job.taken_back_at is None for job in session.waiting))


def _fits(one: Instance, needs: Requirements) -> bool:
    return (
        one.usage_class in (needs.usage_class, *(needs.fallback or ()))
        and one.trust_domain in needs.acceptable_domains
        and one.image_generation == needs.image_generation
    )
