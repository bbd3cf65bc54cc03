"""A worker that stops normally reports it: it is cleaned up at once, and its jobs go to others without a wait.

    stop        one conditional write: no job can be assigned to it any more, and its jobs are owed to others
    give back   each of its jobs by a write of its own; the worker has reported that none of them runs on
    settle      nothing is owed any more

Killed in between, the debt stands and every sweeper pays it. The same request again does what is left to do: a worker
that lost the answer repeats it.
"""

from collections.abc import Collection, Sequence

from bullpen.config import Settings
from bullpen.errors import Conflict
from bullpen.jobs.queries import policy_of
from bullpen.lazy_dataclass import dataclass
from bullpen.liveness.lost_worker import left_to_runs, settle
from bullpen.model import job_policy
from bullpen.model import worker as workers
from bullpen.model.activity import names_job
from bullpen.model.times import later
from bullpen.model.worker import ABSENT, CLEANED_UP, Code, Rejected, Worker
from bullpen.ports import Ports

JOBS = 500  # read at a time
WORKERS = 1000  # read at a time
ROUNDS = 100  # of such portions; what is left then is paid by sweepers


@dataclass(frozen=True, slots=True)
class StoppedWorker:
    worker: Worker
    given_back: tuple[str, ...]  # jobs


async def close_workers(ports: Ports, settings: Settings, ended: Collection[str], *, by: str) -> None:
    """Clean up the workers of instances that have certainly ended, by the ids of these: their agents were killed, and
    report nothing. One that ran a job of another CI is left to its lease, as if its agent had stopped by itself."""
    if not ended:
        return
    after = ""
    while page := await ports.workers.listed(WORKERS, after):
        after = page[-1].id
        await close([one for one in page if one.instance_id in ended], ports, settings, by=by)


async def close(some: Sequence[Worker], ports: Ports, settings: Settings, *, by: str) -> None:
    """The same for these workers."""
    for one in some:
        if not names_job(one.activity):
            why = "its instance has ended"
            await stop_worker(ports, settings, one.id, token=one.token, epoch=one.epoch, by=by, why=why)


async def stop_worker(
    ports: Ports,
    settings: Settings,
    key: str,
    *,
    token: int,
    epoch: int,
    by: str = "",
    why: str = "it has stopped",
) -> StoppedWorker | Rejected:
    """Clean up a worker that says, with its last token and epoch, that it has stopped; give its jobs to others."""
    found = (await ports.workers.workers([key])).get(key)
    while found is not None and found.state is not CLEANED_UP:
        if (found.token, found.epoch) != (token, epoch):
            return Rejected(Code.MISMATCH, found.state, found.token)
        now = ports.clock.now()
        purge_at = later(now, settings.liveness.tombstone)
        event = workers.Stopped(at=now, by=by or key, why=why, token=token, epoch=epoch, purge_at=purge_at)
        (landed,) = await ports.records.apply_each([workers.stop(found, event)])
        found = landed.found if isinstance(landed, Conflict) else landed
    if found is None:
        return Rejected(Code.UNKNOWN, ABSENT, 0)
    if (found.token, found.epoch) != (token, epoch):
        return Rejected(Code.CLEANED_UP, found.state, found.token)
    return await _give_back(ports, settings, found)


async def _give_back(ports: Ports, settings: Settings, worker: Worker) -> StoppedWorker:
    given: dict[str, None] = {}
    if not worker.owes_reschedule or await left_to_runs(ports, settings, [worker]):
        return StoppedWorker(worker, ())  # nothing is owed, or the controllers pay it
    for _ in range(ROUNDS):
        held = await ports.jobs.held(worker.id, worker.lost_epoch, JOBS)
        if not held:
            await settle(ports, worker, "it has no jobs any more", by=worker.id)
            break
        event = {"by": worker.id, "why": "its worker has stopped"}
        policy, now = policy_of(settings), ports.clock.now()
        landed = await ports.records.apply_each([job_policy.give_back(job, policy, now, **event) for job in held])
        given |= dict.fromkeys(job.id for job in landed if not isinstance(job, Conflict))
        if all(isinstance(one, Conflict) and one.found is None for one in landed):
            break  # they cannot be written now: the debt stands
    found = (await ports.workers.workers([worker.id])).get(worker.id, worker)
    return StoppedWorker(found, tuple(given))
