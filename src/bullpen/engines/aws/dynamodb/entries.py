"""What follows from a record: its entries in the sparse indexes, and when it may go. Pure, and shared with the agent.

An item is in an index while it has the attributes of that index's key. They are written and removed by the same write
as the record, always all of them: `before` may come from a ticket, and what it does not know must not linger. That is
safe because a record on offer, which is all that a ticket speaks of, owes nothing.
"""

import math
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any
from zlib import crc32

from bullpen.engines.aws.dynamodb.items import Value, moment, number, text
from bullpen.model import instance, job, provision, worker
from bullpen.model.control import Control
from bullpen.model.instance import Instance
from bullpen.model.job import Job
from bullpen.model.pause import Pause
from bullpen.model.provision import Provision
from bullpen.model.repository import Repository
from bullpen.model.rotation import Rotation
from bullpen.model.scale_set import ScaleSet
from bullpen.model.set_session import SetSession
from bullpen.model.worker import Worker

LEASE_SHARDS = 4
"""Only leases are spread: every worker's timer moves with its lease, and an index partition takes 1,000 writes/s."""

ENDED = "ENDED#Instance"
"""In the index `todo`: instances that have ended and whose last booking has not landed. The booking removes them."""

UNTIMED = "0"
"""Sorts before every time: a lease without a deadline is due at once."""

AHEAD = "WAITING#Provision"
"""The part of the `live` index that every provision reads before it acquires anything: provisions that wait at a cap,
and pauses that are in force. Empty for most of the time."""

Entry = tuple[str, str]  # hash and range; the range of `pool` and `live` is the table's own
_NONE = ("", "")
_KEYS = ("runKey", "runSort", "poolKey", "dueKey", "dueSort", "todoKey", "todoSort", "liveKey")


def derived(record: Any) -> dict[str, Value | None]:
    """Every attribute that follows from the record; None where it must be absent."""
    return _DERIVED[type(record)](record)


def lease_key(worker_id: str) -> str:
    """The part of the `due` index in which a worker's lease is watched."""
    return lease_keys()[crc32(worker_id.encode()) % LEASE_SHARDS]


def lease_keys() -> list[str]:
    return [f"LEASE#{shard}" for shard in range(LEASE_SHARDS)]


def _indexed(
    *, run: Entry = _NONE, pool: str = "", due: Entry = _NONE, todo: Entry = _NONE, live: str = ""
) -> dict[str, Value | None]:
    entries = (*run, pool, *due, *todo, live)
    return {name: text(entry) if entry else None for name, entry in zip(_KEYS, entries, strict=True)}


def _ttl(purge_at: datetime | None) -> Value | None:
    return None if purge_at is None else number(math.ceil(purge_at.timestamp()))


def _at(key: str, at: datetime | None) -> Entry:
    return _NONE if at is None else (key, moment(at))


def _of_instance(record: Instance) -> dict[str, Value | None]:
    serves = record.run_id and record.state in instance.LIVE
    pool = "CLAIMABLE" if record.is_claimable else "PENDING" if record.is_pending else ""
    return {
        "instanceId": text(record.id),
        # DynamoDB cannot see whether its time is booked: each one stays for as long as that may take.
        "ttl": None if record.purge_at is None else _ttl(record.purge_at + instance.UNBOOKED_STAYS),
        **_indexed(
            run=(f"RUN#{record.run_id}", record.id) if serves else _NONE,
            pool=f"{pool}#{record.resource_class}" if pool else "",
            due=("SERVES", by_run(record.run_id, record.id)) if serves else _NONE,
            todo=_at("OWES#Instance", record.owes.due_at) if record.owes else _at(ENDED, record.purge_at),
            live="LIVE#Instance" if record.due_at else "",
        ),
    }


def _of_provision(record: Provision) -> dict[str, Value | None]:
    unsettled = record.run_id and not record.is_closed
    return {
        "ttl": _ttl(record.purge_at),
        **_indexed(
            run=_at(f"TOLD#{record.run_id}", record.deadline) if record.run_id else _NONE,
            pool=f"OPEN#{record.needs.resource_class}" if record.state is provision.OPEN else "",
            due=_at("DUE#Provision", record.due_at),
            todo=(f"OPENRUN#{record.run_id}", record.id) if unsettled else _NONE,
            live=AHEAD if record.is_waiting else "",
        ),
    }


def _of_worker(record: Worker) -> dict[str, Value | None]:
    if record.state is worker.ACTIVE:
        due = lease_key(record.id), moment(record.due_at) if record.due_at else UNTIMED
    else:
        due = _at("CLEAN", record.cleanup_at)
    return {
        "value": text("PING"),
        # One that still owes its lost jobs stays.
        "ttl": None if record.owes_reschedule else _ttl(record.purge_at),
        **({"card": None} if record.state is worker.CLEANED_UP else {}),
        **_indexed(
            run=("LEAVING", record.id) if record.leaving and record.state is worker.ACTIVE else _NONE,
            due=due,
            todo=("OWES#Worker", record.id) if record.owes_reschedule else _NONE,
            live="" if record.state is worker.CLEANED_UP else "LIVE#Worker",
        ),
    }


def _of_job(record: Job) -> dict[str, Value | None]:
    queued = record.state is job.QUEUED
    return {
        "ttl": _ttl(record.purge_at),
        **_indexed(
            run=(f"JOBS#{record.run_id}", record.id),
            due=("WAITING", by_run(record.run_id, record.id)) if queued else _at("VERIFY", record.verify_by),
            todo=(f"QUEUED#{record.run_id}", _turn(record)) if queued else _NONE,
            live="" if record.state is job.FINISHED else f"UNFINISHED#{record.run_id}",
        ),
    }


def _of_pause(record: Pause) -> dict[str, Value | None]:
    return _indexed(live=AHEAD if record.is_on else "")


def by_run(run_id: str, id: str) -> str:
    """A space sorts before all that a run's id may have: so what a run has is together, and runs are in their order."""
    return f"{run_id} {id}"


def run_of(entry: str) -> str:
    return entry.rpartition(" ")[0] or entry


def after_run(run_id: str) -> str:
    """Behind all that this run has: "!" comes next after the space."""
    return f"{run_id}!"


def _turn(record: Job) -> str:
    """One that was lost comes first, then the oldest."""
    since = moment(record.queued_at) if record.queued_at else UNTIMED
    return f"{0 if record.losses else 1}#{since}#{record.index:010}#{record.id}"


_DERIVED: Mapping[type[Any], Callable[[Any], dict[str, Value | None]]] = {
    Instance: _of_instance,
    Provision: _of_provision,
    Worker: _of_worker,
    Job: _of_job,
    Pause: _of_pause,
    # Few of each and always read together, or read by id: no index has them.
    Control: lambda record: {},
    ScaleSet: lambda record: {},
    SetSession: lambda record: {},
    Repository: lambda record: {},
    Rotation: lambda record: {},
}
