"""Heartbeats on their way into the database: many calls, one write.

    beat()  beat()  beat()          … all that arrive before the writer's thread comes to it
       └──────┴──────┴──▶ Group ──▶ one function in the next commit ──▶ each call takes its part of the answer

A call for its own would cost a savepoint, a future and a wake-up of the loop; a beat itself costs less than those.
"""

import asyncio
import threading
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import lru_cache
from typing import Any

from bullpen.engines.sqlite.database import Database
from bullpen.engines.sqlite.rows import MICROSECOND, WORKERS, Row, from_micros, to_micros
from bullpen.engines.sqlite.writer import Transaction
from bullpen.engines.sqlite.writes import PreparedChange, land_each, select_by_id
from bullpen.model import worker as workers
from bullpen.model.transition import Change
from bullpen.model.worker import Accepted, Beat, Rejected, Worker

GROUP_LIMIT = 100
"""Beats in one function: it must be short, for the commit and every other process wait for it."""

SIZES = (1, 10, GROUP_LIMIT)
"""Rows of the statements that take beats: few texts, so that each stays prepared."""

FORGOTTEN = "SELECT epoch FROM forgotten_workers WHERE id = 1"

_NOBODY = ("", 0.0, 0, 0, None, 0, "", "", "")
"""Fills up the rows of a statement: no worker has no key."""


@lru_cache(maxsize=len(SIZES))
def beat_statement(size: int) -> str:
    """As `model.worker.heartbeat` says, for beats that are neither replays nor from another place than the last one,
    and of workers that are not leaving.

    One statement for many: each call into SQLite lets go of the interpreter, and to have it back from a busy event loop
    takes longer than the beat. It answers with what a beat does not say by itself.
    """
    return f"""
        WITH beat (request_id, lease, deadline, at, worker, token, instance_id, domain, activity)
        AS (VALUES {", ".join(["(?, ?, ?, ?, ?, ?, ?, ?, ?)"] * size)})
        UPDATE workers
        SET version = version + 1, token = workers.token + 1, request_id = beat.request_id, lease = beat.lease,
            deadline = beat.deadline, due_at = min(due_at, beat.deadline), beat_at = beat.at,
            activity = beat.activity
        FROM beat
        WHERE id = beat.worker AND workers.token = beat.token AND state = 'active' AND leaving IS NULL
            AND (workers.request_id <> beat.request_id OR beat.request_id = '')
            AND beat.instance_id IN ('', workers.instance_id) AND beat.domain IN ('', workers.domain)
        RETURNING id, version, instance_id, domain, epoch, due_at, lost_epoch, settled_epoch
    """


class Beats:
    """What the callers of one process share."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._open: _Group | None = None  # still waiting for the writer's thread

    async def receive(self, beats: Sequence[tuple[str, Beat]]) -> list[Accepted | Rejected]:
        parts = [beats[at : at + GROUP_LIMIT] for at in range(0, len(beats), GROUP_LIMIT)]
        joined = [self._join(part) for part in parts]
        answers: list[Accepted | Rejected] = []
        for (group, start), part in zip(joined, parts, strict=True):
            # Shielded: a caller that is cancelled does not take the beats of the others with it.
            answer = await asyncio.shield(group.outcome)
            answers += answer[start : start + len(part)]
        return answers

    def _join(self, beats: Sequence[tuple[str, Beat]]) -> tuple["_Group", int]:
        """A group that takes these beats, and where they begin in it."""
        loop = asyncio.get_running_loop()
        with self._lock:
            group = self._open
            if group is not None and len(group.beats) + len(beats) <= GROUP_LIMIT and group.outcome.get_loop() is loop:
                group.beats += beats
                return group, len(group.beats) - len(beats)
            group = self._open = _Group(beats)
            group.outcome = self._database.submit(lambda transaction: self._land(group, transaction))
            return group, 0

    def _land(self, group: "_Group", transaction: Transaction) -> list[Accepted | Rejected]:
        with self._lock:  # from here on the group is complete
            if self._open is group:
                self._open = None
        return _receive_all(transaction, group.beats)


class _Group:
    """Beats of one commit, and the future of their answers, in order."""

    outcome: asyncio.Future[list[Accepted | Rejected]]

    def __init__(self, beats: Sequence[tuple[str, Beat]]) -> None:
        self.beats = list(beats)


def _receive_all(transaction: Transaction, beats: Sequence[tuple[str, Beat]]) -> list[Accepted | Rejected]:
    first: dict[str, Beat] = {}
    for key, beat in beats:
        if beat.leaving is None:
            first.setdefault(key, beat)  # a second one of the same key meets what the first has left
    renewed = _renew(transaction, first)
    answers: list[Accepted | Rejected] = []
    for key, beat in beats:
        worker = renewed.pop(key, None)
        answers.append(Accepted(worker) if worker is not None else _receive_by_the_model(transaction, key, beat))
    return answers


def _renew(transaction: Transaction, beats: Mapping[str, Beat]) -> dict[str, Worker]:
    """The leases that a plain beat renews."""
    size = next(size for size in SIZES if size >= len(beats))
    parameters: list[Any] = []
    for key, beat in beats.items():
        at = to_micros(beat.at)
        deadline = at + timedelta(seconds=beat.lease) // MICROSECOND
        parameters += (beat.request_id, beat.lease, deadline, at, key, beat.token)
        parameters += (beat.instance_id, beat.domain, beat.activity)
    parameters += _NOBODY * (size - len(beats))
    rows = transaction.execute(beat_statement(size), parameters).fetchall()
    return {row[0]: _renewed(beats[row[0]], *row) for row in rows}


def _renewed(
    beat: Beat,
    key: str,
    version: int,
    instance_id: str,
    domain: str,
    epoch: int,
    due_at: int,
    lost_epoch: int,
    settled_epoch: int,
) -> Worker:
    return Worker(
        id=key,
        state=workers.ACTIVE,
        version=version,
        instance_id=instance_id,
        domain=domain,
        epoch=epoch,
        token=beat.token + 1,
        request_id=beat.request_id,
        lease=beat.lease,
        deadline=beat.at + timedelta(seconds=beat.lease),
        due_at=from_micros(due_at),
        lost_epoch=lost_epoch,
        settled_epoch=settled_epoch,
        beat_at=beat.at,
        activity=beat.activity,
    )


def forgotten_epoch(transaction: Transaction) -> int:
    """The highest epoch of all workers that were purged."""
    (epoch,) = transaction.execute(FORGOTTEN).fetchone()
    return int(epoch)


def _receive_by_the_model(transaction: Transaction, key: str, beat: Beat) -> Accepted | Rejected:
    row: Row | None = transaction.execute(select_by_id(WORKERS), (key,)).fetchone()
    stored = None if row is None else WORKERS.decode(row)
    outcome = workers.receive(stored, key, beat, forgotten_epoch(transaction) if stored is None else 0)
    if not isinstance(outcome, Change):
        return outcome
    (landed,) = land_each(transaction, [PreparedChange.of(outcome)])
    if isinstance(landed, Exception):
        raise landed  # nobody else writes within this transaction: a fault of the program
    return Accepted(WORKERS.decode(landed), resurrected=outcome.step == workers.resurrect.step)
