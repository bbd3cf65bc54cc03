"""The store as an agent on the same machine sees it: SQLite, through the turnstile that all writers share.

The agent reads its own record and writes its signals, its lease, its registration and its jobs.
Whatever keeps the store from answering (locked, full, moved away, broken) is `StoreUnreachable`: the agent lives on and
tries again. Sequence numbers count up from what is stored, so a restarted agent continues where the last one stopped.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from bullpen.agent.config import Config
from bullpen.agent.decide import ABSENT, NoRecord
from bullpen.agent.progress import End, Holder, Job, Kind, Record, State
from bullpen.engines.sqlite import notify
from bullpen.engines.sqlite.turnstile import Turnstile, TurnstileTimeout, connect

if TYPE_CHECKING:
    from bullpen.agent.github.registration_token import Pass
    from bullpen.agent.github.token_source import Passes
    from bullpen.agent.store.lease import Lease

PATIENCE = 1.0
"""Seconds to wait for a turn: the loop that waits also sends the heartbeat."""


TEXT_LIMIT = 2000
"""Characters of a signal's text: the control plane shows them to people."""


class StoreUnreachable(Exception):
    """The store did not answer; nothing is known, and nothing was written."""


@dataclass(frozen=True, slots=True)
class Order:
    """A job taken, the command it runs, and its number among its like."""

    job: Job
    command: tuple[str, ...]
    index: int = 0


@dataclass(frozen=True, slots=True)
class Grant:
    """The answer to a beat: who we are from now on. `retired`: our instance is being ended, and we with it.
    `next_in` is when the next beat is expected, in seconds; 0: as often as we are configured."""

    holder: Holder
    resurrected: bool = False
    retired: bool = False
    next_in: float = 0.0


class Sink(Protocol):
    """Where a job's output goes. What it cannot take is lost, never an error."""

    def write(self, content: bytes) -> None: ...

    def close(self) -> None: ...


