"""Records, tickets and reports for tests. Every record that is not absent came about by the real steps."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from bullpen.model import instance as instances
from bullpen.model import pause as pauses
from bullpen.model import provision as provisions
from bullpen.model import repository as repositories
from bullpen.model import rotation as rotations
from bullpen.model.fleet import FleetPlan
from bullpen.model.instance import Instance
from bullpen.model.pause import Pause
from bullpen.model.provision import Provision
from bullpen.model.repository import Repository
from bullpen.model.rotation import Rotation
from bullpen.model.signal import Kind, Signal
from bullpen.model.ticket import Requirements, Ticket, UsageClass
from bullpen.model.transition import Change
from bullpen.ports import Message

NOW = datetime(2030, 1, 1, tzinfo=UTC)
BY = "a test"

_numbers = count(1)


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def a_token() -> str:
    """Different each time: a round, a client token."""
    return f"{next(_numbers):016x}"


def needs(**changed: Any) -> Requirements:
    fields: dict[str, Any] = {"resource_class": "small", "usage_class": UsageClass.ON_DEMAND, **changed}
    return Requirements(**fields)


def a_ticket(**changed: Any) -> Ticket:
    fields: dict[str, Any] = {
        "instance_id": "i-1",
        "usage_class": UsageClass.ON_DEMAND,
        "instance_type": "sim.small",
        "cpu": 1,
        "mem": 1024,
        "resource_class": "small",
        "threshold": later(420),
        "version": 2,
        "trust_domain": "",
        "image_generation": 1,
        **changed,
    }
    return Ticket(**fields)


def messages(bodies: Iterable[str], expires: datetime | None = None) -> list[Message]:
    """Messages of a pool queue with these bodies, all with the same expiry or none."""
    return [Message(body, expires) for body in bodies]


def a_plan(**changed: Any) -> FleetPlan:
    fields: dict[str, Any] = {
        "client_token": a_token(),
        "provision_id": "p-1",
        "run_id": "run-1",
        "count": 1,
        "resource_class": "small",
        "usage_class": UsageClass.ON_DEMAND,
        "allowed_types": ("*",),
        "cpu": 1,
        "mem": 1024,
        **changed,
    }
    return FleetPlan(**fields)


def a_signal(instance: Instance, kind: Kind, **changed: Any) -> Signal:
    """A report of the instance's present round."""
    return replace(Signal(instance.id, kind, instance.run_id, instance.round, seq=1), **changed)


# ---- the steps, each with an event that fits the record unless told otherwise


def register(instance_id: str = "i-1", **changed: Any) -> Change[Instance]:
    fields: dict[str, Any] = {
        "at": NOW,
        "by": BY,
        "run_id": "",
        "round": a_token(),
        "provision_id": "p-1",
        "until": later(660),
        "resource_class": "small",
        "instance_type": "sim.small",
        "usage_class": UsageClass.ON_DEMAND,
        "cpu": 1,
        "mem": 1024,
        "trust_domain": "",
        "image_generation": 1,
        **changed,
    }
    return instances.register(instances.absent(instance_id, fields["at"]), instances.Registered(**fields))


def adopt(instance: Instance, **changed: Any) -> Change[Instance]:
    fields = {"at": NOW, "by": BY, "signal": a_signal(instance, Kind.OK), "until": later(420), **changed}
    return instances.adopt(instance, instances.Adopted(**fields))


def claim(instance: Instance, run_id: str = "run-1", **changed: Any) -> Change[Instance]:
    fields: dict[str, Any] = {
        "at": NOW,
        "by": BY,
        "run_id": run_id,
        "round": a_token(),
        "provision_id": "p-1",
        "needs": needs(resource_class=instance.resource_class),
        "until": later(660),
        **changed,
    }
    return instances.claim(instance, instances.Claimed(**fields))


def commit(instance: Instance, **changed: Any) -> Change[Instance]:
    decided = replace(committed(members=(instance.id,)), id=instance.provision_id)
    fields = {"at": NOW, "by": BY, "round": instance.round, "provision": decided, "until": later(1800), **changed}
    return instances.commit(instance, instances.Committed(**fields))


