"""Settling: the debt of a lost epoch is paid, and the worker's record says so."""

from bullpen.errors import Conflict
from bullpen.model import worker as workers
from bullpen.model.worker import ACTIVE, CLEANED_UP, INACTIVE, Worker
from bullpen.ports import Ports

TRIES = 3  # a worker that came back beats while we settle its old epoch

_STEPS = {
    ACTIVE: workers.settle_active,
    INACTIVE: workers.settle_inactive,
    CLEANED_UP: workers.settle_cleaned_up,
}


async def settle(ports: Ports, worker: Worker, why: str, *, by: str) -> bool:
    """Record that nothing of the lost epoch, as seen, is owed any more; True if this call wrote it."""
    epoch = worker.lost_epoch
    found: Worker | None = worker
    for _ in range(TRIES):
        if found is None or found.settled_epoch >= epoch:
            return False
        paid = workers.Rescheduled(at=ports.clock.now(), by=by, why=why, epoch=epoch)
        (landed,) = await ports.records.apply_each([_STEPS[found.state](found, paid)])
        if not isinstance(landed, Conflict):
            return True
        found = landed.found
    return False
