"""Proof: is the machine of a lost worker gone, so that nobody can still be at work there?

    gone      the compute engine says so, or the CI has shown its runner offline in two looks, `timings.orphan` apart:
              then its instance is expired and its machine ended, and it is gone once that is certain
    online    the CI sees its runner: it has lost contact with us alone, and may be at work. It is marked, never ended.
    unknown   not known yet

Since when a runner has been offline is an observation of the store: it outlives this process, and another service's
look counts too. What has been proven once is not asked again, for a machine that is gone stays so.
"""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

from bullpen.config import Settings
from bullpen.errors import Refused, Unavailable
from bullpen.liveness import evidence
from bullpen.liveness.evidence import Evidence
from bullpen.liveness.lost_worker import Loss
from bullpen.pool import lifecycle
from bullpen.ports import Ports
from bullpen.workflows.alerts import Voice

BY = "follower"
OFFLINE = "lost runner offline"
ENDING = 300.0  # seconds in which a machine that was to be ended should have


class Machine(StrEnum):
    GONE = "gone"
    ONLINE = "online"
    UNKNOWN = "unknown"


class Proof:
    def __init__(self, ports: Ports, settings: Settings, voice: Voice) -> None:
        self._ports = ports
        self._settings = settings
        self._voice = voice
        self._known: dict[str, Machine] = {}
        self._online_at: dict[str, datetime] = {}
        """When the CI showed the runner of a lost worker last."""
        self._ending: dict[str, float] = {}
        """Since when the end of a machine has been asked for and is not certain, by loss."""

    def of(self, loss: Loss) -> Machine:
        return self._known.get(loss.key, Machine.UNKNOWN)

    def seen_online(self, loss: Loss) -> datetime | None:
        """When its runner was online after it was lost, the last time that we have seen it; None: never."""
        return self._online_at.get(loss.key)

    def is_new(self, loss: Loss) -> bool:
        """True if it was never asked about."""
        return loss.key not in self._known

    async def gather(self, losses: Sequence[Loss]) -> None:
        """Ask about all of these whose machine is not known to be gone. `losses` are all that there are."""
        self._known = {loss.key: self.of(loss) for loss in losses}
        self._ending = {key: since for key, since in self._ending.items() if key in self._known}
        self._online_at = {key: at for key, at in self._online_at.items() if key in self._known}
        open_ = [loss for loss in losses if self.of(loss) is not Machine.GONE]
        if not open_:
            return
        seen = await evidence.gather(self._ports, [loss.worker.instance_id for loss in open_])
        mute = [loss for loss in open_ if not seen.is_ending(loss.worker.instance_id)]
        await self._end([loss for loss in open_ if loss not in mute], seen, "its machine is gone")
        if mute:
            await self._end(await self._offline(mute), seen, "its worker is lost and its runner offline")

    async def _offline(self, mute: Sequence[Loss]) -> list[Loss]:
        """Those that the CI has not seen for long enough; the others are marked. None, as long as it cannot be asked:
        that concerns these alone, and is no reason to leave other runs as they are."""
        try:
            listed = await self._ports.ci.registrations()
        except (Refused, Unavailable) as exc:
            self._known |= dict.fromkeys((loss.key for loss in mute), Machine.UNKNOWN)
            self._voice.alarm(f"whether lost runners are online cannot be seen: {exc}")
            return []
        online = {one.name for one in listed if one.online is not False}
        now = self._ports.clock.now()
        for loss in mute:
            if loss.worker.instance_id in online:
                self._known[loss.key], self._online_at[loss.key] = Machine.ONLINE, now
                self._voice.alarm(f"{loss.worker.instance_id} is lost, but its runner is online: it is left alone")
            else:
                self._known[loss.key] = Machine.UNKNOWN
        offline = [loss for loss in mute if self.of(loss) is not Machine.ONLINE]
        # All of them by their keys, and none that is online: who comes back to the list is forgotten, and counts anew.
        since = await self._ports.observations.observe(OFFLINE, [loss.key for loss in offline], now)
        return [loss for loss in offline if lifecycle.later(since[loss.key], self._settings.timings.orphan) <= now]

    async def _end(self, condemned: Sequence[Loss], seen: Evidence, why: str) -> None:
        """Have instance and machine of each ended, if they are not."""
        ids = [loss.worker.instance_id for loss in condemned]
        live = [one for id in ids if (one := seen.live_record(id)) is not None]
        fates = await lifecycle.expire_and_terminate(self._ports, self._settings, live, why, by=BY) if live else {}
        # Whoever marked one of these may have died before he ended it.
        marked = [one for id in ids if id not in fates and (one := seen.instances.get(id)) is not None]
        certain = await lifecycle.terminate(self._ports, self._settings, marked, by=BY)
        time = asyncio.get_running_loop().time()
        for loss in condemned:
            id = loss.worker.instance_id
            if (
                fates.get(id) is lifecycle.Fate.TERMINATED
                or id in certain
                or (id not in fates and _has_ended(seen, id))
            ):
                self._known[loss.key] = Machine.GONE
                self._ending.pop(loss.key, None)
            elif time - self._ending.setdefault(loss.key, time) >= ENDING:
                self._voice.alarm(f"{id} was to be ended, and nobody can say that it has: what it ran is left as it is")
            if fates.get(id, lifecycle.Fate.NOT_OURS) is not lifecycle.Fate.NOT_OURS:
                self._voice.tell(f"{id} is {fates[id]}: {why}")


def _has_ended(seen: Evidence, id: str) -> bool:
    """Also if neither a record nor a machine is left: it ended so long ago that both are forgotten."""
    return seen.is_gone(id) or (id not in seen.instances and seen.is_ending(id))
