"""Holdings: what the pool holds for each workflow run. A run for which it holds nothing is not reconciled.

The work is as large as the pool and its debts, never as large as its history: live instances, open provisions, lost
workers.
"""

from collections.abc import Sequence
from dataclasses import field

from bullpen.config import Settings
from bullpen.lazy_dataclass import dataclass
from bullpen.liveness.lost_worker import WorkerLoss, only_repository
from bullpen.model import label as labels
from bullpen.model.instance import IDLE, LIVE, RUNNING, Instance
from bullpen.model.times import later
from bullpen.pool import busy
from bullpen.pool.live_instances import every_live
from bullpen.ports import Ports
from bullpen.workflows.lasting_jobs import LastingJobs


@dataclass(slots=True)
class RunHoldings:
    """What the pool holds for one run.

    `labels` have live instances or an open provision. `served` have running instances that are not lost. `stale`
    instances were given back, but their agents still report a job of the run. `lasting` instances serve a scale set,
    and their agents have reported a job of the run for minutes.
    """

    run: str
    repository: str = ""  # empty: not known
    labels: dict[str, None] = field(default_factory=dict)
    served: set[str] = field(default_factory=set)
    losses: list[WorkerLoss] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    lasting: list[str] = field(default_factory=list)


async def gather(
    ports: Ports, settings: Settings, losses: Sequence[WorkerLoss], lasting: LastingJobs | None = None
) -> dict[str, RunHoldings]:
    """The holdings by run. `losses` are all losses that there are. Without `lasting`, members of scale sets are held
    for no run."""
    found: dict[str, RunHoldings] = {}
    live = [one for one in await every_live(ports) if one.state in LIVE]
    open_provisions = [one for name in settings.classes for one in await ports.records.open_provisions(name)]
    lost = {loss.worker.instance_id for loss in losses}
    for one in live:
        _note(found, one.run_id, one.repository, runs=one.state is RUNNING and one.id not in lost)
    for provision in open_provisions:
        _note(found, provision.run_id, provision.needs.repository)
    for loss in losses:
        _holdings_of(found, loss.run, loss.repository).losses.append(loss)
    for id, job in (await busy.at_work(ports, settings, _overdue(ports, settings, live), hurry=True)).items():
        if job.is_named:
            _holdings_of(found, job.run, job.repository).stale.append(id)
    for id, job in (await lasting.find(live)).items() if lasting is not None else ():
        if id not in lost and job.is_named:
            _holdings_of(found, job.run, job.repository).lasting.append(id)
    for held in found.values():
        held.repository = held.repository or only_repository(settings)
    return found


def _overdue(ports: Ports, settings: Settings, live: Sequence[Instance]) -> list[str]:
    """Instances that were given back and should be clean by now."""
    now = ports.clock.now()
    owing = [(one, one.owes.due_at) for one in live if one.state is IDLE and one.owes is not None]
    return [one.id for one, due in owing if later(due, settings.timings.orphan) <= now]


def _note(found: dict[str, RunHoldings], label: str, repository: str, *, runs: bool = False) -> None:
    parsed = labels.parse(label)
    if parsed is not None:
        held = _holdings_of(found, parsed.run, repository)
        held.labels[label] = None
        if runs:
            held.served.add(label)


def _holdings_of(found: dict[str, RunHoldings], run: str, repository: str) -> RunHoldings:
    held = found.setdefault(run, RunHoldings(run))
    held.repository = held.repository or repository
    return held