class Link:
    """One connection, made when first needed and again after every failure."""

    gives_jobs = True  # False: no job is ever waiting here, and those methods are not called

    def __init__(self, config: Config) -> None:
        self._config = config
        self._id = config.instance_id
        self._path = config.home / "bullpen.db"
        self._sockets = notify.socket_directory(config.home)
        self._turnstile = Turnstile(config.home, PATIENCE)
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._version = -1
        self._lease: Lease | None = None
        self._passes: Passes | None = None

    def has_changed(self) -> bool:
        """True if anybody else has written since the last call: the net under the wake-ups."""
        with self._translated():
            (version,) = self._connected().execute("PRAGMA data_version").fetchone()
            changed = bool(version != self._version)
            self._version = version
            return changed

    def look(self) -> Record | NoRecord:
        with self._translated():
            connection = self._connected()
            row = connection.execute(_LOOK, (self._id,)).fetchone()
            if row is None:
                return ABSENT
            state, run_id, round, threshold, attested, trust_domain, repository = row
            has_job = state == State.RUNNING and self._lease is not None and self._has_job(connection, run_id)
            owned = (State(state), run_id, round, threshold / 1e6, bool(attested), trust_domain)
            return Record(*owned, has_job, repository)

    def _has_job(self, connection: sqlite3.Connection, run_id: str) -> bool:
        from bullpen.agent.store import jobs

        assert self._lease is not None, "nobody takes a job before its first beat"
        return jobs.next_job(connection, self._config, self._lease.key, run_id, _now()) is not None

    def beat(self, job: Job | None, leaving: datetime | None = None, activity: str = "") -> Grant:
        """Renew the lease and say in the same write which job runs here, and when the machine will be taken from us.

        `activity` is a job of a CI that has jobs of its own; a beat without one says that none runs.
        """
        # Loaded with the first beat, not at the start: the model costs tens of milliseconds, and whoever provisions us
        # waits for our registration, not for our pulse.
        from bullpen.agent.store.lease import Lease, bind
        from bullpen.model.worker import Accepted

        self._lease = lease = self._lease or Lease(self._config)
        while True:
            at = _now()
            with self._transaction() as connection:
                outcome = lease.beat(connection, at, leaving, activity)
                if isinstance(outcome, Accepted) and job is not None:
                    bind(connection, job, outcome.worker, at)
            if lease.heard(outcome):
                break
        holder = Holder(lease.key, lease.epoch)
        if isinstance(outcome, Accepted):
            return Grant(holder, resurrected=outcome.resurrected)
        return Grant(holder, retired=True)

    def stop(self) -> None:
        """Say that our worker has stopped, if it ever beat: its record is cleaned up now, not when its lease is out."""
        if self._lease is not None:
            with self._transaction(tells_control=True) as connection:
                self._lease.stop(connection, _now())

    def standing(self, job: Job) -> End | None:
        """Why the job must end, as the store has it; None if it may go on."""
        from bullpen.agent.store import jobs

        with self._translated():
            return jobs.standing(self._connected(), job)

    def report(self, kind: Kind, record: Record, text: str) -> None:
        """A signal of this record's round; control is woken. It proves life as a beat does."""
        with self._transaction(tells_control=True) as connection:
            connection.execute(_REPORT, (self._id, kind.value, record.run_id, record.round, text[:TEXT_LIMIT]))

    def register(self, record: Record) -> Pass | bool:
        """Appear under the label of the record's run, and see that it is so; or be given what it takes to do so at the
        CI. False: the record has moved on. Raise NoPass, which says why, if there is nothing to be given."""
        if self._config.ci == "github":
            return self._pass(record)
        with self._transaction() as connection:
            connection.execute(_REGISTER, (self._id, record.run_id, record.round))
        with self._translated():
            found = self._connected().execute("SELECT label, round FROM registrations WHERE name = ?", (self._id,))
            return bool(found.fetchone() == (record.run_id, record.round))

    def _pass(self, record: Record) -> Pass | bool:
        from bullpen.agent.github import token_source

        with self._translated():
            found = self._connected().execute(_IS_OURS, (self._id, record.run_id, record.round)).fetchone()
        if found is None:
            return False
        self._passes = self._passes or token_source.Passes(self._id)
        return self._passes.make(*token_source.read_file(self._config.home), record)

    def deregister(self, runner: str = "") -> None:
        """Leave the list of our own CI. Another one, which knows us as `runner`, is told by whoever holds its
        credentials: `bullpen serve`, and no link that uses the store."""
        with self._transaction(tells_control=True) as connection:
            connection.execute("DELETE FROM registrations WHERE name = ?", (self._id,))

    def removal(self) -> str:
        """A token that removes a registration at another CI now, where agents do that themselves. Raise NoPass."""
        from bullpen.agent.github import token_source

        return token_source.removal_of(*token_source.read_file(self._config.home))

    def take_job(self, record: Record) -> Order | None:
        """The next job of the run that suits us, while our lease holds and the instance still runs in this round."""
        from bullpen.agent.store import jobs

        assert self._lease is not None, "nobody takes a job before its first beat"
        with self._transaction(tells_control=True) as connection:
            taken = jobs.take(connection, self._config, self._lease.key, record.run_id, record.round, _now())
            if taken is None:
                return None
            connection.execute("UPDATE registrations SET busy = 1 WHERE name = ?", (self._id,))
        holder = Holder(taken.worker, taken.epoch)
        job = Job(taken.id, taken.fence, record.round, time.monotonic(), holder, taken.timeout)
        return Order(job, taken.command, taken.index)

    def settle_job(self, job: Job) -> bool:
        """Write the job's end. False if it was refused: it belongs to another worker, or to another epoch of ours."""
        from bullpen.agent.store import jobs

        with self._transaction(tells_control=True) as connection:
            accepted = job.end is not End.LOST and jobs.finish(connection, self._config, job, _now())
            connection.execute("UPDATE registrations SET busy = 0 WHERE name = ?", (self._id,))
        return accepted

    def give_back_job(self, job: Job, why: str) -> None:
        """We leave and its processes are gone: another worker may have it at once."""
        from bullpen.agent.store import jobs

        with self._transaction(tells_control=True) as connection:
            jobs.give_back(connection, self._config, job, why, _now())

    def open_log(self, job: Job) -> Sink:
        """Where the output of this assignment goes. Raise OSError."""
        logs = self._config.home / "jobs"
        logs.mkdir(mode=0o700, exist_ok=True)
        return LogFile(logs / f"{job.id}.{job.fence}.log")

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
                notify.broadcast(self._sockets)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, TurnstileTimeout, ValueError) as exc:  # ValueError: a state we do not know
            self.close()  # rolls back; a fresh connection is in no half state
            raise StoreUnreachable(str(exc) or type(exc).__name__) from exc
        except BaseException:
            self.close()
            raise

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


class LogFile:
    """A log beside the store, where the control plane reads it."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115 - closed with the output, long after this block

    def write(self, content: bytes) -> None:
        with suppress(OSError):  # a full disk costs the log, not the job
            self._file.write(content)

    def close(self) -> None:
        self._file.close()


def _now() -> datetime:
    return datetime.now(UTC)


_LOOK = """
SELECT state, run_id, round, threshold, attested, trust_domain, repository FROM instances WHERE id = ?
"""
_REPORT = """
INSERT INTO signals (instance_id, kind, run_id, round, seq, text) VALUES (?, ?, ?, ?, 1, ?)
ON CONFLICT (instance_id) DO UPDATE
SET kind = excluded.kind, run_id = excluded.run_id, round = excluded.round, seq = signals.seq + 1, text = excluded.text
"""
# Only while the record is still the one we saw: a late registration would draw another run's jobs to this one's label.
_OURS = "FROM instances WHERE id = ? AND run_id = ? AND round = ? AND state IN ('created', 'claimed', 'running')"
_REGISTER = f"INSERT OR REPLACE INTO registrations (name, label, round, busy) SELECT id, run_id, round, 0 {_OURS}"
_IS_OURS = f"SELECT 1 {_OURS}"
