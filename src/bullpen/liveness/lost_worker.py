"""A lost worker: what it owes until its jobs are with others, and what its loss means to its workflow run.

Where the CI is GitHub, the debt of a lost worker is not paid by giving its jobs to others: GitHub owns them. The debt
stands until its run is reconciled: the job that it ran has been run again, or need not be, and the label that it served
has other runners, or needs none.

What a worker reports is believed only as far as GitHub can confirm it. The runner that it names must belong to its own
instance, because GitHub shows on which runner each job ran. A worker may die before it can report its job, because
GitHub knows of a job a little earlier. Such a job is found in the same way, by the name of the runner.

An instance that serves a scale set belongs to no run: its worker names the run with its job. If it dies before that,
the set's session knows the run, because GitHub reports which runner it gave a job to. That message may be late, so the
debt of such a worker stands for a while even if no message names a job.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from bullpen.config import Settings
from bullpen.errors import Conflict
from bullpen.lazy_dataclass import dataclass
from bullpen.model import activity as activities
from bullpen.model import label as labels
from bullpen.model import worker as workers
from bullpen.model.activity import Activity
from bullpen.model.instance import Instance
from bullpen.model.scale_set import set_of_run_id, set_run_id
from bullpen.model.set_session import StartedJob
from bullpen.model.times import later
from bullpen.model.worker import ACTIVE, CLEANED_UP, INACTIVE, Worker
from bullpen.ports import Ports, WorkflowJob
from bullpen.settings.github import covers

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
    runner: str = ""  # the one that had the job, by its report or GitHub's; empty: any of its instance
    runners: str = ""  # prefix of the names of its instance's runners
    until: datetime | None = None  # the threshold of its instance; None: not known any more

    @property
    def key(self) -> str:
        """Different for every loss of the same worker."""
        return f"{self.worker.id}#{self.worker.lost_epoch}"

    def had(self, job: WorkflowJob) -> bool:
        """Whether GitHub gave it this job of its run."""
        if self.runner:
            return job.runner == self.runner
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
    def set_name(self) -> str | None:
        """The scale set that it served; None if it served the label of a run."""
        return set_of_run_id(self.label)

    @property
    def overran(self) -> bool:
        """True if it sent beats until its threshold: it was ended for that, and would be ended again."""
        return self.until is not None and later(self._beat_at, self.worker.lease) >= self.until

    @property
    def _beat_at(self) -> datetime:
        return self.worker.beat_at or LONG_AGO


@dataclass(frozen=True, slots=True)
class GivenJob:
    """A job of a scale set that GitHub gave to a runner, and that no heartbeat has named yet."""

    label: str  # the run id of the set's instances
    job: StartedJob


def worker_loss(
    settings: Settings, worker: Worker, record: Instance | None, started: Sequence[GivenJob] = ()
) -> WorkerLoss | None:
    """What a worker that owes its lost jobs means to a workflow run; None if it concerns none.

    `record` is its instance as stored. One that was given back served no run; one that ended still names its run.
    `started` are jobs of scale sets that no heartbeat has named.
    """
    if not settings.on_github or not worker.owes_reschedule or not worker.instance_id:
        return None
    runners, until = _names(settings, worker), record.threshold if record else None
    activity = _credible(settings, worker)
    if activity is not None:
        repository = activity.repository or only_repository(settings)
        return WorkerLoss(
            worker, activity.run, activity.label, repository, activity, activity.runner, runners, until=until
        )
    if (given := _last_given(started, runners)) is not None:
        job, repository = given.job, given.job.repository or only_repository(settings)
        return WorkerLoss(worker, job.run, given.label, repository, None, job.runner, runners, until=until)
    label = labels.parse(record.run_id) if record else None
    if record is None or label is None:
        return None
    repository = record.repository or only_repository(settings)
    return WorkerLoss(worker, label.run, record.run_id, repository, runners=runners, until=until)


def only_repository(settings: Settings) -> str:
    """The repository of all runs where the scope is one repository; otherwise empty."""
    return settings.github.scope if "/" in settings.github.scope else ""


async def worker_losses(ports: Ports, settings: Settings, owing: Sequence[Worker]) -> list[WorkerLoss]:
    """The losses among these workers that concern a workflow run."""
    if not settings.on_github or not owing:
        return []
    return await _losses(ports, settings, owing, await _records(ports, owing))


async def left_to_runs(ports: Ports, settings: Settings, owing: Sequence[Worker]) -> set[str]:
    """The keys of those whose debt only a workflow run can settle; and of those that served a scale set a moment ago,
    because GitHub may yet report a job that it gave to their runner."""
    if not settings.on_github or not owing:
        return set()
    records, now = await _records(ports, owing), ports.clock.now()
    lost = {loss.worker.id for loss in await _losses(ports, settings, owing, records)}
    serving = {id for id, one in records.items() if set_of_run_id(one.run_id) is not None}
    recent = [one for one in owing if one.instance_id in serving and later(one.beat_at or LONG_AGO, LAG) > now]
    return lost | {one.id for one in recent}


async def _losses(
    ports: Ports, settings: Settings, owing: Sequence[Worker], records: Mapping[str, Instance]
) -> list[WorkerLoss]:
    has_sets = settings.github.scale_sets or any(set_of_run_id(one.run_id) is not None for one in records.values())
    started = await _started(ports) if has_sets else []
    found = [worker_loss(settings, one, records.get(one.instance_id), started) for one in owing]
    return [loss for loss in found if loss is not None]


async def _records(ports: Ports, owing: Sequence[Worker]) -> dict[str, Instance]:
    return await ports.records.instances(list(dict.fromkeys(one.instance_id for one in owing if one.instance_id)))


async def _started(ports: Ports) -> list[GivenJob]:
    sessions = await ports.records.set_sessions()
    return [GivenJob(set_run_id(name), job) for name, one in sessions.items() for job in one.started]


def _credible(settings: Settings, worker: Worker) -> Activity | None:
    activity = activities.parse(worker.activity)
    if activity is None or not activity.runner.startswith(_names(settings, worker)):
        return None
    if set_of_run_id(activity.label) is not None:
        # Which run has the job only GitHub can confirm: it lists the job there, on this very runner.
        is_run = activity.run.isascii() and activity.run.isdecimal()
        return activity if is_run and covers(settings.github.scope, activity.repository) else None
    label = labels.parse(activity.label)
    return activity if label is not None and label.admits(activity.run, activity.attempt) else None


def _last_given(started: Sequence[GivenJob], runners: str) -> GivenJob | None:
    given = [one for one in started if one.job.runner.startswith(runners) and one.job.run]
    return max(given, key=lambda one: (one.job.at or LONG_AGO, one.job.runner), default=None)


def _names(settings: Settings, worker: Worker) -> str:
    return f"{settings.runner_pool}.{worker.instance_id}."