def roll_back(instance: Instance, **changed: Any) -> Change[Instance]:
    times = {"at": NOW, "until": later(120), "offer_due": later(5)}
    fields = {**times, "by": BY, "old_round": instance.round, "round": a_token(), **changed}
    return instances.roll_back(instance, instances.RolledBack(**fields))


def release(instance: Instance, **changed: Any) -> Change[Instance]:
    times = {"at": NOW, "until": later(120), "offer_due": later(5)}
    fields = {**times, "by": BY, "run_id": instance.run_id, "round": a_token(), **changed}
    return instances.release(instance, instances.Released(**fields))


def offer(instance: Instance, **changed: Any) -> Change[Instance]:
    fields = {"at": NOW, "by": BY, "signal": a_signal(instance, Kind.CLEAN_OK), "until": later(420), **changed}
    return instances.offer(instance, instances.Offered(**fields))


def keep(instance: Instance, **changed: Any) -> Change[Instance]:
    return instances.keep(instance, instances.Kept(**{"at": NOW, "by": BY, "until": later(840), **changed}))


def spare(instance: Instance, **changed: Any) -> Change[Instance]:
    return instances.spare(instance, instances.Spared(**{"at": NOW, "by": BY, "until": later(1800), **changed}))


def drain(instance: Instance, **changed: Any) -> Change[Instance]:
    fields: dict[str, Any] = {"at": NOW, "by": BY, **changed}
    return instances.drain(instance, instances.Drained(**fields))


def expire(instance: Instance, **changed: Any) -> Change[Instance]:
    fields = {"at": NOW, "by": BY, "round": instance.round, **changed}
    return instances.expire(instance, instances.Expired(**fields))


def done(instance: Instance, **changed: Any) -> Change[Instance]:
    return instances.done(instance, instances.Ended(**{"at": NOW, "by": BY, "purge_at": later(3600), **changed}))


# ---- walks: all changes from nothing up to a record in the state, in order, ready to be applied to a store

Walk = list[Change[Instance]]


def registered(instance_id: str = "i-1", **changed: Any) -> Walk:
    return [register(instance_id, **changed)]


def on_offer(instance_id: str = "i-1", **changed: Any) -> Walk:
    """Never used by a run, clean. `threshold` is until when; the rest as for `register`."""
    until = changed.pop("threshold", later(420))
    walk = registered(instance_id, **changed)
    return [*walk, adopt(walk[-1].after, until=until)]


def claimed(instance_id: str = "i-1", run_id: str = "run-1", **changed: Any) -> Walk:
    walk = on_offer(instance_id, **changed)
    return [*walk, claim(walk[-1].after, run_id)]


def running(instance_id: str = "i-1", run_id: str = "run-1", **changed: Any) -> Walk:
    walk = claimed(instance_id, run_id, **changed)
    return [*walk, commit(walk[-1].after)]


def cleaning(instance_id: str = "i-1", **changed: Any) -> Walk:
    """Released, not attested yet."""
    walk = running(instance_id, **changed)
    return [*walk, release(walk[-1].after)]


def used_and_on_offer(instance_id: str = "i-1", **changed: Any) -> Walk:
    until = changed.pop("threshold", later(420))
    walk = cleaning(instance_id, **changed)
    return [*walk, offer(walk[-1].after, until=until)]


def terminated(instance_id: str = "i-1", **changed: Any) -> Walk:
    """The end of the machine is owed."""
    walk = on_offer(instance_id, **changed)
    return [*walk, expire(walk[-1].after)]


def buried(instance_id: str = "i-1", purge_at: datetime | None = None, **changed: Any) -> Walk:
    """Confirmed gone, and kept until `purge_at`."""
    walk = terminated(instance_id, **changed)
    return [*walk, done(walk[-1].after, purge_at=purge_at or later(3600))]


def an_instance(instance_id: str = "i-1", **changed: Any) -> Instance:
    """An instance on offer, with any field changed at will: also to what no step leads to."""
    return replace(on_offer(instance_id)[-1].after, **changed)


# ---- provisions


