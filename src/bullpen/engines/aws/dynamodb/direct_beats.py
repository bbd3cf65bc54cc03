"""Workers that beat by themselves: agents that write their heartbeat into the table, without `bullpen serve`.

Such an agent writes a number that it counts up (`seq`, the worker's token) and the length of its lease. It sets no
deadline, for its clock is another one: a sweeper accepts the beat when it first sees the number, by its own clock.
The number is then the worker's request id as well, by which every process knows that it has been seen.
"""

from dataclasses import replace
from datetime import datetime

from bullpen.model import worker as workers
from bullpen.model.signal import DIRECT_LEASE, direct_key
from bullpen.model.transition import Change
from bullpen.model.worker import Beat, Worker

BY = "sweeper"

SHORTEST, LONGEST = 5.0, 3600.0
"""Seconds of a lease that an agent may give itself, as `liveness.min-lease` and `liveness.max-lease` are unless set: a
shorter one is lost between two beats, and a longer one hides a dead machine for hours."""


def is_direct(worker_id: str) -> bool:
    return worker_id == direct_key(worker_id.partition("/")[0])


def is_unseen(worker: Worker) -> bool:
    """True if no sweeper has accepted its last beat: its deadline says nothing yet."""
    return is_direct(worker.id) and worker.request_id != str(worker.token)


def accept(worker: Worker, now: datetime, forgotten_epoch: int = 0) -> Change[Worker] | None:
    """What an unseen beat does to its worker: the lease begins now, and the timer is set to its end. None: the beat
    does not count any more.

    The agent counts its beats, and reports when it sent them and which job it runs. A worker whose beat is accepted for
    the first time begins in the epoch after all forgotten ones: the machine may have slept since the tombstone of the
    worker was removed.
    """
    lease = min(max(worker.lease, SHORTEST), LONGEST) if worker.lease > 0 else DIRECT_LEASE
    number, activity = worker.token, worker.activity
    beat = Beat(at=now, by=BY, token=number, lease=lease, request_id=str(number), activity=activity)
    outcome = workers.receive(worker, worker.id, beat)
    if not isinstance(outcome, Change):
        return None
    after = outcome.after
    if worker.version == 0:
        after = replace(after, epoch=forgotten_epoch + 1)
    return replace(outcome, after=replace(after, token=number, beat_at=worker.beat_at, due_at=after.deadline))
