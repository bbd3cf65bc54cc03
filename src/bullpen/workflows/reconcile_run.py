"""One look at one run: ask GitHub how it stands, and do what follows from that.

    goes on      what it lost is replaced where jobs wait for it
    completed    its lost jobs are run again; if there are none, everything goes back to the pool

What we have of it is gathered before GitHub is asked, never after: somebody who has seen to a loss meanwhile did so
with a re-run, and then GitHub's answer shows it.
"""

import asyncio
from collections.abc import Collection

from bullpen.config import Settings
from bullpen.errors import NotFound
from bullpen.liveness.debt import settle
from bullpen.pool.lifecycle import later
from bullpen.ports import Ports, WorkflowRun
from bullpen.workflows import release_ended, stale
from bullpen.workflows.alerts import Voice
from bullpen.workflows.holdings import Held
from bullpen.workflows.machine_state import Proof
from bullpen.workflows.replace_runners import Stranded
from bullpen.workflows.reprovision import Runners
from bullpen.workflows.rescue import Rescue, Rescued

BY = "follower"
MISSING = "run not found"
TIMES = 3  # that a run may move on under our hands before we leave it to the next look


class Look:
    """`stop` ends provisions at work."""

    def __init__(self, ports: Ports, settings: Settings, proof: Proof, voice: Voice, stop: asyncio.Event) -> None:
        self._ports = ports
        self._settings = settings
        self._voice = voice
        self._missing: dict[str, tuple[Held, str]] = {}
        """Runs that were not there in the last look at each, and what was said."""
        runners = Runners(ports, settings, stop)
        self._rescue = Rescue(ports, settings, proof, runners, voice)
        self._stranded = Stranded(ports, settings, runners, self._rescue, voice)

    async def at(self, held: Held) -> None:
        """`held` names its repository."""
        try:
            for _ in range(TIMES):
                if not await self._moved(held, await self._ports.workflows.run(held.repository, held.run)):
                    break
            self._missing.pop(held.run, None)
        except NotFound as exc:
            self._missing[held.run] = held, str(exc)

    async def _moved(self, held: Held, run: WorkflowRun) -> bool:
        """See to it as it stands; whether it has moved on meanwhile, and wants another look at once."""
        if not run.completed:
            await self._stranded.see_to(run, held)
            return False
        await stale.end(self._ports, self._settings, run, held.stale, self._voice)
        rescued = await self._rescue.rescue(run, held)
        if rescued is Rescued.NOTHING:
            await self._give_back(held, run)
        return rescued is Rescued.MOVED

    async def _give_back(self, held: Held, run: WorkflowRun) -> None:
        released = await release_ended.give_back(self._ports, self._settings, run, held, self._voice)
        if not released:
            return
        now = await self._ports.workflows.run(run.repository, run.run)
        if not now.completed:
            # Somebody ran it again at the same moment, and counts on the runners that it had.
            await self._stranded.restore(now, [one.run_id for one in released])
        elif busy := [id for one in released for id in one.busy]:
            await stale.end_busy(self._ports, self._settings, now, busy, self._voice)

    async def forget_missing(self, held: Collection[str]) -> None:
        """Give up those of these runs that were not there in two looks, `timings.orphan` apart: deleted, or not for us
        to see. Their runners stay until their threshold, and nothing can be run again."""
        self._missing = {run: entry for run, entry in self._missing.items() if run in held}
        now = self._ports.clock.now()
        since = await self._ports.observations.observe(MISSING, sorted(self._missing), now)
        for run, (gone, why) in self._missing.items():
            if later(since[run], self._settings.timings.orphan) > now:
                continue
            self._voice.alarm(f"{why}: its runners stay until their time is over, and nothing of it is run again")
            for loss in gone.losses:
                await settle(self._ports, loss.worker, why, by=BY)
