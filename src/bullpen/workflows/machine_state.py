"""Machine state: is the machine of a lost worker gone, so that no job can still run there?

    gone      the compute engine says so. Or GitHub has shown its runner offline twice, `timings.orphan` apart: then its
              instance is expired and its machine ended, and the machine is gone once that is certain
    online    GitHub sees its runner: the worker has lost contact with Bullpen alone, and may be running a job. An alarm
              is raised, and the machine is not ended
    unknown   not known yet

The store remembers since when a runner has been offline, so the observation outlives this process and counts for every
other controller. A machine that is known to be gone is not checked again, because it stays gone.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import field
from datetime import datetime
from enum import StrEnum

from bullpen.config import Settings
from bullpen.errors import Refused, Unavailable
from bullpen.lazy_dataclass import dataclass
from bullpen.liveness import evidence
from bullpen.liveness.evidence import Evidence
from bullpen.liveness.lost_worker import WorkerLoss
from bullpen.model.instance import InstanceFate
from bullpen.model.times import later
from bullpen.pool import lifecycle
from bullpen.ports import Ports
from bullpen.workflows.alerts import ReportCollector

BY = "workflows"
OFFLINE = "lost runner offline"
ENDING = 300.0  # seconds within which the compute engine should confirm the end of a machine


class MachineState(StrEnum):
    GONE = "gone"
    ONLINE = "online"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class MachineStates:
    """The states of the machines of all lost workers."""

    _ports: Ports
    _settings: Settings
    _report: ReportCollector
    _known: dict[str, MachineState] = field(default_factory=dict)
    _online_at: dict[str, datetime] = field(default_factory=dict)
    """When GitHub last showed the runner of a lost worker online."""
    _ending: dict[str, float] = field(default_factory=dict)
    """Since when the end of a machine has been requested but not confirmed, by loss."""

    def of(self, loss: WorkerLoss) -> MachineState:
        return self._known.get(loss.key, MachineState.UNKNOWN)

    def is_gone(self, loss: WorkerLoss) -> bool:
        """True if no job can run on its machine any more."""
        return self.of(loss) is MachineState.GONE

    def seen_online(self, loss: WorkerLoss) -> datetime | None:
        """When its runner was last seen online after the loss; None: never."""
        return self._online_at.get(loss.key)

    def is_new(self, loss: WorkerLoss) -> bool:
        """True if the state of its machine was never checked."""
        return loss.key not in self._known

    async def gather(self, losses: Sequence[WorkerLoss]) -> None:
        """Check the machines that are not known to be gone. `losses` are all losses that there are."""
        self._known = {loss.key: self.of(loss) for loss in losses}
        self._ending = {key: since for key, since in self._ending.items() if key in self._known}
        self._online_at = {key: at for key, at in self._online_at.items() if key in self._known}
        open_ = [loss for loss in losses if not self.is_gone(loss)]
        if not open_:
            return
        seen = await evidence.gather(self._ports, [loss.worker.instance_id for loss in open_])
        silent = [loss for loss in open_ if not seen.is_ending(loss.worker.instance_id)]
        await self._end([loss for loss in open_ if loss not in silent], seen, "its machine is gone")
        if silent:
            await self._end(await self._offline(silent), seen, "its worker is lost and its runner offline")

    async def _offline(self, silent: Sequence[WorkerLoss]) -> list[WorkerLoss]:
        """Those that GitHub has shown offline for long enough. None while GitHub does not answer: that concerns only
        these losses, and the other runs are reconciled all the same."""
        try:
            listed = await self._ports.ci.registrations()
        except (Refused, Unavailable) as exc:
            self._known |= dict.fromkeys((loss.key for loss in silent), MachineState.UNKNOWN)
            self._report.alarm("cannot check whether lost runners are online", error=exc)
            return []
        online = {one.name for one in listed if one.online is not False}
        now = self._ports.clock.now()
        for loss in silent:
            if loss.worker.instance_id in online:
                self._known[loss.key], self._online_at[loss.key] = MachineState.ONLINE, now
                why = "its runner is online"
                self._report.alarm("lost instance left alone", instance=loss.worker.instance_id, reason=why)
            else:
                self._known[loss.key] = MachineState.UNKNOWN
        offline = [loss for loss in silent if self.of(loss) is not MachineState.ONLINE]
        # Every offline loss, and no other: a key that is missing here is forgotten, and counts from zero next time.
        since = await self._ports.observations.observe(OFFLINE, [loss.key for loss in offline], now)
        return [loss for loss in offline if later(since[loss.key], self._settings.timings.orphan) <= now]

    async def _end(self, condemned: Sequence[WorkerLoss], seen: Evidence, why: str) -> None:
        """Expire the instances and end the machines, unless that has been done."""
        ids = [loss.worker.instance_id for loss in condemned]
        live = [one for id in ids if (one := seen.live_record(id)) is not None]
        fates = await lifecycle.expire_and_terminate(self._ports, self._settings, live, why, by=BY) if live else {}
        # A process that marked one of these may have died before it ended the machine.
        marked = [one for id in ids if id not in fates and (one := seen.instances.get(id)) is not None]
        certain = await lifecycle.terminate(self._ports, self._settings, marked, by=BY)
        time = asyncio.get_running_loop().time()
        for loss in condemned:
            id = loss.worker.instance_id
            if fates.get(id) is InstanceFate.TERMINATED or id in certain or (id not in fates and _has_ended(seen, id)):
                self._known[loss.key] = MachineState.GONE
                self._ending.pop(loss.key, None)
            elif time - self._ending.setdefault(loss.key, time) >= ENDING:
                effect = "its job is not run again yet"
                self._report.alarm("end of machine not confirmed", instance=id, effect=effect)
            if fates.get(id, InstanceFate.NOT_OURS) is not InstanceFate.NOT_OURS:
                self._report.note("instance given up", instance=id, fate=fates[id], reason=why)


def _has_ended(seen: Evidence, id: str) -> bool:
    """Also if neither a record nor a machine is left: it ended so long ago that both are forgotten."""
    return seen.is_gone(id) or (id not in seen.instances and seen.is_ending(id))
