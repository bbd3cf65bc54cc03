"""Liveness: workers are alive while their lease lasts; the jobs of a lost worker go to others.

heartbeat       one beat: the lease is renewed, jobs are bound, the answer says what to stop
stopping        a worker reports that it has stopped: it is cleaned up, and its jobs go to others at once
lease           workers whose lease runs out are declared lost
reschedule      their jobs go to others
interruption    idle instances whose machine is about to be taken away are ended
protection      whether losses are held back, and why
"""

from bullpen.config import Settings
from bullpen.lazy_dataclass import dataclass
from bullpen.liveness.interruption import end_leaving
from bullpen.liveness.lease import Sweep, Sweeper
from bullpen.liveness.reschedule import Rescheduler, Rescheduling
from bullpen.ports import Ports


@dataclass(frozen=True, slots=True)
class LivenessPass:
    sweep: Sweep
    rescheduling: Rescheduling
    left: tuple[str, ...] = ()  # idle instances whose machine was to be taken away


class LivenessController:
    """A sweeper and a rescheduler. `receives`: this process receives beats for others, as `serve` does."""

    def __init__(self, ports: Ports, settings: Settings, *, receives: bool = False) -> None:
        self._ports = ports
        self._settings = settings
        self.sweeper = Sweeper(ports, settings, receives=receives)
        self.rescheduler = Rescheduler(ports, settings)

    def adopt(self, settings: Settings) -> None:
        """Go by these settings from the next pass on: one that is under way ends as it began."""
        self._settings = settings

    async def run_once(self) -> LivenessPass:
        """One pass of bounded work, about every second; safe beside any number of others."""
        settings = self._settings
        self.sweeper.adopt(settings)
        self.rescheduler.adopt(settings)
        swept, rescheduled = await self.sweeper.run_once(), await self.rescheduler.run_once()
        left = await end_leaving(self._ports, settings) if settings.liveness.tracking else []
        return LivenessPass(swept, rescheduled, tuple(left))
