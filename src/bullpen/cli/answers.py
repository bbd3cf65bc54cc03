"""What the commands answer with --json: the field names are a promise to scripts."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from bullpen.cli.output import say
from bullpen.model.ticket import format_time

if TYPE_CHECKING:
    from bullpen.inventory import Standing, Status, Story
    from bullpen.model.activity import Activity
    from bullpen.model.job import Job
    from bullpen.model.transition import Debt, StoryLine
    from bullpen.ports.health import Limit
    from bullpen.provision.outcome import Member, Outcome
    from bullpen.run import Ran


def print_json(answer: dict[str, Any]) -> None:
    """One object on one line: the only thing on stdout."""
    say(json.dumps(answer))


def of_outcome(outcome: "Outcome") -> dict[str, Any]:
    return {
        "runId": outcome.run_id,
        "provisionId": outcome.provision_id,
        "label": outcome.run_id,
        "state": "success" if outcome.succeeded else "failed",
        "requested": outcome.requested,
        "selected": outcome.selected,
        "created": outcome.created,
        "durationSeconds": round(outcome.duration, 3),
        "timings": {name: round(seconds, 3) for name, seconds in outcome.timings.items()},
        "reason": outcome.reason,
        "remedy": outcome.remedy,
        "instances": [_of_member(member) for member in outcome.members],
        "kept": [_of_member(member) for member in outcome.kept],
        "held": [member.instance.id for member in outcome.held],
        "discarded": [
            {
                "instanceId": one.instance_id,
                "origin": one.origin.value,
                "reason": one.reason,
                "outcome": one.outcome.value,
            }
            for one in outcome.discarded
        ],
        "collisions": outcome.collisions,
    }


def _of_member(member: "Member") -> dict[str, Any]:
    return {
        "instanceId": member.instance.id,
        "origin": member.origin.value,
        "state": member.instance.state.value,
        "resourceClass": member.instance.resource_class,
        "instanceType": member.instance.instance_type,
        "usageClass": member.instance.usage_class.value,
    }


def of_status(status: "Status", limits: "Sequence[Limit]" = ()) -> dict[str, Any]:
    return {
        "instances": [_of_standing(standing) for standing in status.instances],
        "pools": [
            {
                "resourceClass": pool.resource_class,
                "tickets": pool.tickets,
                "ticketsIncludeExpired": pool.counts_expired,
                "claimable": pool.claimable,
            }
            for pool in status.pools
        ],
        "silentWorkers": [
            {
                "worker": silence.worker.id,
                "instanceId": silence.worker.instance_id,
                "state": silence.worker.state.value,
                "epoch": silence.worker.epoch,
                "heartbeatAt": _time(silence.worker.beat_at),
                "jobs": list(silence.jobs),
            }
            for silence in status.silent
        ],
        "hold": status.hold,
        "failingLoops": [
            {"loop": one.loop, "process": one.process, "since": _time(one.since), "error": one.error}
            for one in status.failing
        ],
        "waiting": [
            {
                "provisionId": one.id,
                "runId": one.run_id,
                "count": one.want,
                "resourceClass": one.needs.resource_class,
                "waitsFor": one.waits_for,
                "since": _time(one.place.since if one.place else None),
            }
            for one in status.waiting
        ],
        "limits": [
            {"resource": one.resource, "limit": one.limit, "remaining": one.remaining, "resetsAt": _time(one.resets_at)}
            for one in limits
        ],
    }


def _of_standing(standing: "Standing") -> dict[str, Any]:
    one, pulse = standing.instance, standing.pulse
    return {
        "instanceId": one.id,
        "state": one.state.value,
        "runId": one.run_id,
        "round": one.round,
        "threshold": format_time(one.threshold),
        "version": one.version,
        "attested": one.attested,
        "trustDomain": one.trust_domain,
        "imageGeneration": one.image_generation,
        "resourceClass": one.resource_class,
        "instanceType": one.instance_type,
        "usageClass": one.usage_class.value,
        "cpu": one.cpu,
        "mem": one.mem,
        "provisionId": one.provision_id,
        "repository": one.repository,
        "offeredAt": _time(one.offered_at),
        "owes": _of_debt(one.owes),
        "purgeAt": _time(one.purge_at),
        "pid": standing.pid,
        "signal": pulse.signal.kind.value if pulse.signal else None,
        "heartbeatAt": _time(pulse.heartbeat.at) if pulse.heartbeat else None,
        "leavingAt": _time(standing.leaving),
        "job": _of_activity(standing.activity),
    }


def _of_activity(activity: "Activity | None") -> dict[str, Any] | None:
    if activity is None:
        return None
    return {
        "repository": activity.repository,
        "run": activity.run,
        "attempt": activity.attempt,
        "name": activity.job,
        "runner": activity.runner,
    }


def of_story(story: "Story") -> dict[str, Any]:
    return {
        "id": story.id,
        "state": story.record.state.value if story.record else None,
        "owes": _of_debt(getattr(story.record, "owes", None)),
        "leavingAt": _time(story.leaving),
        "job": _of_activity(story.activity),
        "story": [of_line(line) for line in story.lines],
    }


def of_line(line: "StoryLine") -> dict[str, Any]:
    return {
        "version": line.version,
        "step": line.step,
        "state": line.state,
        "at": _time(line.at),
        "by": line.by,
        "why": line.why,
    }


def of_job(job: "Job") -> dict[str, Any]:
    return {
        "jobId": job.id,
        "runId": job.run_id,
        "name": job.name,
        "index": job.index,
        "command": list(job.command),
        "state": job.state.value,
        "result": job.result.value,
        "exitCode": job.exit_code,
        "reason": job.reason,
        "timeoutSeconds": job.timeout,
        "capability": job.capability,
        "sideEffects": job.side_effects,
        "cancelling": job.cancelling,
        "losses": job.losses,
        "fence": job.fence,
        "worker": job.worker,
        "epoch": job.epoch,
        "instanceId": job.instance_id,
        "queuedAt": _time(job.queued_at),
        "finishedAt": _time(job.finished_at),
    }


def of_ran(ran: "Ran") -> dict[str, Any]:
    released = ran.released
    return {
        "runId": ran.outcome.run_id,
        "state": "success" if ran.exit_code == 0 else "failed",
        "exitCode": ran.exit_code,
        "interrupted": ran.interrupted,
        "jobs": [of_job(job) for job in ran.jobs],
        "offered": list(released.offered) if released else [],
        "terminated": list(released.terminated) if released else [],
        "pending": list(released.pending) if released else [],
        "busy": list(released.busy) if released else [],
    }


def _of_debt(debt: "Debt | None") -> dict[str, Any] | None:
    return {"kind": debt.kind.value, "dueAt": _time(debt.due_at)} if debt else None


def _time(at: datetime | None) -> str | None:
    return format_time(at) if at else None
