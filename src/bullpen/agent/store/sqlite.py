"""The store as an agent on the same machine sees it: SQLite, through the turnstile that all writers share.

The agent reads its own record and writes its signals, its lease, its registration and its jobs.
Whatever keeps the store from answering (locked, full, moved away, broken) is `StoreUnreachable`: the agent lives on and
tries again. Sequence numbers count up from what is stored, so a restarted agent continues where the last one stopped.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from bullpen.agent.config import Config
from bullpen.agent.decide import ABSENT, NoRecord
from bullpen.agent.progress import HeldJob, InstanceRecord, InstanceState, LeaseHolder, SignalKind
from bullpen.agent.store.base import (
    NO_SETS,
    Grant,
    NoCredentials,
    OwnList,
    RunnerCredentials,
    StoreUnreachable,
)
from bullpen.engines.sqlite import notify
from bullpen.engines.sqlite.turnstile import Turnstile, TurnstileTimeout, connect
from bullpen.model.limits import REASON_LENGTH

if TYPE_CHECKING:
    from bullpen.agent.github.token_source import CredentialIssuer
    from bullpen.agent.store.jobs import LocalJobs
    from bullpen.agent.store.lease import Lease

PATIENCE = 1.0
"""Seconds to wait for a turn: the loop that waits also sends the heartbeat."""


class SqliteStore:
    """See `base.AgentStore`. One connection, opened when first needed and again after every failure."""

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
        self._issuer: CredentialIssuer | None = None

    @property
    def jobs(self) -> LocalJobs:
        from bullpen.agent.store.jobs import LocalJobs  # not loaded at the start: see `beat`

        return LocalJobs(self, self._config, self._lease.key if self._lease is not None else "")

    def has_changed(self) -> bool:
        """True if another process has written since the last call: this catches lost wake-ups."""
        with self.translated():
            before = self._version
            (self._version,) = self.connected().execute("PRAGMA data_version").fetchone()
            return self._version != before

    def read_record(self) -> InstanceRecord | NoRecord:
        with self.translated():
            connection = self.connected()
            row = connection.execute(_LOOK, (self._id,)).fetchone()
            if row is None:
                return ABSENT
            state, run_id, round, threshold, attested, trust_domain, repository = row
            can_take = state == InstanceState.RUNNING and self._lease is not None
            has_job = can_take and self.jobs.next_job(connection, run_id, datetime.now(UTC)) is not None
            owned = (InstanceState(state), run_id, round, threshold / 1e6, bool(attested), trust_domain)
            return InstanceRecord(*owned, has_job, repository)

    def beat(self, job: HeldJob | None, leaving: datetime | None = None, activity: str = "") -> Grant:
        # Loaded with the first heartbeat, not at the start: the model costs tens of milliseconds, and a provision waits
        # for the registration, not for a heartbeat.
        from bullpen.agent.store.lease import Lease, bind
        from bullpen.model.worker import Accepted

        self._lease = lease = self._lease or Lease(self._config)
        while True:
            at = datetime.now(UTC)
            with self.transaction() as connection:
                outcome = lease.beat(connection, at, leaving, activity)
                if isinstance(outcome, Accepted) and job is not None:
                    bind(connection, job, LeaseHolder(lease.key, outcome.epoch), at)
            if lease.heard(outcome):
                break
        holder = LeaseHolder(lease.key, lease.epoch)
        if isinstance(outcome, Accepted):
            return Grant(holder, resurrected=outcome.resurrected)
        return Grant(holder, retired=True)

    def stop(self) -> None:
        if self._lease is not None:
            with self.transaction(tells_control=True) as connection:
                self._lease.stop(connection, datetime.now(UTC))

    def report(self, kind: SignalKind, record: InstanceRecord, text: str) -> None:
        with self.transaction(tells_control=True) as connection:
            connection.execute(_REPORT, (self._id, kind.value, record.run_id, record.round, text[:REASON_LENGTH]))

    def register(self, record: InstanceRecord, refused_job: str = "") -> RunnerCredentials | OwnList:
        if record.serves_set:
            raise NoCredentials(NO_SETS)
        if self._config.ci == "github":
            return self._credentials(record)
        with self.transaction() as connection:
            connection.execute(_REGISTER, (self._id, record.run_id, record.round))
        with self.translated():
            found = self.connected().execute("SELECT label, round FROM registrations WHERE name = ?", (self._id,))
            is_listed = found.fetchone() == (record.run_id, record.round)
        return OwnList.LISTED if is_listed else OwnList.MOVED_ON

    def _credentials(self, record: InstanceRecord) -> RunnerCredentials | OwnList:
        from bullpen.agent.github import token_source

        with self.translated():
            found = self.connected().execute(f"SELECT 1 {_OURS}", (self._id, record.run_id, record.round)).fetchone()
        if found is None:
            return OwnList.MOVED_ON
        self._issuer = self._issuer or token_source.CredentialIssuer(self._id)
        return self._issuer.issue(*token_source.read_file(self._config.home), record)

    def deregister(self, runner: str = "") -> None:
        with self.transaction(tells_control=True) as connection:
            connection.execute("DELETE FROM registrations WHERE name = ?", (self._id,))

    def removal_token(self) -> str:
        from bullpen.agent.github import token_source

        return token_source.removal_of(*token_source.read_file(self._config.home))

    def close(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    @contextmanager
    def transaction(self, *, tells_control: bool = False) -> Iterator[sqlite3.Connection]:
        with self.translated():
            with self._turnstile.hold():
                connection = self.connected()
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
            if tells_control:
                notify.broadcast(self._sockets)

    @contextmanager
    def translated(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, TurnstileTimeout, ValueError) as exc:  # ValueError: an unknown state
            self.close()  # rolls back; a fresh connection is in no half state
            raise StoreUnreachable(str(exc) or type(exc).__name__) from exc
        except BaseException:
            self.close()
            raise

    def connected(self) -> sqlite3.Connection:
        found = os.stat(self._path)
        if (found.st_dev, found.st_ino) != self._file:
            # Moved away or replaced: a connection to the old file would go on working, unseen by other processes.
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


_LOOK = """
SELECT state, run_id, round, threshold, attested, trust_domain, repository FROM instances WHERE id = ?
"""
_REPORT = """
INSERT INTO signals (instance_id, kind, run_id, round, seq, text) VALUES (?, ?, ?, ?, 1, ?)
ON CONFLICT (instance_id) DO UPDATE
SET kind = excluded.kind, run_id = excluded.run_id, round = excluded.round, seq = signals.seq + 1, text = excluded.text
"""
# Only while the record is the one that was seen: a late registration would draw another run's jobs to this label.
_OURS = "FROM instances WHERE id = ? AND run_id = ? AND round = ? AND state IN ('created', 'claimed', 'running')"
_REGISTER = f"INSERT OR REPLACE INTO registrations (name, label, round, busy) SELECT id, run_id, round, 0 {_OURS}"
