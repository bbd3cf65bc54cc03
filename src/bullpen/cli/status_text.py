"""`bullpen status` as text: one table for each thing, as wide as the terminal."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from bullpen.cli.text import DEEPER, ago, table, wrapped
from bullpen.model.instance import DRAINED, IDLE
from bullpen.model.ticket import parse_time
from bullpen.model.worker import ACTIVE
from bullpen.schema.instance import InstanceAnswer
from bullpen.schema.pause import PauseAnswer, RotationAnswer
from bullpen.schema.run import RunSummary
from bullpen.schema.scale_set import ScaleSetAnswer
from bullpen.schema.status import PoolAnswer, PoolStatus, RateLimitAnswer, WaitingProvision
from bullpen.schema.worker import SilentWorker

NONE = "–"
# What is left out first on a narrow terminal.
SPARE = ("PID", "TYPE", "REPOSITORY", "SINCE", "HEARTBEAT", "EPOCH", "UNTIL", "CLASS", "HOLDER", "STARTING", "IDLE")

SHORTENED = ("RUN",)  # after that: users choose these ids, of up to 128 characters


def status_text(found: PoolStatus, now: datetime, width: int = 0) -> str:
    """Every section that has something to say. `width` is that of the terminal, 0 for any."""
    return "\n\n".join(_sections(found, now, width))


def _sections(found: PoolStatus, now: datetime, width: int) -> Iterator[str]:
    yield f"Pool: {found.location}"
    if found.runs:
        titles = ["RUN", "STATE", "RUNNERS", "CLASS", "JOBS", "SINCE", "REPOSITORY"]
        if not any(run.repository for run in found.runs):
            titles.remove("REPOSITORY")
        yield _table(titles, [_run(run, now) for run in found.runs], width)
    if found.scale_sets:
        titles = ["SET", "HOLDER", "ASSIGNED", "RUNNING", "IDLE", "STARTING", "MIN/MAX", "OLDEST WAIT"]
        yield _table(titles, [_set(one, now) for one in found.scale_sets], width, wraps=True)
    if found.instances:
        titles = ["INSTANCE", "STATE", "RUN", "CLASS", "TYPE", "UNTIL", "HEARTBEAT", "PID"]
        yield _table(titles, [_instance(one, now) for one in found.instances], width)
    if found.silent_workers:
        titles = ["SILENT WORKER", "STATE", "EPOCH", "HEARTBEAT", "JOBS"]
        yield _table(titles, [_silent(one, now) for one in found.silent_workers], width)
    if found.waiting:
        titles = ["WAITING", "RUN", "RUNNERS", "CLASS", "FOR", "SINCE"]
        yield _table(titles, [_waiting(one, now) for one in found.waiting], width)
    if found.pauses:
        pauses = [
            (one.resource_class or "whole pool", one.by, _ago(one.since, now), _pause_note(one)) for one in found.pauses
        ]
        yield _table(["PAUSED", "BY", "SINCE", "NOTE"], pauses, width, wraps=True)
    if found.rotations:
        titles = ["ROTATING", "REPLACED", "BY", "SINCE"]
        yield _table(titles, [_rotation(one, now) for one in found.rotations], width)
    if found.hold:
        yield "\n".join(wrapped(f"no worker is declared lost: {found.hold}", width, DEEPER))
    if found.failing_loops:
        loops = [(one.loop, one.process, _ago(one.since, now), one.error) for one in found.failing_loops]
        yield _table(["FAILING LOOP", "SERVICE", "SINCE", "LAST ERROR"], loops, width, wraps=True)
    if found.pools:
        titles = ["POOL", "TICKETS", "CLAIMABLE"]
        if any(one.idle_target or one.next_target for one in found.pools):
            titles.append("TARGET")
        pools = [_pool(one, now)[: len(titles)] for one in found.pools]
        yield _table(titles, pools, width, wraps=True)
    if any(pool.tickets_include_expired and pool.tickets > pool.claimable for pool in found.pools):
        yield "TICKETS includes expired tickets, which SQS counts until they are received"
    if found.limits:
        limits = "GitHub rate limits: " + ", ".join(_left(one, now) for one in found.limits)
        yield "\n".join(wrapped(limits, width, DEEPER))


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]], width: int, *, wraps: bool = False) -> str:
    return table(titles, rows, width, [title for title in SPARE if title in titles], SHORTENED, wraps=wraps)


def _run(run: RunSummary, now: datetime) -> tuple[str, ...]:
    state = f"waiting for {run.waits_for}" if run.waits_for else run.state.value
    counts = ((run.queued_jobs, "queued"), (run.running_jobs, "running"))
    jobs = ", ".join(f"{count} {name}" for count, name in counts if count)
    since = _ago(run.since, now) if run.since else NONE
    classes = " ".join(run.resource_classes)
    return run.id, state, f"{run.held} of {run.wanted}", classes or NONE, jobs or NONE, since, run.repository or NONE


def _set(one: ScaleSetAnswer, now: datetime) -> tuple[str, ...]:
    holder = ", ".join(filter(None, [one.holder or "none", _age(one.since, now)]))
    jobs = ["?" if count is None else str(count) for count in (one.assigned, one.running)]
    wait = ": ".join(filter(None, [_age(one.waits_since, now), one.why]))
    idle = f"{one.idle}, {one.dropped} dropped" if one.dropped else str(one.idle)
    return one.name, holder, *jobs, idle, str(one.starting), f"{one.min}/{one.max}", wait or NONE


def _instance(one: InstanceAnswer, now: datetime) -> tuple[str, ...]:
    state = "idle, cleaning" if one.state is IDLE and not one.attested else one.state.value
    if one.image_generation == DRAINED:
        state += ", drained"
    if one.job:
        state += f", job {one.job.name}" if one.job.name else ", busy"
    if one.leaving_at:
        state += f", leaves {_ago(one.leaving_at, now)}"
    return (
        one.id,
        state,
        one.run_id or NONE,
        one.resource_class,
        one.instance_type,
        _ago(one.threshold, now),
        _ago(one.heartbeat_at, now),
        str(one.pid or NONE),
    )


def _silent(one: SilentWorker, now: datetime) -> tuple[str, ...]:
    state = "suspect" if one.state is ACTIVE else "lost, may come back" if one.may_return else "lost"
    return one.key, state, str(one.epoch), _ago(one.heartbeat_at, now), " ".join(one.job_ids) or NONE


def _waiting(one: WaitingProvision, now: datetime) -> tuple[str, ...]:
    return one.id, one.run_id, str(one.count), one.resource_class, one.waits_for, _ago(one.since, now)


def _pool(one: PoolAnswer, now: datetime) -> tuple[str, ...]:
    return one.resource_class, str(one.tickets), str(one.claimable), target_text(one, now)


def target_text(one: PoolAnswer, now: datetime) -> str:
    """The idle target, which entry of a schedule sets it, and when it changes."""
    entry = f" ({one.schedule_entry})" if one.schedule_entry else ""
    change = f", then {one.next_target} {_ago(one.next_target_at, now)}" if one.next_target_at else ""
    return f"{one.idle_target}{entry}{change}"


def _pause_note(one: PauseAnswer) -> str:
    return f"{one.note} (its instances are drained)" if one.drains else one.note


def _rotation(one: RotationAnswer, now: datetime) -> tuple[str, ...]:
    return one.resource_class, f"{one.total - one.left} of {one.total}", one.by, _ago(one.since, now)


def _left(one: RateLimitAnswer, now: datetime) -> str:
    return f"{one.resource} {one.remaining} of {one.limit} requests left (resets {_ago(one.resets_at, now)})"


def _ago(at: str | None, now: datetime) -> str:
    return ago(parse_time(at) if at else None, now)


def _age(at: str | None, now: datetime) -> str:
    return _ago(at, now).removesuffix(" ago") if at else ""
