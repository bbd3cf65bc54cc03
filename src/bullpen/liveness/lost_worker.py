"""Loss: a lost worker as its workflow run sees it.

On GitHub the debt of a lost worker is not paid by giving its jobs away: GitHub owns them. It stands until its run has
been seen to: the job that it ran has been run again, or need not be, and the label that it served has other runners, or
needs none. What a worker says of itself is believed only as far as GitHub can confirm it: the runner that it names must
be one of its own instance, for GitHub tells on which runner each job ran. One that died before it could name its job,
for GitHub knows of it a little earlier, is found in the same way.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from bullpen.config import Settings
from bullpen.model import activity as activities
from bullpen.model import label as labels
from bullpen.model.activity import Activity
from bullpen.model.instance import Instance
from bullpen.model.worker import Worker
from bullpen.pool.lifecycle import later
from bullpen.ports import Ports, WorkflowJob

LAG = 300.0  # seconds that what GitHub shows may be behind
LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Loss:
    worker: Worker
    run: str
    label: str
    repository: str = ""  # empty: nobody has said whose run it is
    activity: Activity | None = None  # None: it ran no job that we have heard of
    runners: str = ""  # what the names of its instance's runners begin with
    until: datetime | None = None  # when the time of its instance was over; None: nobody knows any more

    @property
    def key(self) -> str:
        """Another one for every loss of the same worker."""
        return f"{self.worker.id}#{self.worker.lost_epoch}"

    def had(self, job: WorkflowJob) -> bool:
        """Whether GitHub gave it this job of its run."""
        if self.activity is not None:
            return job.runner == self.activity.runner
        return bool(self.runners) and job.runner.startswith(self.runners)

    def last(self, jobs: Sequence[WorkflowJob]) -> WorkflowJob | None:
        """The one of these that it had last. A runner has one job at a time, and may have ended the one that we know
        of: so this is what it lost, if anything."""
        had = [job for job in jobs if self.had(job)]
        return max(had, key=lambda one: (one.started_at or LONG_AGO, one.id), default=None)

    def outlived(self, job: WorkflowJob) -> bool:
        """Whether a job ended by itself, for it did so before its worker can have been lost: GitHub waits for ten
        minutes before it ends a job of a dead runner. A machine that leaves ends its job on the way, and may have no
        beat left for it."""
        since = 0.0 if self.worker.leaving is not None else min(self.worker.lease, LAG)
        return job.completed and (job.completed_at or LONG_AGO) <= later(self._beat_at, since)

    def had_unheard(self, jobs: Sequence[WorkflowJob]) -> bool:
        """Whether one of these jobs began there after we heard of it last."""
        job = self.last(jobs)
        return job is not None and (job.started_at or LONG_AGO) > self._beat_at

    @property
    def _beat_at(self) -> datetime:
        return self.worker.beat_at or LONG_AGO

    @property
    def overran(self) -> bool:
        """True if it was heard of until its time was over: it was ended for that, and would be again."""
        return self.until is not None and later(self._beat_at, self.worker.lease) >= self.until


def loss_of(settings: Settings, worker: Worker, record: Instance | None) -> Loss | None:
    """What a worker that owes its lost jobs means to a workflow run; None if it concerns none.

    `record` is its instance as it stands: one that was given back served nobody, and one that ended still tells whom.
    """
    if not settings.on_github or not worker.owes_reschedule or not worker.instance_id:
        return None
    activity = _credible(settings, worker)
    text = activity.label if activity else record.run_id if record else ""
    label = labels.parse(text)
    if label is None:
        return None
    repository = activity.repository if activity else record.repository if record else ""
    return Loss(
        worker,
        label.run,
        text,
        repository or the_repository(settings),
        activity,
        _names(settings, worker),
        until=record.threshold if record else None,
    )


def the_repository(settings: Settings) -> str:
    """Whose runs all are where the scope is one repository; else empty."""
    return settings.github.scope if "/" in settings.github.scope else ""


async def losses_among(ports: Ports, settings: Settings, owing: Sequence[Worker]) -> list[Loss]:
    """Those of these workers whose debt is a workflow run's."""
    if not settings.on_github or not owing:
        return []
    records = await ports.records.instances(list(dict.fromkeys(one.instance_id for one in owing if one.instance_id)))
    found = [loss_of(settings, one, records.get(one.instance_id)) for one in owing]
    return [loss for loss in found if loss is not None]


def _credible(settings: Settings, worker: Worker) -> Activity | None:
    activity = activities.parse(worker.activity)
    if activity is None or not activity.runner.startswith(_names(settings, worker)):
        return None
    label = labels.parse(activity.label)
    return activity if label is not None and label.admits(activity.run, activity.attempt) else None


def _names(settings: Settings, worker: Worker) -> str:
    return f"{settings.runner_pool}.{worker.instance_id}."
