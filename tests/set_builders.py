"""Scale sets and their sessions for tests. Every record that is not absent came about by the real steps."""

from datetime import datetime
from typing import Any

from builders import BY, NOW, Walk, a_token, claim, later, needs, on_offer
from bullpen.model import scale_set as sets
from bullpen.model import set_member
from bullpen.model import set_session as sessions
from bullpen.model.instance import Instance
from bullpen.model.scale_set import ScaleSet, SetRepository, SetRules
from bullpen.model.set_session import JobCounts, SetSession, StartedJob, WaitingJob
from bullpen.model.ticket import UsageClass
from bullpen.model.transition import Change

NAME = "bullpen-medium"
LEASE = 15.0
MARK = "bullpen-owner-0123456789abcdef"
REPOSITORY = SetRepository("octo/repo", 4711)


def rules(**changed: Any) -> SetRules:
    fields: dict[str, Any] = {
        "resource_class": "small",
        "usage_class": UsageClass.ON_DEMAND,
        "trust_domain": "octo/repo/4711#pull-request",
        "events": sets.SetEvents.ANY,
        "repositories": (REPOSITORY,),
        "group": "builders",
        "min": 1,
        "max": 20,
        "max_runtime": 21600.0,
        **changed,
    }
    return SetRules(**fields)


# ---- sets


def want(scale_set: ScaleSet | None = None, **changed: Any) -> Change[ScaleSet]:
    event = sets.SetWanted(**{"at": NOW, "by": BY, "rules": rules(), "mark": MARK, **changed})
    return sets.want(scale_set or sets.absent(NAME), event)


def found(scale_set: ScaleSet, **changed: Any) -> Change[ScaleSet]:
    return sets.found(scale_set, sets.SetFound(**{"at": NOW, "by": BY, "ci_id": 7, "group_id": 3, **changed}))


def correct(scale_set: ScaleSet, **changed: Any) -> Change[ScaleSet]:
    return sets.correct(scale_set, sets.SetCorrected(**{"at": NOW, "by": BY, "rules": rules(max=8), **changed}))


def mark_missing(scale_set: ScaleSet, **changed: Any) -> Change[ScaleSet]:
    event = sets.SetMissing(**{"at": NOW, "by": BY, "ci_id": scale_set.ci_id, **changed})
    return sets.mark_missing(scale_set, event)


def retire(scale_set: ScaleSet, due: datetime | None = None) -> Change[ScaleSet]:
    return sets.retire(scale_set, sets.SetRetired(at=NOW, by=BY, due=due or later(5)))


def revive(scale_set: ScaleSet, **changed: Any) -> Change[ScaleSet]:
    return sets.revive(scale_set, sets.SetRevived(**{"at": NOW, "by": BY, "rules": rules(), **changed}))


def gone(scale_set: ScaleSet) -> Change[ScaleSet]:
    return sets.gone(scale_set, sets.SetGone(at=NOW, by=BY))


SetWalk = list[Change[ScaleSet]]


def wanted(name: str = NAME, **changed: Any) -> SetWalk:
    return [want(sets.absent(name), **changed)]


def ready(name: str = NAME, **changed: Any) -> SetWalk:
    walk = wanted(name, **changed)
    return [*walk, found(walk[-1].after)]


def retiring(name: str = NAME) -> SetWalk:
    walk = ready(name)
    return [*walk, retire(walk[-1].after)]


def retired(name: str = NAME) -> SetWalk:
    walk = retiring(name)
    return [*walk, gone(walk[-1].after)]


def a_ready_set(name: str = NAME, **changed: Any) -> ScaleSet:
    return ready(name, **changed)[-1].after


# ---- members: instances that serve a set


def claim_for(instance: Instance, scale_set: ScaleSet, **changed: Any) -> Change[Instance]:
    needed = needs(resource_class=instance.resource_class, trust_domain=scale_set.rules.trust_domain)
    return claim(instance, scale_set.run_id, **{"provision_id": "", "needs": needed, **changed})


def engage(instance: Instance, scale_set: ScaleSet, **changed: Any) -> Change[Instance]:
    fields = {"round": instance.round, "scale_set": scale_set, "until": later(22500), **changed}
    return set_member.engage(instance, set_member.Engaged(**{"at": NOW, "by": BY, **fields}))


def extend(instance: Instance, **changed: Any) -> Change[Instance]:
    fields = {"round": instance.round, "until": later(30000), **changed}
    return set_member.renew(instance, set_member.Extended(**{"at": NOW, "by": BY, **fields}))


def recall(instance: Instance, **changed: Any) -> Change[Instance]:
    fields = {"old_round": instance.round, "round": a_token(), **changed}
    return set_member.recall(instance, set_member.Recalled(**{"at": NOW, "by": BY, **fields}))


def claimed_for_set(instance_id: str = "i-1", name: str = NAME, **changed: Any) -> Walk:
    walk = on_offer(instance_id, **changed)
    return [*walk, claim_for(walk[-1].after, a_ready_set(name))]


def engaged(instance_id: str = "i-1", name: str = NAME, **changed: Any) -> Walk:
    walk = claimed_for_set(instance_id, name, **changed)
    return [*walk, engage(walk[-1].after, a_ready_set(name))]


# ---- sessions


def a_waiting_job(id: str = "job-1", **changed: Any) -> WaitingJob:
    fields = {"since": NOW, "repository": "octo/repo", "run": "99", "name": "build", "why": "", **changed}
    return WaitingJob(id, **fields)


def a_started_job(id: str = "job-1", **changed: Any) -> StartedJob:
    fields = {"runner": "pool.i-1.0a1b.1", "repository": "octo/repo", "run": "99", "name": "build", "at": NOW}
    return StartedJob(id, **fields | changed)  # type: ignore[arg-type]


def take(session: SetSession | None = None, holder: str = "web-1", **changed: Any) -> Change[SetSession]:
    """By a process that has watched the record stand still for long enough."""
    session = session or sessions.absent(NAME)
    fields: dict[str, Any] = {"at": NOW, "round": a_token(), "lease": LEASE, "watched": session.version}
    return sessions.take(
        session, sessions.SessionTaken(by=BY, holder=holder, **fields | {"stood_still": LEASE} | changed)
    )


def _own(session: SetSession, changed: dict[str, Any]) -> dict[str, Any]:
    return {"at": NOW, "by": BY, "holder": session.holder, "epoch": session.epoch, **changed}


def renew(session: SetSession, **changed: Any) -> Change[SetSession]:
    return sessions.renew(session, sessions.SessionRenewed(**_own(session, changed)))


def open_session(session: SetSession, **changed: Any) -> Change[SetSession]:
    news = {"ci_session": "s-1", "statistics": JobCounts(3, 1), **changed}
    return sessions.open_(session, sessions.SessionOpened(**_own(session, news)))


def record_message(session: SetSession, message: int = 1, **changed: Any) -> Change[SetSession]:
    news = {"message": message, "statistics": JobCounts(5, 2), **changed}
    return sessions.record_message(session, sessions.MessageRecorded(**_own(session, news)))


def record_failure(
    session: SetSession, why: str = "another session is open (409)", **changed: Any
) -> Change[SetSession]:
    return sessions.record_failure(session, sessions.SessionFailed(**_own(session, {"why": why, **changed})))


def yield_session(session: SetSession, **changed: Any) -> Change[SetSession]:
    return sessions.yield_(session, sessions.SessionYielded(**_own(session, {"closed": True, **changed})))


def held(holder: str = "web-1", name: str = NAME) -> SetSession:
    """A session that listens."""
    return open_session(take(sessions.absent(name), holder).after).after
