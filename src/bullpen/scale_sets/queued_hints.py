"""Hints about queued jobs between processes of `serve`: a webhook reaches one of them, and another may hold the set.

The process that was told leaves a note in the store, and the holder takes it away. It is one note for each set, however
many jobs are queued. The session's record is not used for it: only its holder may write there, and a change by another
process would look like a sign of life of a holder that is dead.

A note is a hint. One that is lost, late or doubled costs no job: it costs the wait for a re-run that the CI does not
announce, or a runner for some minutes.
"""

import asyncio
from collections.abc import Mapping

from bullpen.errors import BullpenError, Outdated
from bullpen.ports import Ports
from bullpen.structured_log import get_logger

TOPIC = "job queued for scale set"
NOTE = "queued"
SENT_AGAIN = 20.0  # seconds between two notes of one process for one set
LOOKED = 5.0  # seconds between two looks for a note
COUNTS = 300.0  # seconds for which a note counts: the set may have had no holder meanwhile

log = get_logger("bullpen.scale_sets")


class QueuedHints:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._sent: dict[str, float] = {}
        self._look_at: dict[str, float] = {}

    async def send(self, noted: Mapping[str, float]) -> None:
        """Tell the holders of these sets, which this process does not hold, that jobs were queued at these times."""
        time = asyncio.get_running_loop().time()
        for name, at in noted.items():
            if at <= self._sent.get(name, -1.0) or time - self._sent.get(name, -SENT_AGAIN) < SENT_AGAIN:
                continue
            try:
                await self._ports.observations.observe(_topic(name), [NOTE], self._ports.clock.now())
            except Outdated:
                raise
            except BullpenError as exc:
                log.warning("hint about a queued job is not passed on", set=name, error=exc)
            self._sent[name] = time

    async def receive(self, name: str) -> float | None:
        """When a job was queued for this set, which this process holds, as another process has seen; None if none was.
        The time is the event loop's."""
        time, now = asyncio.get_running_loop().time(), self._ports.clock.now()
        if time < self._look_at.get(name, 0.0):
            return None
        self._look_at[name] = time + LOOKED
        try:
            since = (await self._ports.observations.observe(_topic(name), [NOTE], now, remember=False))[NOTE]
            if since == now:  # there is none
                return None
            await self._ports.observations.observe(_topic(name), [], now)
        except Outdated:
            raise
        except BullpenError as exc:
            log.warning("hints about queued jobs cannot be read", set=name, error=exc)
            return None
        age = max(0.0, (now - since).total_seconds())
        return time - age if age < COUNTS else None


def _topic(name: str) -> str:
    return f"{TOPIC} {name}"
