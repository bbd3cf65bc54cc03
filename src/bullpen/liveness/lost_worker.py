"""A lost worker: what it owes until its jobs are with others, and what its loss means to its workflow run.

Where the CI is GitHub, the debt of a lost worker is not paid by giving its jobs to others: GitHub owns them. The debt
stands until its run is reconciled: the job that it ran has been run again, or need not be, and the label that it served
has other runners, or needs none.

What a worker reports is believed only as far as GitHub can confirm it. The runner that it names must belong to its own
instance, because GitHub shows on which runner each job ran. A worker may die before it can report its job, because
GitHub knows of a job a little earlier. Such a job is found in the same way, by the name of the runner.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from bullpen.config import Settings
from bullpen.errors import Conflict
from bullpen.model import activity as activities
from bullpen.model import label as labels
from bullpen.model import worker as workers
from bullpen.model.activity import Activity
from bullpen.model.instance import Instance
from bullpen.model.times import later
from bullpen.model.worker import ACTIVE, CLEANED_UP, INACTIVE, Worker
from bullpen.ports import Ports, WorkflowJob

LAG = 300.0  # seconds by which GitHub's answers may be behind
LONG_AGO = datetime.min.replace(tzinfo=UTC)
TRIES = 3  # a worker that came back beats while its old epoch is settled

_SETTLE = {ACTIVE: workers.settle_active, INACTIVE: workers.settle_inactive, CLEANED_UP: workers.settle_cleaned_up}


async def settle(ports: Ports, worker: Worker, why: str, *, by: str) -> bool:
    """Record that nothing of the lost epoch, as seen, is owed any more; True if this call wrote it."""
    epoch = worker.lost_epoch
    found: Worker | None = worker
    for _ in range(TRIES):
        if found is None or found.settled_epoch >= epoch:
            return False
        paid = workers.Rescheduled(at=ports.clock.now(), by=by, why=why, epoch=epoch)
        (landed,) = await ports.records.apply_each([_SETTLE[found.state](found, paid)])
        if not isinstance(landed, Conflict):
            return True
        found = landed.found
    return False


@dataclass(frozen=True, slots=True)
class WorkerLoss:
    """The loss of one worker to one run."""

    worker: Worker
    run: str
    label: str
    repository: str = ""  # empty: not known
    activity: Activity | None = None  # None: it reported no job
    runners: str = ""  # prefix of the names of its instance's runners
    until: datetime | None = None  # the threshold of its instance; None: not known any more

    @property
    def key(self) -> str:
        """Different for every loss of the same worker."""
        return f"{self.worker.id}#{self.worker.lost_epoch}"

    def had(self, job: WorkflowJob) -> bool:
        """Whether GitHub gave it this job of its run."""
        if self.activity is not None:
            return job.runner == self.activity.runner
        return bool(self.runners) and job.runner.startswith(self.runners)

    def last(self, jobs: Sequence[WorkflowJob]) -> WorkflowJob | None:
        """The one of these jobs that it had last. A runner has one job at a time, and may have finished the one that it
        reported: so if it lost any job, it lost this one."""
        had = [job for job in jobs if self.had(job)]
        return max(had, key=lambda one: (one.started_at or LONG_AGO, one.id), default=None)

    def outlived(self, job: WorkflowJob) -> bool:
        """True if the job ended by itself: it ended before the worker can have been lost. GitHub waits for ten minutes
        before it ends a job of a dead runner. A machine that is interrupted ends its job on the way, and may send no
        beat after that."""
        since = 0.0 if self.worker.leaving is not None else min(self.worker.lease, LAG)
        return job.completed and (job.completed_at or LONG_AGO) <= later(self._beat_at, since)

    def had_unheard(self, jobs: Sequence[WorkflowJob]) -> bool:
        """True if one of these jobs began there after its last beat."""
        job = self.last(jobs)
        return job is not None and (job.started_at or LONG_AGO) > self._beat_at

    def is_fresh(self, now: datetime) -> bool:
        """True if GitHub may not show yet what the worker reported last."""
        return later(self._beat_at, LAG) > now

    @property
    def overran(self) -> bool:
        """True if it sent beats until its threshold: it was ended for that, and would be ended again."""
        return self.until is not None and later(self._beat_at, self.worker.lease) >= self.until

    @property
    def _beat_at(self) -> datetime:
        return self.worker.beat_at or LONG_AGO


def worker_loss(settings: Settings, worker: Worker, record: Instance | None) -> WorkerLoss | None:
    """What a worker that owes its lost jobs means to a workflow run; None if it concerns none.

    `record` is its instance as stored. One that was given back served no run; one that ended still names its run.
    """
    if not settings.on_github or not worker.owes_reschedule or not worker.instance_id:
        return None
    activity = _credible(settings, worker)
    text = activity.label if activity else record.run_id if record else ""
    label = labels.parse(text)
    if label is None:
        return None
    repository = activity.repository if activity else record.repository if record else ""
    return WorkerLoss(
        worker,
        label.run,
        text,
        repository or only_repository(settings),
        activity,
        _names(settings, worker),
        until=record.threshold if record else None,
    )


def only_repository(settings: Settings) -> str:
    """The repository of all runs where the scope is one repository; otherwise empty."""
    return settings.github.scope if "/" in settings.github.scope else ""


async def worker_losses(ports: Ports, settings: Settings, owing: Sequence[Worker]) -> list[WorkerLoss]:
    """The losses among these workers that concern a workflow run."""
    if not settings.on_github or not owing:
        return []
    records = await ports.records.instances(list(dict.fromkeys(one.instance_id for one in owing if one.instance_id)))
    found = [worker_loss(settings, one, records.get(one.instance_id)) for one in owing]
    return [loss for loss in found if loss is not None]


def _credible(settings: Settings, worker: Worker) -> Activity | None:
    activity = activities.parse(worker.activity)
    if activity is None or not activity.runner.startswith(_names(settings, worker)):
        return None
    label = labels.parse(activity.label)
    return activity if label is not None and label.admits(activity.run, activity.attempt) else None


def _names(settings: Settings, worker: Worker) -> str:
    return f"{settings.runner_pool}.{worker.instance_id}."
