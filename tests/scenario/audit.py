"""The audit: processes, records, tickets and registrations of a pool at rest agree, or it says where they do not.

It reads the store by itself and the processes from the kernel, so that a fault of Bullpen's own queries cannot hide
what they lose. `audit` is for a home; other engines have the same `Books`, and machines of their own kind.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from scenario import processes

Row = dict[str, Any]


@dataclass(frozen=True)
class Books:
    """Everything that a store says, as of one moment. Times are microseconds since 1970."""

    instances: dict[str, Row]
    provisions: dict[str, Row]
    registrations: list[Row]
    tickets: list[str]
    machines: list[Row] = field(default_factory=list)
    scale_sets: dict[str, Row] = field(default_factory=dict)
    now: int = field(default_factory=lambda: int(datetime.now(UTC).timestamp() * 1_000_000))

    @property
    def live(self) -> dict[str, Row]:
        return {id: row for id, row in self.instances.items() if row["state"] != "terminated"}


def audit(home: Path) -> list[str]:
    """Every violation in a sentence; empty if all is well. The pool must be at rest: no process works on it."""
    books = read(home)
    return [
        *disagreements(books),
        *astray(books.live, processes.of_home(home)),
        *_leftovers(home, books, books.live),
    ]


def disagreements(books: Books) -> list[str]:
    """Where records, tickets and registrations do not agree with each other."""
    live = books.live
    return [
        *_misplaced(books, live),
        *_owing(books),
        *_halves(books, live),
        *_registrations(books, live),
        *_tickets(books, live),
    ]


def read(home: Path) -> Books:
    with closing(sqlite3.connect(f"file:{home / 'bullpen.db'}?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        connection.execute("BEGIN")

        def table(name: str) -> list[Row]:
            return [dict(row) for row in connection.execute(f"SELECT * FROM {name}")]

        return Books(
            instances={row["id"]: row for row in table("instances")},
            provisions={row["id"]: {**row, "members": json.loads(row["members"])} for row in table("provisions")},
            registrations=table("registrations"),
            tickets=[row["body"] for row in table("tickets")],
            scale_sets={row["id"]: row for row in table("scale_sets")},
            machines=table("machines"),
        )


def _misplaced(books: Books, live: dict[str, Row]) -> Iterator[str]:
    """A live instance runs for a committed provision or a scale set, or is on offer; there is nothing else."""
    for id, row in live.items():
        provision = books.provisions.get(row["provision_id"])
        if row["threshold"] <= books.now:
            yield f"{id} is {row['state']} past its threshold"
        if row["state"] == "running" and row["run_id"].startswith("set:"):
            if books.scale_sets.get(row["run_id"], {}).get("state") not in ("ready", "retiring", "wanted"):
                yield f"{id} runs for {row['run_id']}, which is not served"
        elif row["state"] == "running":
            if provision is None or provision["state"] != "committed":
                yield f"{id} runs for {row['provision_id'] or 'no provision'}, which has not committed"
            elif id not in provision["members"] or provision["run_id"] != row["run_id"]:
                yield f"{id} runs for {row['run_id']}, but is no member of {provision['id']}"
        elif row["state"] != "idle" or not row["attested"]:
            yield f"{id} is {row['state']}, neither running nor on offer"


def _owing(books: Books) -> Iterator[str]:
    for id, row in {**books.instances, **books.provisions}.items():
        if row["owes_kind"] is not None:
            yield f"{id} ({row['state']}) still owes {row['owes_kind']}"
    for id, row in books.provisions.items():
        if row["state"] == "open":
            yield f"{id} is open, and no process works on it"


def _halves(books: Books, live: dict[str, Row]) -> Iterator[str]:
    """All or nothing: of a committed provision's members all run, or none."""
    running = Counter(row["provision_id"] for row in live.values() if row["state"] == "running")
    for id, row in books.provisions.items():
        members = len(row["members"])
        if row["run_id"] and running[id] not in (0, members):
            yield f"{id} has {running[id]} of its {members} members running"


def astray(live: dict[str, Row], found: list[processes.Process]) -> Iterator[str]:
    """Processes without a live record, and live records without their one agent."""
    agents = Counter(process.instance_id for process in found if process.is_agent)
    for process in found:
        if process.instance_id not in live:
            yield f"process {process.pid} of {process.instance_id} runs without a live record"
    for id, row in live.items():
        if agents[id] != 1:
            yield f"{id} is {row['state']} and has {agents[id]} agents"


def _leftovers(home: Path, books: Books, live: dict[str, Row]) -> Iterator[str]:
    """What an ended machine must not leave: a line in the book that says it runs, or its directory."""
    for row in books.machines:
        if row["ended_at"] is None and row["id"] not in live:
            yield f"machine {row['id']} is booked as alive without a live record"
    folder = home / "instances"
    for directory in sorted(folder.iterdir()) if folder.exists() else ():
        if directory.name not in live:
            yield f"{directory.name} has ended and left its directory"


def _registrations(books: Books, live: dict[str, Row]) -> Iterator[str]:
    serving = {id: row["run_id"] for id, row in live.items() if row["state"] == "running"}
    for row in books.registrations:
        if serving.get(row["name"]) != row["label"]:
            yield f"{row['name']} is registered for {row['label']}, which it does not serve"
    registered = {row["name"] for row in books.registrations}
    for id, run_id in serving.items():
        if id not in registered and not run_id.startswith("set:"):  # GitHub alone has those registrations
            yield f"{id} runs for {run_id} and is not registered"


def _tickets(books: Books, live: dict[str, Row]) -> Iterator[str]:
    """A ticket that would claim (its version is the record's) names an instance on offer, in its own class."""
    for body in books.tickets:
        try:
            ticket = json.loads(body)
            id, version = ticket["instanceId"], ticket.get("version")
        except (ValueError, TypeError, KeyError, RecursionError):
            continue  # no ticket at all: dropped by the process that takes it
        row = live.get(id)
        if row is not None and row["version"] == version and not row["attested"]:
            yield f"a ticket offers {id}, which is {row['state']} and not clean"