def open_provision(provision_id: str = "p-1", **changed: Any) -> Change[Provision]:
    fields: dict[str, Any] = {
        "run_id": "run-1",
        "want": 1,
        "needs": needs(),
        "deadline": later(600),
        "max_runtime": 1800.0,
        **changed,
    }
    return provisions.open_(provisions.absent(provision_id, **fields), provisions.Opened(at=NOW, by=BY))


def a_provision(provision_id: str = "p-1", **changed: Any) -> Provision:
    """An open provision, with any field changed at will."""
    return replace(open_provision(provision_id).after, **changed)


def wait(
    provision: Provision, cap: str = "limits.max-instances", since: float = 0.0, until: float = 30.0
) -> Change[Provision]:
    place = provisions.Place(cap, later(since), later(until))
    return provisions.wait(provision, provisions.Waited(at=NOW, by=BY, place=place, deadline=later(1200)))


def admit(provision: Provision, until: float = 60.0) -> Change[Provision]:
    return provisions.admit(provision, provisions.Admitted(at=NOW, by=BY, deadline=later(600), until=later(until)))


def decide(provision: Provision, *members: str, due: datetime | None = None) -> Change[Provision]:
    return provisions.commit(provision, provisions.Decided(at=NOW, by=BY, members=members, settle_due=due or later(5)))


def abort(provision: Provision, why: str = "", due: datetime | None = None) -> Change[Provision]:
    return provisions.abort(provision, provisions.Aborted(at=NOW, by=BY, why=why, settle_due=due or later(5)))


def conclude(provision: Provision, due: datetime | None = None) -> Change[Provision]:
    """The run of a committed provision is over."""
    return provisions.release(provision, provisions.Concluded(at=NOW, by=BY, settle_due=due or later(5)))


def revoke(provision: Provision, why: str = "one was lost", due: datetime | None = None) -> Change[Provision]:
    return provisions.revoke(provision, provisions.Revoked(at=NOW, by=BY, why=why, settle_due=due or later(5)))


def postpone(provision: Provision, due: datetime | None = None) -> Change[Provision]:
    return provisions.postpone(provision, provisions.Postponed(at=NOW, by=BY, due=due or later(20)))


def settle(provision: Provision, purge_at: datetime | None = None) -> Change[Provision]:
    step = provisions.settle_committed if provision.state is provisions.COMMITTED else provisions.settle_aborted
    return step(provision, provisions.Settled(at=NOW, by=BY, purge_at=purge_at or later(3600)))


def committed(provision_id: str = "p-1", members: tuple[str, ...] = ("i-1",)) -> Provision:
    return decide(a_provision(provision_id), *members).after


# ---- repositories


def pause(one: Pause | None = None, resource_class: str = "", note: str = "image is broken") -> Change[Pause]:
    event = pauses.PoolPaused(at=NOW, by=BY, why=note, note=note, operator="ada")
    return pauses.pause(one or pauses.absent(resource_class), event)


def resume(one: Pause) -> Change[Pause]:
    return pauses.resume(one, pauses.PoolResumed(at=NOW, by=BY))


def rotate(*members: str, resource_class: str = "small", rotation: Rotation | None = None) -> Change[Rotation]:
    event = rotations.RotationAsked(at=NOW, by=BY, members=members, operator="ada")
    return rotations.rotate(rotation or rotations.absent(resource_class), event)


def finish_rotation(rotation: Rotation) -> Change[Rotation]:
    return rotations.finish(rotation, rotations.RotationOver(at=NOW, by=BY))


def see_repository(name: str = "acme/web", ci_id: int = 42) -> Change[Repository]:
    return repositories.see(repositories.absent(name), repositories.RepositorySeen(at=NOW, by=BY, ci_id=ci_id))


def a_repository(name: str = "acme/web", ci_id: int = 42) -> Repository:
    """One that was seen."""
    return see_repository(name, ci_id).after


def meet_repository(repository: Repository, ci_id: int = 43) -> Change[Repository]:
    return repositories.meet(repository, repositories.RepositorySeen(at=NOW, by=BY, ci_id=ci_id))
