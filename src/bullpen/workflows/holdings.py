"""Holdings: what we have of each workflow run. A run of which we have nothing is none of our business.

As large as the pool and its debts, never as large as its history: live instances, provisions at work, lost workers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from bullpen.config import Settings
from bullpen.inventory import every_live
from bullpen.liveness.lost_worker import Loss, the_repository
from bullpen.model import label as labels
from bullpen.model.instance import IDLE, LIVE, RUNNING, Instance
from bullpen.pool import busy
from bullpen.pool.lifecycle import later
from bullpen.ports import Ports


@dataclass(slots=True)
class Held:
    """`labels` have live instances, or a provision at work for them; `served` have instances that run and are not lost.
    `stale` were given back, and still execute a job of the run, as they say."""

    run: str
    repository: str = ""  # empty: nobody has said whose run it is
    labels: dict[str, None] = field(default_factory=dict)
    served: set[str] = field(default_factory=set)
    losses: list[Loss] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)


async def gather(ports: Ports, settings: Settings, losses: Sequence[Loss]) -> dict[str, Held]:
    """By run; `losses` are all that there are."""
    found: dict[str, Held] = {}
    live = [one for one in await every_live(ports) if one.state in LIVE]
    at_work = [one for name in settings.classes for one in await ports.records.open_provisions(name)]
    lost = {loss.worker.instance_id for loss in losses}
    for one in live:
        _note(found, one.run_id, one.repository, runs=one.state is RUNNING and one.id not in lost)
    for provision in at_work:
        _note(found, provision.run_id, provision.needs.repository)
    for loss in losses:
        _held(found, loss.run, loss.repository).losses.append(loss)
    for id, job in (await busy.at_work(ports, settings, _overdue(ports, settings, live), hurry=True)).items():
        _held(found, job.run, job.repository).stale.append(id)
    for held in found.values():
        held.repository = held.repository or the_repository(settings)
    return found


def _overdue(ports: Ports, settings: Settings, live: Sequence[Instance]) -> list[str]:
    """Those that were given back and should be clean by now."""
    now = ports.clock.now()
    owing = [(one, one.owes.due_at) for one in live if one.state is IDLE and one.owes is not None]
    return [one.id for one, due in owing if later(due, settings.timings.orphan) <= now]


def _note(found: dict[str, Held], label: str, repository: str, *, runs: bool = False) -> None:
    parsed = labels.parse(label)
    if parsed is not None:
        held = _held(found, parsed.run, repository)
        held.labels[label] = None
        if runs:
            held.served.add(label)


def _held(found: dict[str, Held], run: str, repository: str) -> Held:
    held = found.setdefault(run, Held(run))
    held.repository = held.repository or repository
    return held
