"""The agent's own worker record: the lease that says it is alive, renewed by every beat.

The store and the agent share one machine, so its clock is the store's, and the deadline that a beat writes is the one
that sweepers go by. Everything else is the common model: a first beat registers the key, the last token renews it, and
after a loss it brings the worker back in a new epoch.
"""

from __future__ import annotations

import json
import os
import sqlite3
from dataclasses import asdict
from datetime import datetime, timedelta

from bullpen import __version__
from bullpen.agent.build import build_id
from bullpen.agent.config import Config
from bullpen.agent.progress import HeldJob, LeaseHolder
from bullpen.agent.store.rows import JOBS, WORKERS
from bullpen.errors import Conflict, InvalidTransition
from bullpen.model import job as jobs
from bullpen.model import worker as workers
from bullpen.model.transition import Change
from bullpen.model.worker import Accepted, Code, Rejected

_FORGOTTEN = "SELECT epoch FROM forgotten_workers WHERE id = 1"
_HOLDS = "SELECT 1 FROM jobs WHERE worker = ? AND state = 'running' LIMIT 1"


class Lease:
    """The agent's own worker record. `beat` writes, in the caller's transaction; `heard` notes that it stands."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._host = os.uname().nodename
        self._build = build_id()  # here, and not while the store is locked
        self._take_new_key()

    def _take_new_key(self) -> None:
        self.key = f"{self._config.instance_id}/{os.urandom(4).hex()}"
        self.epoch = 0
        self._token = 0
        self._request = os.urandom(8).hex()

    def beat(
        self, connection: sqlite3.Connection, at: datetime, leaving: datetime | None, activity: str
    ) -> Accepted | Rejected:
        beat = workers.Beat(
            at=at,
            by=self._config.instance_id,
            token=self._token,
            lease=self._config.lease,
            request_id=self._request,
            instance_id=self._config.instance_id,
            domain=self._config.domain or self._host,
            leaving=leaving,
            activity=activity,
        )
        stored = WORKERS.read(connection, self.key)
        forgotten = connection.execute(_FORGOTTEN).fetchone()[0] if stored is None else 0
        outcome = workers.receive(stored, self.key, beat, forgotten)
        if not isinstance(outcome, Change):
            return outcome
        if self.epoch == 0:
            card = workers.Card(
                self._config.capabilities, self._build, self._host, os.getpid(), __version__, (workers.HANDLES_FILES,)
            )
            values = (self.key, json.dumps(asdict(card)))
            connection.execute("REPLACE INTO cards (worker, card) VALUES (?, ?)", values)
        return Accepted.of(WORKERS.land(connection, outcome), resurrected=outcome.step == workers.resurrect.step)

    def stop(self, connection: sqlite3.Connection, at: datetime) -> None:
        """Report that this worker has stopped, without waiting for its lease. Jobs that it holds are owed to others."""
        stored = WORKERS.read(connection, self.key)
        token, epoch, why = self._token, self.epoch, "it has stopped"
        if stored is None or stored.state is workers.CLEANED_UP or (stored.token, stored.epoch) != (token, epoch):
            return
        purge_at = at + timedelta(seconds=self._config.purge)
        said = workers.Stopped(at=at, by=self.key, why=why, token=token, epoch=epoch, purge_at=purge_at)
        stopped = WORKERS.land(connection, workers.stop(stored, said))
        if not self._config.ci and not connection.execute(_HOLDS, (self.key,)).fetchone():
            # GitHub may have given this runner a job unknown to the agent: the controller of its runs settles that.
            settled = workers.Rescheduled(at=at, by=self.key, why="it has no jobs any more", epoch=stopped.lost_epoch)
            WORKERS.land(connection, workers.settle_cleaned_up(stopped, settled))

    def heard(self, outcome: Accepted | Rejected) -> bool:
        """Note the answer; False if it says to try again, with another token or as another worker."""
        if isinstance(outcome, Accepted):
            self.epoch, self._token = outcome.epoch, outcome.token
            # A new one only now: until it is answered, the same beat again must not count twice.
            self._request = os.urandom(8).hex()
            return True
        if outcome.code is Code.MISMATCH:
            self._token = outcome.token
        elif outcome.code is not Code.RETIRED:
            self._take_new_key()
        return outcome.code is Code.RETIRED


def bind(connection: sqlite3.Connection, held: HeldJob, holder: LeaseHolder, at: datetime) -> None:
    """Record that this worker runs the job, unless that is recorded or the job is not its own any more."""
    stored = JOBS.read(connection, held.id)
    if stored is None or stored.bound or held.holder.epoch != holder.epoch:
        return
    event = jobs.Holder(at=at, by=holder.worker, worker=held.holder.worker, epoch=held.holder.epoch, fence=held.fence)
    try:
        change = jobs.bind(stored, event)
    except (Conflict, InvalidTransition):
        return
    JOBS.land(connection, change)
