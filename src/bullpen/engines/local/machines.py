"""The local engine's table of machines, and the types it offers.

A machine is written here before its process is started and gets its pid after: a crash in between leaves a line without
a pid, which every process can see, and never a process that is unknown.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from bullpen.config import ResourceClass
from bullpen.engines.sqlite.reader import Snapshot
from bullpen.engines.sqlite.rows import Row
from bullpen.engines.sqlite.writer import Transaction
from bullpen.host.processes import ProcessIdentity
from bullpen.lazy_dataclass import dataclass
from bullpen.model.fleet import FleetPlan, LaunchedMachine, MachineType
from bullpen.model.ticket import UsageClass, matches
from bullpen.model.times import from_micros, to_micros

TYPES = (
    MachineType("local.small", 1, 1024),
    MachineType("local.medium", 2, 4096),
    MachineType("local.large", 4, 16384),
)
"""In order of size. The numbers say which class a machine serves; they are not enforced."""


def choose_type(plan: FleetPlan, wanted: ResourceClass) -> MachineType | None:
    """The smallest type that meets the class, the run's minimums and its patterns."""
    cpu, mem = max(plan.cpu, wanted.cpu), max(plan.mem, wanted.mem)
    fitting = (kind for kind in TYPES if kind.cpu >= cpu and kind.mem >= mem and matches(kind.name, plan.allowed_types))
    return next(fitting, None)


@dataclass(frozen=True, slots=True)
class Line:
    """A machine as the book has it. `process` is None until its start is noted."""

    machine: LaunchedMachine
    provision_id: str
    launched_at: datetime
    has_ended: bool
    process: ProcessIdentity | None
    user: str  # as whom its jobs run, and no others; empty: as Bullpen does
    uid: int | None = None  # whom that name meant when the machine was booked

    @property
    def id(self) -> str:
        return self.machine.id


_LINE = """
SELECT id, instance_type, usage_class, cpu, mem, provision_id, launched_at, ended_at IS NOT NULL, pid, started,
  runner_user, runner_uid
FROM machines
"""


def of_fleet(snapshot: Snapshot, client_token: str) -> list[Line] | None:
    """The machines with which a fleet was answered, perhaps none at all; None if it was never asked for."""
    if snapshot.execute("SELECT 1 FROM fleets WHERE client_token = ?", (client_token,)).fetchone() is None:
        return None
    # Those that failed to start were no part of the answer.
    ran = "client_token = ? AND NOT (ended_at IS NOT NULL AND pid IS NULL)"
    return [_line(row) for row in snapshot.execute(f"{_LINE} WHERE {ran} ORDER BY id", (client_token,))]


def of_ids(snapshot: Snapshot, ids: Sequence[str]) -> list[Line]:
    chosen = "WHERE id IN (SELECT value FROM json_each(?))"
    return [_line(row) for row in snapshot.execute(f"{_LINE} {chosen}", (json.dumps(list(ids)),))]


def alive(snapshot: Snapshot) -> list[Line]:
    """Every machine whose end is not certain."""
    return [_line(row) for row in snapshot.execute(f"{_LINE} WHERE ended_at IS NULL ORDER BY id")]


def unrecorded(snapshot: Snapshot, ids: Sequence[str]) -> list[str]:
    """Those of `ids` that no instance record names, or none that is live or owes their end."""
    known = "SELECT 1 FROM instances WHERE instances.id = value AND due_at IS NOT NULL"
    query = f"SELECT value FROM json_each(?) WHERE NOT EXISTS ({known})"
    return [id_ for (id_,) in snapshot.execute(query, (json.dumps(list(ids)),))]


def book(
    transaction: Transaction,
    plan: FleetPlan,
    machines: Sequence[LaunchedMachine],
    at: datetime,
    users: Mapping[str, str],
    uids: Mapping[str, int],
) -> None:
    """Answer a fleet with these machines, in the order of their ids; `users` are those of their jobs, `uids` what each
    of these names means now."""
    transaction.execute(
        "INSERT INTO fleets (client_token, answered_at) VALUES (?, ?)", (plan.client_token, to_micros(at))
    )
    fleet = (plan.client_token, plan.provision_id, plan.resource_class, to_micros(at))
    transaction.executemany(
        "INSERT INTO machines (client_token, provision_id, resource_class, launched_at,"
        " id, instance_type, usage_class, cpu, mem, runner_user, runner_uid) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            (*fleet, m.id, m.instance_type, m.usage_class.value, m.cpu, m.mem, users[m.id], uids.get(users[m.id]))
            for m in machines
        ),
    )


def forget(transaction: Transaction, before: datetime) -> None:
    """Drop what ended, and tokens that were answered, before a time: no request is repeated that late."""
    transaction.execute("DELETE FROM machines WHERE ended_at < ?", (to_micros(before),))
    transaction.execute("DELETE FROM fleets WHERE answered_at < ?", (to_micros(before),))


def note_starts(transaction: Transaction, started: dict[str, ProcessIdentity]) -> list[str]:
    """Write down the processes; return the ids whose machine was ended before, and whose process must not live."""
    late = []
    for id_, process in started.items():
        row = (process.pid, f"{process.started} {process.boot}", id_)
        noted = "UPDATE machines SET pid = ?, started = ? WHERE id = ? AND ended_at IS NULL"
        if transaction.execute(noted, row).rowcount == 0:
            late.append(id_)
    return late


def note_ends(transaction: Transaction, ids: Collection[str], at: datetime) -> None:
    """The machines are gone, and with them their runners: no registration outlives its machine by one transaction."""
    for id_ in ids:
        ended = "UPDATE machines SET ended_at = ? WHERE id = ? AND ended_at IS NULL"
        transaction.execute(ended, (to_micros(at), id_))
        transaction.execute("DELETE FROM registrations WHERE name = ?", (id_,))
        transaction.wake(id_)  # removes the socket that a killed agent left
    if ids:
        transaction.wake_control()


def _line(row: Row) -> Line:
    id_, instance_type, usage_class, cpu, mem, provision_id, launched_at, has_ended, pid, started, user, uid = row
    process = None
    if pid is not None and started is not None:
        ticks, _, boot = started.partition(" ")
        process = ProcessIdentity(pid, int(ticks), boot)
    machine = LaunchedMachine(id_, instance_type, UsageClass(usage_class), cpu, mem)
    return Line(machine, provision_id, from_micros(launched_at), bool(has_ended), process, user, uid)
