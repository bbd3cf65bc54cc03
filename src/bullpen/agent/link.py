"""The store as an agent on the same machine sees it: SQLite, through the turnstile that all writers share.

The agent reads its own record and writes its signals, its pulse, its registration and the ends of its jobs.
Whatever keeps the store from answering (locked, full, moved away, broken) is `StoreUnreachable`: the agent lives on and
tries again. Sequence numbers count up from what is stored, so a restarted agent continues where the last one stopped.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bullpen.agent.decide import ABSENT, NoRecord
from bullpen.agent.progress import Job, Kind, Record, State
from bullpen.engines.sqlite import wake
from bullpen.engines.sqlite.turnstile import Turnstile, TurnstileTimeout, connect

PATIENCE = 1.0
"""Seconds to wait for a turn: the loop that waits also sends the heartbeat."""


TEXT_LIMIT = 2000
"""Characters of a signal's text: the control plane shows them to people."""


class StoreUnreachable(Exception):
    """The store did not answer; nothing is known, and nothing was written."""


@dataclass(frozen=True, slots=True)
class Order:
    """A job taken, and the command it runs."""

    job: Job
    command: tuple[str, ...]


class Link:
    """One connection, made when first needed and again after every failure."""

    def __init__(self, home: Path, instance_id: str) -> None:
        self._id = instance_id
        self._path = home / "bullpen.db"
        self._sockets = wake.socket_directory(home)
        self._turnstile = Turnstile(home, PATIENCE)
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._version = -1

    def has_changed(self) -> bool:
        """True if anybody else has written since the last call: the net under the wake-ups."""
        with self._translated():
            (version,) = self._connected().execute("PRAGMA data_version").fetchone()
            changed = bool(version != self._version)
            self._version = version
            return changed

    def look(self) -> Record | NoRecord:
        with self._translated():
            row = self._connected().execute(_LOOK, (self._id,)).fetchone()
            if row is None:
                return ABSENT
            state, run_id, round, threshold, attested, trust_domain, has_job = row
            return Record(State(state), run_id, round, threshold / 1e6, bool(attested), trust_domain, bool(has_job))

    def beat(self) -> None:
        with self._transaction() as connection:
            connection.execute(_BEAT, (self._id, int(time.time() * 1e6)))

    def report(self, kind: Kind, record: Record, text: str) -> None:
        """A signal of this record's round; control is woken. It is a sign of life too, in the same write."""
        with self._transaction(tells_control=True) as connection:
            connection.execute(_REPORT, (self._id, kind.value, record.run_id, record.round, text[:TEXT_LIMIT]))
            connection.execute(_BEAT, (self._id, int(time.time() * 1e6)))

    def register(self, record: Record) -> bool:
        """Appear under the label of the record's run, and see that it is so. False: the record has moved on."""
        with self._transaction() as connection:
            connection.execute(_REGISTER, (self._id, record.run_id, record.round))
        with self._translated():
            found = self._connected().execute("SELECT label, round FROM registrations WHERE name = ?", (self._id,))
            return bool(found.fetchone() == (record.run_id, record.round))

    def deregister(self) -> None:
        with self._transaction(tells_control=True) as connection:
            connection.execute("DELETE FROM registrations WHERE name = ?", (self._id,))

    def take_job(self, record: Record) -> Order | None:
        """The oldest job of the run, if one still waits and the instance still runs in this round."""
        with self._transaction(tells_control=True) as connection:
            row = connection.execute(_TAKE, (self._id, record.run_id, self._id, record.run_id, record.round)).fetchone()
            if row is None:
                return None
            connection.execute("UPDATE registrations SET busy = 1 WHERE name = ?", (self._id,))
        job_id, fence, command = row
        return Order(Job(job_id, fence, record.round, time.monotonic()), _words(command))

    def settle_job(self, job: Job) -> None:
        """Write the job's end, unless it was given to another worker meanwhile: then its fence has moved."""
        with self._transaction(tells_control=True) as connection:
            connection.execute(_SETTLE, (job.exit_code, job.id, job.fence, self._id))
            connection.execute("UPDATE registrations SET busy = 0 WHERE name = ?", (self._id,))

    def close(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    @contextmanager
    def _transaction(self, *, tells_control: bool = False) -> Iterator[sqlite3.Connection]:
        with self._translated():
            with self._turnstile.hold():
                connection = self._connected()
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
            if tells_control:
                wake.broadcast(self._sockets)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, TurnstileTimeout, ValueError) as exc:  # ValueError: a state we do not know
            self.close()  # rolls back; a fresh connection is in no half state
            raise StoreUnreachable(str(exc) or type(exc).__name__) from exc

    def _connected(self) -> sqlite3.Connection:
        found = os.stat(self._path)
        if (found.st_dev, found.st_ino) != self._file:
            # Moved away or replaced: a connection to the old file would go on working, unseen by everybody else.
            self.close()
        if self._connection is None:
            self._connection = connect(self._path)
            self._connection.execute(f"PRAGMA busy_timeout = {int(PATIENCE * 1000)}")
            self._file = found.st_dev, found.st_ino
            self._version = -1
        return self._connection


def _words(command: str) -> tuple[str, ...]:
    """A job's command; empty if what is stored is none, so that the job fails and the agent does not."""
    try:
        words = json.loads(command)
    except ValueError:
        return ()
    return tuple(words) if isinstance(words, list) and all(isinstance(word, str) for word in words) else ()


_LOOK = """
SELECT state, run_id, round, threshold, attested, trust_domain,
       EXISTS (SELECT 1 FROM jobs WHERE jobs.run_id = instances.run_id AND jobs.state = 'queued')
FROM instances WHERE id = ?
"""
_BEAT = """
INSERT INTO heartbeats (instance_id, at, seq) VALUES (?, ?, 1)
ON CONFLICT (instance_id) DO UPDATE SET at = excluded.at, seq = heartbeats.seq + 1
"""
_REPORT = """
INSERT INTO signals (instance_id, kind, run_id, round, seq, text) VALUES (?, ?, ?, ?, 1, ?)
ON CONFLICT (instance_id) DO UPDATE
SET kind = excluded.kind, run_id = excluded.run_id, round = excluded.round, seq = signals.seq + 1, text = excluded.text
"""
# Only while the record is still the one we saw: a late registration would draw another run's jobs to this one's label.
_REGISTER = """
INSERT OR REPLACE INTO registrations (name, label, round, busy)
SELECT id, run_id, round, 0 FROM instances
WHERE id = ? AND run_id = ? AND round = ? AND state IN ('created', 'claimed', 'running')
"""
_TAKE = """
UPDATE jobs SET state = 'running', fence = fence + 1, instance_id = ?
WHERE id = (SELECT id FROM jobs WHERE run_id = ? AND state = 'queued' ORDER BY queued_at, id LIMIT 1)
  AND EXISTS (SELECT 1 FROM instances WHERE id = ? AND state = 'running' AND run_id = ? AND round = ?)
RETURNING id, fence, command
"""
_SETTLE = """
UPDATE jobs SET state = 'finished', exit_code = ?
WHERE id = ? AND fence = ? AND instance_id = ? AND state = 'running'
"""
