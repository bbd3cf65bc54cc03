"""What the commands answer with --json: the field names are a promise to scripts."""

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

from bullpen.cli.output import say
from bullpen.model.ticket import format_time

if TYPE_CHECKING:
    from bullpen.inventory import Standing, Status, Story
    from bullpen.model.transition import Debt
    from bullpen.provision.outcome import Outcome


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
        "instances": [
            {
                "instanceId": member.instance.id,
                "origin": member.origin.value,
                "state": member.instance.state.value,
                "resourceClass": member.instance.resource_class,
                "instanceType": member.instance.instance_type,
                "usageClass": member.instance.usage_class.value,
            }
            for member in outcome.members
        ],
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


def of_status(status: "Status") -> dict[str, Any]:
    return {
        "instances": [_of_standing(standing) for standing in status.instances],
        "pools": [
            {"resourceClass": pool.resource_class, "tickets": pool.tickets, "claimable": pool.claimable}
            for pool in status.pools
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
        "offeredAt": _time(one.offered_at),
        "owes": _of_debt(one.owes),
        "purgeAt": _time(one.purge_at),
        "pid": standing.pid,
        "signal": pulse.signal.kind.value if pulse.signal else None,
        "heartbeatAt": _time(pulse.heartbeat.at) if pulse.heartbeat else None,
    }


def of_story(story: "Story") -> dict[str, Any]:
    return {
        "id": story.id,
        "state": story.record.state.value if story.record else None,
        "owes": _of_debt(story.record.owes) if story.record else None,
        "story": [
            {
                "version": line.version,
                "step": line.step,
                "state": line.state,
                "at": _time(line.at),
                "by": line.by,
                "why": line.why,
            }
            for line in story.lines
        ],
    }


def _of_debt(debt: "Debt | None") -> dict[str, Any] | None:
    return {"kind": debt.kind.value, "dueAt": _time(debt.due_at)} if debt else None


def _time(at: datetime | None) -> str | None:
    return format_time(at) if at else None
