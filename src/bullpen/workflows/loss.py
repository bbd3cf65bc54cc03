"""Loss: a lost worker as its workflow run sees it.

On GitHub the debt of a lost worker is not paid by giving its jobs away: GitHub owns them. It stands until its run has
been seen to: the job that it ran has been run again, or need not be, and the label that it served has other runners, or
needs none. What a worker says of itself is believed only as far as GitHub can confirm it: the runner that it names must
be one of its own instance, for GitHub tells on which runner each job ran.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from bullpen.config import Settings
from bullpen.model import activity as activities
from bullpen.model import label as labels
from bullpen.model.activity import Activity
from bullpen.model.instance import Instance
from bullpen.model.worker import Worker
from bullpen.ports import Ports


@dataclass(frozen=True, slots=True)
class Loss:
    worker: Worker
    run: str
    label: str
    repository: str = ""  # empty: nobody has said whose run it is
    activity: Activity | None = None  # None: it ran no job, and only its label may miss it
    until: datetime | None = None  # when the time of its instance was over; None: nobody knows any more

    @property
    def key(self) -> str:
        """Another one for every loss of the same worker."""
        return f"{self.worker.id}#{self.worker.lost_epoch}"

    @property
    def overran(self) -> bool:
        """True if it was heard of until its time was over: it was ended for that, and would be again."""
        heard, until = self.worker.beat_at, self.until
        return heard is not None and until is not None and heard + timedelta(seconds=self.worker.lease) >= until


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
    until = record.threshold if record else None
    return Loss(worker, label.run, text, repository or the_repository(settings), activity, until)


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
    if activity is None or not activity.runner.startswith(f"{settings.runner_pool}.{worker.instance_id}."):
        return None
    label = labels.parse(activity.label)
    return activity if label is not None and label.admits(activity.run, activity.attempt) else None
