"""Heartbeats on their way into the database: a statement renews the leases of many workers.

Those who call with one beat at a time pay a savepoint, a future and a wake-up of the loop for each; the beat itself
costs less than those. `serve` therefore groups the beats of its connections (`server.heartbeat_batcher`).
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import lru_cache, partial
from itertools import chain
from typing import Any

from bullpen.engines.sqlite.database import Database
from bullpen.engines.sqlite.rows import WORKERS, Row
from bullpen.engines.sqlite.writer import Transaction
from bullpen.engines.sqlite.writes import PreparedChange, land_each, select_by_id
from bullpen.model import worker as workers
from bullpen.model.times import to_micros
from bullpen.model.transition import Change
from bullpen.model.worker import Accepted, Beat, Rejected

PART = 100
"""Beats in one function: it must be short, for the commit and every other process wait for it."""

SIZES = (1, 10, PART)
"""Rows of the statements that take beats: few texts, so that each stays prepared."""

FORGOTTEN = "SELECT epoch FROM forgotten_workers WHERE id = 1"

_NO_BEAT = ("", 0.0, 0, 0, None, 0, "", "", "")
"""Fills up the rows of a statement: no worker has no key."""


@lru_cache(maxsize=len(SIZES))
def beat_statement(size: int) -> str:
    """As `model.worker.heartbeat` says, for beats that are neither replays nor from another place than the last one,
    and of workers that are not leaving.

    One statement for many: each call into SQLite lets go of the interpreter, and to have it back from a busy event loop
    takes longer than the beat.
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
        RETURNING id, epoch
    """


async def receive(database: Database, beats: Sequence[tuple[str, Beat]]) -> list[Accepted | Rejected]:
    """Write beats, in parts that share a commit where they can; answers in order."""
    parts = [beats[at : at + PART] for at in range(0, len(beats), PART)]
    answers = await asyncio.gather(*(database.submit(partial(_receive_part, beats=part)) for part in parts))
    return answers[0] if len(answers) == 1 else [*chain.from_iterable(answers)]


def _receive_part(transaction: Transaction, beats: Sequence[tuple[str, Beat]]) -> list[Accepted | Rejected]:
    first: dict[str, Beat] = {}
    for key, beat in beats:
        first.setdefault(key, beat)  # a second one of the same key meets what the first has left
    epochs = _renew(transaction, {key: beat for key, beat in first.items() if beat.leaving is None})
    answers: list[Accepted | Rejected] = []
    for key, beat in beats:
        if (epoch := epochs.pop(key, None)) is None:
            answers.append(_receive_by_the_model(transaction, key, beat))
        else:
            answers.append(Accepted(epoch, beat.token + 1, beat.lease))
    return answers


def _renew(transaction: Transaction, beats: Mapping[str, Beat]) -> dict[str, int]:
    """Renew the leases of plain beats; returns the epochs of their workers."""
    size = next(size for size in SIZES if size >= len(beats))
    parameters: list[Any] = []
    times: dict[tuple[int, float], tuple[int, int]] = {}  # one time and few leases in one call
    for key, beat in beats.items():
        which = id(beat.at), beat.lease
        at, deadline = times.get(which) or times.setdefault(which, _times(beat))
        parameters += (beat.request_id, beat.lease, deadline, at, key, beat.token)
        parameters += (beat.instance_id, beat.domain, beat.activity)
    parameters += _NO_BEAT * (size - len(beats))
    return dict(transaction.execute(beat_statement(size), parameters).fetchall())


def _times(beat: Beat) -> tuple[int, int]:
    """The time of the beat and its deadline, in microseconds."""
    return to_micros(beat.at), to_micros(beat.at + timedelta(seconds=beat.lease))


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
        raise landed  # no other process writes within this transaction: a bug
    return Accepted.of(WORKERS.decode(landed), resurrected=outcome.step == workers.resurrect.step)
