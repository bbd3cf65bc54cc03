"""Reconcile one run: ask GitHub for its status, and act on it.

    in progress   lost runners are replaced where jobs wait for them
    completed     its lost jobs are run again; if there are none, its runners go back to the pool

The holdings are gathered before GitHub is asked, never after. If another controller settled a loss in between, it did
so with a re-run, and then GitHub's answer shows that.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence

from bullpen.config import Settings
from bullpen.errors import NotFound
from bullpen.liveness.lost_worker import settle
from bullpen.model.times import later
from bullpen.ports import Ports, WorkflowRun
from bullpen.workflows import release_ended
from bullpen.workflows.alerts import ReportCollector
from bullpen.workflows.holdings import RunHoldings
from bullpen.workflows.machine_state import MachineStates
from bullpen.workflows.replace_runners import RunnerReplacement
from bullpen.workflows.reprovision import RunnerProvider
from bullpen.workflows.rescue import Rescue, RescueStatus

BY = "workflows"
MISSING = "run not found"
TIMES = 3  # that a run may change during its reconciliation before it is left to the next pass


class RunReconciler:
    """`stop` ends provisions at work. `on_queued` is called with the label of a scale set for which a job waits that
    was run again."""

    def __init__(
        self,
        ports: Ports,
        settings: Settings,
        machines: MachineStates,
        report: ReportCollector,
        stop: asyncio.Event,
        on_queued: Callable[[Sequence[str]], object],
    ) -> None:
        self._ports = ports
        self._settings = settings
        self._report = report
        self._missing: dict[str, tuple[RunHoldings, str]] = {}
        """Runs that GitHub did not find when they were last reconciled, and its message."""
        runners = RunnerProvider(ports, settings, stop)
        self._rescue = Rescue(ports, settings, machines, runners, report)
        self._replacement = RunnerReplacement(ports, settings, machines, runners, report, on_queued)

    async def reconcile(self, held: RunHoldings) -> None:
        """`held` names its repository."""
        try:
            for _ in range(TIMES):
                if not await self._moved(held, await self._ports.workflows.run(held.repository, held.run)):
                    break
            self._missing.pop(held.run, None)
        except NotFound as exc:
            self._missing[held.run] = held, str(exc)

    async def _moved(self, held: RunHoldings, run: WorkflowRun) -> bool:
        """Act on the status. True if the run has moved on in between, and must be read again at once."""
        if not run.completed:
            await self._replacement.replace_lost(run, held)
            return False
        await release_ended.end_stale(self._ports, self._settings, run, held.stale, self._report)
        if held.lasting:
            await release_ended.end_busy(self._ports, self._settings, run, held.lasting, self._report)
        status = await self._rescue.rescue(run, held)
        if status is RescueStatus.NOTHING:
            await self._give_back(held, run)
        return status is RescueStatus.MOVED

    async def _give_back(self, held: RunHoldings, run: WorkflowRun) -> None:
        released = await release_ended.give_back(self._ports, self._settings, run, held, self._report)
        if not released:
            return
        now = await self._ports.workflows.run(run.repository, run.run)
        if not now.completed:
            # It was re-run at the same moment, and needs the runners that it had.
            await self._replacement.restore(now, [one.run_id for one in released])
        elif busy := [id for one in released for id in one.busy]:
            await release_ended.end_busy(self._ports, self._settings, now, busy, self._report)

    async def forget_missing(self, held: Collection[str]) -> None:
        """Give up the runs that GitHub did not find twice, `timings.orphan` apart: deleted, or no longer visible. Their
        runners stay until their threshold, and nothing can be run again."""
        self._missing = {run: entry for run, entry in self._missing.items() if run in held}
        now = self._ports.clock.now()
        since = await self._ports.observations.observe(MISSING, sorted(self._missing), now)
        for run, (gone, why) in self._missing.items():
            if later(since[run], self._settings.timings.orphan) > now:
                continue
            effect = "its runners stay until their threshold, and none of its jobs is run again"
            self._report.alarm("run given up", run=run, repository=gone.repository, reason=why, effect=effect)
            for loss in gone.losses:
                await settle(self._ports, loss.worker, why, by=BY)
