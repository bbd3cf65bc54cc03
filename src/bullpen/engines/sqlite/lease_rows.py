"""How workers, jobs and controls lie in their tables."""

from typing import Any

from msgspec import json

from bullpen.engines.sqlite.rows import (
    Field,
    Row,
    Table,
    flag_field,
    from_micros_or_null,
    json_field,
    plain_field,
    time_field,
    word_field,
)
from bullpen.model import control, job, worker
from bullpen.model.control import Control
from bullpen.model.job import Job
from bullpen.model.worker import Card, Worker

_WORKER_STATES = {state.value: state for state in worker.State}
_FATES = {fate.value: fate for fate in worker.Fate}


def _decode_worker(row: Row) -> Worker:
    id_, state, version, instance_id, domain, epoch, token, request_id, lease, deadline, due_at, *rest = row
    cleanup_at, purge_at, fate, lost_epoch, settled_epoch, beat_at, leaving, activity = rest
    return Worker(
        id_,
        _WORKER_STATES[state],
        version,
        instance_id,
        domain,
        epoch,
        token,
        request_id,
        lease,
        from_micros_or_null(deadline),
        from_micros_or_null(due_at),
        from_micros_or_null(cleanup_at),
        from_micros_or_null(purge_at),
        _FATES[fate],
        lost_epoch,
        settled_epoch,
        from_micros_or_null(beat_at),
        from_micros_or_null(leaving),
        activity,
    )


def _decode_job(row: Row) -> Job:
    id_, state, version, run_id, command, name, index, timeout, capability, side_effects, queued_at, *rest = row
    not_before, fence, holder, epoch, instance_id, bound, verify_by, losses, avoid, cancelling, *end = rest
    result, exit_code, reason, finished_at, purge_at = end
    return Job(
        id_,
        job.State(state),
        version,
        run_id,
        json.decode(command, type=tuple[str, ...]),
        name,
        index,
        timeout,
        capability,
        side_effects == 1,
        from_micros_or_null(queued_at),
        from_micros_or_null(not_before),
        fence,
        holder,
        epoch,
        instance_id,
        bound == 1,
        from_micros_or_null(verify_by),
        losses,
        avoid,
        cancelling == 1,
        job.Result(result),
        exit_code,
        reason,
        from_micros_or_null(finished_at),
        from_micros_or_null(purge_at),
    )


def _decode_control(row: Row) -> Control:
    id_, state, version, ingest_at, recovered_at, budget, budget_at, held_since, why = row
    times = (from_micros_or_null(ingest_at), from_micros_or_null(recovered_at))
    since = from_micros_or_null(held_since)
    return Control(id_, control.State(state), version, *times, budget, from_micros_or_null(budget_at), since, why)


def encode_card(card: Card) -> str:
    return json.encode(card).decode()


def decode_card(text: str) -> Card:
    return json.decode(text, type=Card)


def _fields(**kinds: Any) -> dict[str, Field]:
    """Fields that lie in one column of their own name."""
    return {name: kind(name) for name, kind in kinds.items()}


WORKERS: Table[Worker] = Table(
    "workers",
    _fields(
        id=plain_field,
        state=word_field,
        version=plain_field,
        instance_id=plain_field,
        domain=plain_field,
        epoch=plain_field,
        token=plain_field,
        request_id=plain_field,
        lease=plain_field,
        deadline=time_field,
        due_at=time_field,
        cleanup_at=time_field,
        purge_at=time_field,
        fate=word_field,
        lost_epoch=plain_field,
        settled_epoch=plain_field,
        beat_at=time_field,
        leaving=time_field,
        activity=plain_field,
    ),
    _decode_worker,
)

JOBS: Table[Job] = Table(
    "jobs",
    _fields(id=plain_field, state=word_field, version=plain_field, run_id=plain_field, command=json_field)
    | {"name": plain_field("name"), "index": plain_field("job_index")}  # `index` is a word of SQL
    | _fields(
        timeout=plain_field,
        capability=plain_field,
        side_effects=flag_field,
        queued_at=time_field,
        not_before=time_field,
        fence=plain_field,
        worker=plain_field,
        epoch=plain_field,
        instance_id=plain_field,
        bound=flag_field,
        verify_by=time_field,
        losses=plain_field,
        avoid=plain_field,
        cancelling=flag_field,
        result=word_field,
        exit_code=plain_field,
        reason=plain_field,
        finished_at=time_field,
        purge_at=time_field,
    ),
    _decode_job,
)

CONTROLS: Table[Control] = Table(
    "controls",
    _fields(
        id=plain_field,
        state=word_field,
        version=plain_field,
        ingest_at=time_field,
        recovered_at=time_field,
        budget=plain_field,
        budget_at=time_field,
        held_since=time_field,
        why=plain_field,
    ),
    _decode_control,
)
