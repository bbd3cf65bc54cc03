"""Leases: jobs of silent workers go to others, also where no `bullpen serve` runs; idle machines that are about to be
interrupted are ended. The records of workers whose instance has ended are closed.

A worker is declared lost only after a whole confirm window without a beat (liveness/lease.py), so this phase waits:
only if a silent worker holds a job or a run could claim its instance, and not longer than a few windows. `warm` then
ends and replaces the lost instances of the pool.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial

from bullpen.config import Settings
from bullpen.liveness import LivenessController
from bullpen.liveness.interruption import end_leaving, leaving_instances
from bullpen.liveness.lease import Stillness
from bullpen.liveness.lost_instances import is_unowned
from bullpen.liveness.lost_worker import left_to_runs
from bullpen.liveness.stopping import close
from bullpen.model.activity import names_job
from bullpen.model.instance import IDLE, TERMINATED, Instance
from bullpen.model.worker import Worker
from bullpen.ports import Ports
from bullpen.refresh.action import BY, Action, Plan

PAGE = 5000  # as many as a sweeper reads
WINDOWS = 3  # confirm windows to wait: one is needed, and a worker that beats once may fall silent again
PAUSE = 0.5  # seconds between passes
LONGEST = 60.0  # seconds to wait for a worker with a long lease


async def plans(ports: Ports, settings: Settings) -> AsyncIterator[Plan]:
    leaving = await leaving_instances(ports)
    idle = [one for one in (await ports.records.instances([*leaving])).values() if one.state is IDLE] if leaving else []
    if idle:
        actions = tuple(Action("terminate", one.id, leaving[one.id], kind="interruption") for one in idle)
        yield Plan(actions, partial(end_leaving, ports, settings))
    found = await _unsettled(ports, settings)
    if found:
        actions = tuple(Action("sweep lease", key, reason, kind="silent worker") for key, reason in found.items())
        yield Plan(actions, partial(_sweep, ports, settings))
    if over := [one for one in await _of_ended_instances(ports, settings) if one.id not in found]:
        reasons = {one.id: f"{_silence(one)}, and its instance has ended" for one in over}
        actions = tuple(Action("close worker", key, why, kind="ended instance") for key, why in reasons.items())
        yield Plan(actions, partial(close, over, ports, settings, by=BY))


async def _of_ended_instances(ports: Ports, settings: Settings) -> list[Worker]:
    """Silent workers whose instance has certainly ended: their agents were killed, and reported nothing."""
    if not settings.liveness.tracking:
        return []
    suspects = await ports.workers.suspects(ports.clock.now(), PAGE)
    found = [one for one in suspects if one.instance_id and not names_job(one.activity)]
    records = await ports.records.instances(list(dict.fromkeys(one.instance_id for one in found)))
    over = {id for id, record in records.items() if record.state is TERMINATED and record.owes is None}
    return [one for one in found if one.instance_id in over]


async def _sweep(ports: Ports, settings: Settings) -> None:
    loop = asyncio.get_running_loop()
    stillness = Stillness(settings)
    suspects = await ports.workers.suspects(ports.clock.now(), PAGE)
    windows = [stillness.window(one) for one in suspects]
    until = loop.time() + max(WINDOWS * settings.liveness.confirm, min(max(windows, default=0.0) + 2 * PAUSE, LONGEST))
    liveness = LivenessController(ports, settings)
    while True:
        await liveness.run_once()
        # A worker that has beaten since is alive, whatever this clock says of its lease: it is not awaited.
        found = await ports.workers.workers([one.id for one in suspects])
        moved = {one.id for one in suspects if one.id in found and found[one.id].token != one.token}
        if loop.time() >= until or not (await _unsettled(ports, settings)).keys() - moved:
            return
        await ports.signals.wait(PAUSE)


async def _unsettled(ports: Ports, settings: Settings) -> dict[str, str]:
    """Workers, by key, whose jobs should go to others, with the reason."""
    if not settings.liveness.tracking:
        return {}
    found: dict[str, str] = {}
    suspects = await ports.workers.suspects(ports.clock.now(), PAGE)
    records = await ports.records.instances([one.instance_id for one in suspects if one.instance_id])
    for one in suspects:
        if one.instance_id in records and is_unowned(records[one.instance_id]):
            found[one.id] = f"{_silence(one)}, and a run could claim its instance"
        elif await ports.jobs.held(one.id, one.epoch, 1):
            found[one.id] = f"{_silence(one)}, and it holds a job"
    found |= _missed(settings, suspects, records)
    if settings.liveness.reschedule:
        owing = await ports.workers.owing(PAGE)
        # Those that are lost to a workflow run wait for its end, perhaps for hours: this phase does not settle them.
        left = await left_to_runs(ports, settings, owing)
        found |= {one.id: "it is lost, and its jobs are not all given away" for one in owing if one.id not in left}
    return found


def _missed(settings: Settings, suspects: Sequence[Worker], records: Mapping[str, Instance]) -> dict[str, str]:
    """Workers that a workflow run may miss."""
    if not settings.on_github:
        return {}
    serving = {id for id, record in records.items() if record.run_id}
    missed = [one for one in suspects if names_job(one.activity) or one.instance_id in serving]
    return {one.id: f"{_silence(one)}, and its run may miss it" for one in missed}


def _silence(worker: Worker) -> str:
    return f"no beat since {worker.beat_at:%H:%M:%S}" if worker.beat_at else "no beat"
