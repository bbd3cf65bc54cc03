"""Records for the stage that came about by the real steps, without a machine behind them."""

from datetime import datetime, timedelta

from bullpen.model import instance as instances
from bullpen.model.instance import Instance
from bullpen.model.signal import Kind, Signal
from bullpen.model.ticket import Requirements, UsageClass
from bullpen.model.transition import Change

BY = "a benchmark"
A_DAY = timedelta(days=1)


def on_offer(id: str, now: datetime) -> list[Change[Instance]]:
    """The steps to an instance that booted, was never used and is on offer."""
    registered = _register(id, "", now)
    booted = Signal(id, Kind.OK, "", registered.after.round, seq=1)
    adopted = instances.Adopted(at=now, by=BY, signal=booted, until=now + A_DAY)
    return [registered, instances.adopt(registered.after, adopted)]


def buried(id: str, run_id: str, now: datetime) -> list[Change[Instance]]:
    """The steps to an instance of a run that was terminated, confirmed gone, and is kept for a day."""
    registered = _register(id, run_id, now)
    expired = instances.expire(registered.after, instances.Expired(at=now, by=BY, round=registered.after.round))
    return [registered, expired, instances.done(expired.after, instances.Ended(at=now, by=BY, purge_at=now + A_DAY))]


def claim(candidate: Instance, run_id: str, needs: Requirements, now: datetime) -> Change[Instance]:
    claimed = instances.Claimed(
        at=now,
        by=BY,
        run_id=run_id,
        round=f"{run_id} {candidate.id}",  # each candidate is claimed once per run, so it is unique
        provision_id=f"p-{run_id}",
        needs=needs,
        until=now + A_DAY,
    )
    return instances.claim(candidate, claimed)


def _register(id: str, run_id: str, now: datetime) -> Change[Instance]:
    registered = instances.Registered(
        at=now,
        by=BY,
        run_id=run_id,
        round=f"round of {id}",
        provision_id="p-0",
        until=now + A_DAY,
        resource_class="small",
        instance_type="local.small",
        usage_class=UsageClass.ON_DEMAND,
        cpu=1,
        mem=1024,
        trust_domain="",
        image_generation=1,
    )
    return instances.register(instances.absent(id, now), registered)
