"""Settle losses: nothing is owed for a lost worker any more.

The agent of a member of a scale set may die under a job that goes on. The pool ends such a member once its loss is
settled (liveness/lost_instances.py), as long as its worker is remembered. After that it is ended here, before its loss
is settled: no later pass sees a loss that is settled.

GitHub may call the runner busy for a while after its job has ended, or refuse to remove it. Then the loss stands, and
the next pass tries again, unless the runner is offline and its machine is ended for that (machine_state.py). At the
latest the threshold of the member ends it, and with it this wait.
"""

from collections.abc import Sequence

from bullpen.config import Settings
from bullpen.errors import Refused
from bullpen.liveness.lost_worker import WorkerLoss, settle
from bullpen.model.instance import RUNNING, Instance
from bullpen.model.set_member import set_of
from bullpen.model.worker import CLEANED_UP
from bullpen.pool import lifecycle
from bullpen.ports import Ports, Removal
from bullpen.workflows.alerts import ReportCollector

BY = "workflows"


async def settle_losses(
    ports: Ports,
    settings: Settings,
    losses: Sequence[WorkerLoss],
    why: str,
    report: ReportCollector,
    *,
    by: str,
    also_busy: bool = False,
) -> None:
    """Write that nothing is owed for these losses any more. Those whose forgotten members GitHub does not let go are
    left to the next pass, unless `also_busy`."""
    kept = await _end_forgotten(ports, settings, losses, report)
    for loss in losses:
        if loss.worker.instance_id in kept and not also_busy:
            continue
        if await settle(ports, loss.worker, why, by=by):
            report.note("loss settled", worker=loss.worker.id, run=loss.run, reason=why)


async def _end_forgotten(
    ports: Ports, settings: Settings, losses: Sequence[WorkerLoss], report: ReportCollector
) -> set[str]:
    """End the members of scale sets that lost their workers under a job which has ended, and whose workers are
    forgotten. One that another worker reports is left to that worker. Returns those that GitHub does not let go."""
    of_sets = [loss.worker for loss in losses if loss.set_name is not None]
    last_beats = {one.instance_id: one.beat_at for one in of_sets if one.state is CLEANED_UP and one.beat_at}
    if not last_beats:
        return set()
    found, pulses = await ports.records.instances([*last_beats]), await ports.signals.read([*last_beats])
    beats = {id: pulse.heartbeat for id, pulse in pulses.items() if pulse.heartbeat is not None}
    silent = [one for id, one in found.items() if id not in beats or beats[id].at <= last_beats[id]]
    members = [one for one in silent if one.state is RUNNING and set_of(one) is not None]
    free = [one for one in members if await _is_free(ports, one, report)]
    why = "its worker is lost, and its job has ended"
    fates = await lifecycle.expire_and_terminate(ports, settings, free, why, by=BY)
    for id, fate in fates.items():
        report.note("instance given up", instance=id, fate=fate, reason=why)
    return {one.id for one in members} - {one.id for one in free}


async def _is_free(ports: Ports, member: Instance, report: ReportCollector) -> bool:
    """Whether GitHub has removed its runner, and so knows of no job there."""
    try:
        return await ports.ci.remove(member.id) is Removal.REMOVED
    except Refused as exc:
        report.alarm("GitHub refuses to remove the runner of a lost worker", instance=member.id, error=exc)
        return False
