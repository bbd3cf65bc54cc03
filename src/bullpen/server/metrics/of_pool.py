"""The series of the pool: the same at every server."""

from collections import Counter
from datetime import datetime, timedelta
from decimal import Decimal

from bullpen.config import Settings
from bullpen.history.prices import price_of
from bullpen.liveness.protection import DOMAIN, EVERYBODY
from bullpen.model.control import HELD
from bullpen.model.instance import TERMINATED, Instance, State
from bullpen.model.scale_set import READY
from bullpen.model.set_session import HELD as SESSION_HELD
from bullpen.model.worker import ACTIVE, INACTIVE
from bullpen.server.metrics.samples import Bounded, Samples
from bullpen.server.metrics.store_read import StoreRead

BRAKED_WITHIN = timedelta(seconds=60)
UNRENEWED = 2.0  # leases after which the holder of a set counts as gone
NOT_LIVE = ("absent",)


def put_pool(samples: Samples, settings: Settings, read: StoreRead) -> None:
    _put_instances(samples, settings, read)
    _put_waits(samples, settings, read)
    _put_debts(samples, read)
    for state in (ACTIVE, INACTIVE):
        samples.put("workers", sum(n for (_, one), n in read.workers.items() if one == state), state.value)
    hold = read.controls.get(EVERYBODY)
    samples.put("hold_active", hold is not None and hold.state is HELD)
    braked = [
        one
        for name, one in read.controls.items()
        if name.startswith(DOMAIN) and one.budget_at is not None and read.at - one.budget_at <= BRAKED_WITHIN
    ]
    samples.put("domains_braked", len(braked))
    samples.put("servers", len(read.servers))
    if settings.on_github:
        _put_sets(samples, settings, read)
    else:
        _put_jobs(samples, read)


def _put_instances(samples: Samples, settings: Settings, read: StoreRead) -> None:
    """Every class of the settings has all its series, also those of 0: an alert must not depend on a first instance."""
    bounded = Bounded(settings.classes)
    states = [state for state in State if state.value not in NOT_LIVE]
    counts = Counter({(name, state): 0 for name in settings.classes for state in states})
    claimable = Counter(dict.fromkeys(settings.classes, 0))
    prices, unpriced = dict.fromkeys(settings.classes, Decimal()), Counter(dict.fromkeys(settings.classes, 0))
    for group, count in read.census.items():
        name = bounded(group.resource_class)
        counts[name, group.state] += count
        claimable[name] += count if group.on_offer and group.state is not TERMINATED else 0
        price = price_of(settings, group.instance_type, group.usage_class)
        prices[name] = prices.get(name, Decimal()) + (price or 0) * count
        unpriced[name] += count if price is None else 0
    samples.put_each("instances", (((name, state.value), count) for (name, state), count in counts.items()))
    samples.put_each("instances_claimable", (((name,), count) for name, count in claimable.items()))
    samples.put_each("price_per_hour_dollars", (((name,), float(price)) for name, price in prices.items()))
    samples.put_each("instances_unpriced", (((name,), count) for name, count in unpriced.items()))
    for name, rules in settings.classes.items():
        samples.put("instances_idle_target", rules.target_at(read.at), name)
        samples.put("instances_max", rules.max_instances or settings.limits.max_instances, name)
        samples.put("paused", any(one.covers(name) for one in read.pauses), name)
        samples.put("tickets", read.tickets.get(name, 0), name)
    samples.put("pool_instances_max", settings.limits.max_instances)


def _put_waits(samples: Samples, settings: Settings, read: StoreRead) -> None:
    patience = settings.timings.provision
    waiting = Counter(one.needs.resource_class for one in read.waiting if one.place is not None)
    since: dict[str, list[datetime]] = {name: [] for name in settings.classes}
    for name, some in read.open.items():
        since[name] += [one.asked_at(patience) for one in some if one.run_id]
    for session in read.sessions.values():
        found = read.scale_sets.get(session.set_name)
        if found is not None and found.rules.resource_class in since:
            since[found.rules.resource_class] += [job.since for job in session.waiting if job.taken_back_at is None]
    for name, times in since.items():
        samples.put("provisions_open", len(read.open.get(name, ())), name)
        samples.put("provisions_waiting", waiting[name], name)
        oldest = (read.at - min(times)).total_seconds() if times else 0.0
        samples.put("oldest_wait_seconds", max(oldest, 0.0), name)


def _put_jobs(samples: Samples, read: StoreRead) -> None:
    """Jobs of Bullpen's own CI."""
    times = [job.queued_at for jobs in read.queued.values() for job in jobs if job.queued_at is not None]
    samples.put("runs_with_queued_jobs", len(read.queued))
    samples.put("job_oldest_wait_seconds", max((read.at - min(times)).total_seconds(), 0.0) if times else 0.0)


def _put_debts(samples: Samples, read: StoreRead) -> None:
    samples.put("debts_due", len(read.owing), "instance")
    samples.put("debts_due", len(read.owing_workers), "worker")
    samples.put("debt_overdue_seconds", max((_overdue(one, read.at) for one in read.owing), default=0.0))


def _overdue(one: Instance, now: datetime) -> float:
    return max((now - one.owes.due_at).total_seconds(), 0.0) if one.owes is not None else 0.0


def _put_sets(samples: Samples, settings: Settings, read: StoreRead) -> None:
    lasts = timedelta(seconds=UNRENEWED * settings.timings.lease)
    served = [name for name, one in read.scale_sets.items() if one.state is READY]
    held = [
        name
        for name in served
        if (session := read.sessions.get(name)) is not None
        and session.state is SESSION_HELD
        and session.failing_since is None
        and session.beat_at is not None
        and read.at - session.beat_at <= lasts
    ]
    samples.put("scale_sets", len(held), "held")
    samples.put("scale_sets", len(served) - len(held), "unheld")
