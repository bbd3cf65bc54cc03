"""Planted bugs: each of them breaks a promise, and a look at the records says so. Without them nothing is broken."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime

import pytest

from bullpen.engines.memory.workers import MemoryWorkers
from bullpen.liveness import protection
from bullpen.model import job as jobs
from bullpen.model import worker as workers
from bullpen.model.job import QUEUED, RUNNING, Job
from bullpen.model.transition import Guard, transition
from bullpen.model.worker import ACTIVE, INACTIVE, Worker, WorkerFate
from liveness.fixtures import REFUSED, Crew, passes

Plant = Callable[[pytest.MonkeyPatch], None]
History = Callable[[], Awaitable[list[str]]]


# ---- histories: what they find broken


async def a_late_result() -> list[str]:
    """A worker is given up, its job runs elsewhere, and then its result arrives."""
    crew = Crew()
    await crew.beats()
    await crew.beats("other")
    old = await crew.works()
    await crew.loses("w")
    await passes(crew.liveness(), 2)
    await crew.assigns("j", "other")
    try:
        await crew.finishes(old, result="failed")
    except REFUSED:
        return []
    return ["the late result of a lost worker counted"]


async def a_late_return() -> list[str]:
    """A worker comes back before its jobs were moved, and gets new ones."""
    crew = Crew()
    await crew.beats()
    old = await crew.works()
    await crew.loses("w")
    answer = await crew.answered(running=(old,))
    await crew.works("new")
    await passes(crew.liveness(), 2)
    broken = [] if answer.stop == ("j",) else ["the answer does not name its old job"]
    return broken + ([] if crew.job("new").worker == "w" else ["its new job was taken from it"])


async def a_renewed_lease() -> list[str]:
    """A lease is renewed for longer; its timer still stands at the old deadline."""
    crew = Crew()
    liveness = crew.liveness()
    await crew.beats(lease=15)
    await crew.beats(lease=120)
    await passes(liveness, 110)
    return [] if crew.worker().state is ACTIVE else ["a worker with a lease was given up"]


async def a_shortened_lease() -> list[str]:
    """A lease is cut short, and then its worker dies."""
    crew = Crew()
    liveness = crew.liveness()
    await crew.beats(lease=3600)
    await crew.beats(lease=15)
    await passes(liveness, 30)
    return [] if crew.worker().state is INACTIVE else ["a dead worker was not noticed"]


async def a_worker_that_wants_its_job_back() -> list[str]:
    """A worker loses its job, comes back first of all, and asks for work."""
    crew = Crew()
    await crew.beats()
    await crew.works()
    await crew.loses("w")
    await passes(crew.liveness(), 3)
    await crew.beats()
    try:
        await crew.assigns("j", "w")
    except AssertionError:
        return []
    return ["the job went back to the worker that lost it"]


# ---- the bugs


def no_fence(patch: pytest.MonkeyPatch) -> None:
    right = jobs.assign.body

    @transition(QUEUED, to=RUNNING)
    def assign(job: Job, event: jobs.Assigned) -> jobs.Step:
        return replace(right(job, event)[0], fence=1), ()

    patch.setattr(jobs, "assign", assign)
    patch.setattr(jobs, "_held_by", lambda event: (Guard("fence", "is", event.fence),))


def no_epoch_bump(patch: pytest.MonkeyPatch) -> None:
    @transition(INACTIVE, to=ACTIVE)
    def resurrect(worker: Worker, event: workers.Beat) -> workers.Step:
        return replace(workers._renewed(worker, event, epoch=worker.epoch), cleanup_at=None, fate=WorkerFate.KEEP), ()

    patch.setattr(workers, "resurrect", resurrect)


def expiry_without_recheck(patch: pytest.MonkeyPatch) -> None:
    async def due_timers(self: MemoryWorkers, now: datetime, limit: int) -> list[Worker]:
        return [
            one for one in self._tables.workers.values() if one.state is ACTIVE and one.due_at and one.due_at <= now
        ]

    async def no_rearm(self: MemoryWorkers, now: datetime, limit: int) -> int:
        return 0

    @transition(ACTIVE, to=INACTIVE)
    def lose_lease(worker: Worker, event: workers.LeaseExpired) -> workers.Step:
        after = replace(worker, deadline=None, cleanup_at=event.cleanup_at, due_at=event.cleanup_at)
        return replace(after, lost_epoch=worker.epoch), ()

    patch.setattr(MemoryWorkers, "suspects", due_timers)
    patch.setattr(MemoryWorkers, "rearm", no_rearm)
    patch.setattr(protection, "is_past_due", lambda *_: True)
    patch.setattr(workers, "lose_lease", lose_lease)


def timer_not_pulled_earlier(patch: pytest.MonkeyPatch) -> None:
    right = workers._renewed

    def renewed(worker: Worker, event: workers.Beat, *, epoch: int) -> Worker:
        return replace(right(worker, event, epoch=epoch), due_at=worker.due_at or right(worker, event, epoch=1).due_at)

    patch.setattr(workers, "_renewed", renewed)


def completion_by_job_id_alone(patch: pytest.MonkeyPatch) -> None:
    @transition(RUNNING, to=jobs.FINISHED)
    def finish(job: Job, event: jobs.Ran) -> jobs.Step:
        return replace(job, result=event.result, finished_at=event.at, purge_at=event.purge_at), ()

    patch.setattr(jobs, "finish", finish)


def reschedule_to_the_same_worker(patch: pytest.MonkeyPatch) -> None:
    right = jobs.reschedule.body

    @transition(RUNNING, to=QUEUED)
    def reschedule(job: Job, event: jobs.Lost) -> jobs.Step:
        after, guards = right(job, event)
        return replace(after, avoid=""), guards

    patch.setattr(jobs, "reschedule", reschedule)


PLANTED: Sequence[tuple[Plant, History]] = [
    (no_fence, a_late_result),
    (no_epoch_bump, a_late_return),
    (expiry_without_recheck, a_renewed_lease),
    (timer_not_pulled_earlier, a_shortened_lease),
    (completion_by_job_id_alone, a_late_result),
    (reschedule_to_the_same_worker, a_worker_that_wants_its_job_back),
]


@pytest.mark.parametrize(("plant", "history"), PLANTED, ids=[plant.__name__ for plant, _ in PLANTED])
async def test_a_planted_bug_is_caught(plant: Plant, history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await history() == []
    plant(monkeypatch)
    assert await history() != []
