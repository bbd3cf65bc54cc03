"""The workflow controller: reconciles the workflow runs that have runners of the pool, until they have completed and
everything is given back.

A webhook only wakes it, and its content enters no decision. If a webhook is lost, doubled, late or out of order, that
costs one reconciliation at most, and no request to GitHub if the pool holds nothing for its run. What no webhook
reports is found by polling, once in `github.poll` seconds for each run that holds instances or has lost some. So only
ends wake it: the end of a run; and the end of a job in a run that has lost a worker, because others may wait for it. A
busy pool has hundreds of other events a minute.

Any number of controllers may work at once. One controller reconciles several runs at a time, because a run that waits
for new runners takes minutes; but each run only once at a time.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from bullpen.config import Settings
from bullpen.errors import BullpenError, Outdated, Throttled
from bullpen.liveness.lost_worker import WorkerLoss, settle, worker_losses
from bullpen.model.worker import ACTIVE, Worker
from bullpen.ports import Ports
from bullpen.workflows import holdings
from bullpen.workflows.alerts import ControllerReport, ReportCollector
from bullpen.workflows.holdings import RunHoldings
from bullpen.workflows.lasting_jobs import LastingJobs
from bullpen.workflows.machine_state import MachineStates
from bullpen.workflows.reconcile_run import RunReconciler

BY = "workflows"
PAGE = 1000  # lost workers of one pass
MOST_NOTES = 10_000  # runs noted between two passes: polling finds those beyond
STRANGERS = 10.0  # seconds that a note waits if the pool held nothing for its run in the last pass
AT_ONCE = 16  # runs
PATIENCE = 5.0  # seconds that a pass waits for its runs; longer ones go on, and a later pass reports them
FIRST_BACKOFF = 2.0  # seconds after a failure
LONGEST_BACKOFF = 60.0


class WorkflowController:
    """Call `run_once()` every other second, and `stop()` at the end.

    `on_queued` is called with the label of a scale set for which a job waits that was run again.
    """

    def __init__(
        self, ports: Ports, settings: Settings, on_queued: Callable[[Sequence[str]], object] = lambda labels: None
    ) -> None:
        self._ports = ports
        self._settings = settings
        self._report = ReportCollector()
        self._stopped = asyncio.Event()
        self._machines = MachineStates(ports, settings, self._report)
        self._runs = RunReconciler(ports, settings, self._machines, self._report, self._stopped, on_queued)
        self._lasting = LastingJobs(ports, settings)
        self._noted: dict[str, str] = {}
        self._woken = False
        self._poll_at = 0.0
        self._quiet_until = 0.0
        self._repositories: dict[str, str] = {}
        """The repositories of held runs, where only a note has named them."""
        self._held: frozenset[str] = frozenset()
        """Runs for which the pool held something in the last pass."""
        self._strangers_at = 0.0
        """When notes of other runs are read: by then the pool may hold something for them."""
        self._lossy: frozenset[str] = frozenset()
        """Runs that had lost a worker in the last pass."""
        self._failed: dict[str, tuple[int, float]] = {}
        """Runs whose reconciliation failed: how often in a row, and when to try again."""
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._places = asyncio.Semaphore(AT_ONCE)
        self._missed: set[str] = set()
        """Runs that became due while they were being reconciled."""

    def note(self, repository: str, run: str) -> None:
        """Something happened to a run: reconcile it soon. Costs no request if the pool holds nothing for it."""
        if run in self._noted or len(self._noted) < MOST_NOTES:
            self._noted[run] = repository

    def note_job(self, repository: str, run: str) -> None:
        """A job of a run has ended: as `note` if the run has lost a worker, else nothing."""
        if run in self._lossy:
            self.note(repository, run)

    def wake(self) -> None:
        """Workers were lost: check soon whether a run misses them."""
        self._woken = True

    def adopt(self, settings: Settings) -> None:
        """Use these `liveness.*` from now on: only whether losses are tracked and rescheduled matters here."""
        self._settings = settings

    async def run_once(self) -> ControllerReport:
        """One pass: the runs that were noted, those that lost a worker since, and now and then every held run."""
        self._reap()
        time = asyncio.get_running_loop().time()
        polls = time >= self._poll_at
        again = [run for run, (_, at) in self._failed.items() if at <= time]
        if time >= self._quiet_until and (polls or self._has_news(time) or self._woken or again):
            noted, self._noted, self._woken = self._noted, {}, False
            try:
                begun = await self._pass(noted, again, polls=polls)
            except Exception:
                self._noted, self._woken = noted | self._noted, True
                raise
            if polls:
                self._poll_at = time + self._settings.github.poll
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    await asyncio.gather(*map(asyncio.shield, begun), return_exceptions=True)
            if polls:
                await self._runs.forget_missing(self._held)
            self._reap()
        return self._report.take()

    async def reconcile_all(self) -> ControllerReport:
        """One whole pass over all held runs, to its end: for a process that does it once, as refresh does."""
        begun = await self._pass({}, [], polls=True)
        await asyncio.gather(*begun, return_exceptions=True)
        await self._runs.forget_missing(self._held)
        self._reap()
        return self._report.take()

    async def held_runs(self) -> list[str]:
        """The runs that a whole pass would reconcile. Changes nothing, and asks GitHub nothing."""
        losses = await worker_losses(self._ports, self._settings, await self._owing())
        return list(await holdings.gather(self._ports, self._settings, losses))

    async def stop(self) -> None:
        """Return when the work in progress is finished, or given back."""
        self._stopped.set()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _pass(self, noted: dict[str, str], again: list[str], *, polls: bool) -> list[asyncio.Task[None]]:
        """Begin to reconcile the runs that are due."""
        losses = await self._losses()
        fresh = [loss.run for loss in losses if self._machines.is_new(loss)]
        if polls or fresh:
            # Before the runners of a label are counted: an instance that is gone does not serve it.
            await self._machines.gather(losses)
        held = await holdings.gather(self._ports, self._settings, losses, self._lasting)
        self._held, self._lossy = frozenset(held), frozenset(loss.run for loss in losses)
        self._strangers_at = asyncio.get_running_loop().time() + STRANGERS
        known = self._repositories | noted
        self._repositories = {run: known[run] for run in held if run in known}
        self._failed = {run: entry for run, entry in self._failed.items() if run in held}
        due = held if polls else dict.fromkeys([*noted, *again, *fresh])
        return [begun for run in due if run in held and (begun := self._begin(held[run])) is not None]

    def _has_news(self, time: float) -> bool:
        """True if there are notes to act on now. Notes of runs for which the pool held nothing wait for each other:
        most stay that way, and one read of the store answers for all."""
        return bool(self._noted) and (time >= self._strangers_at or any(run in self._held for run in self._noted))

    async def _losses(self) -> list[WorkerLoss]:
        """All losses. A worker that is active again, with its runner and its job, has lost nothing."""
        listed = await self._owing()
        # The list may lag, and a machine may be ended because of what it says: read the records.
        stored = await self._ports.workers.workers([one.id for one in listed]) if listed else {}
        losses = await worker_losses(self._ports, self._settings, list(stored.values()))
        for loss in losses:
            if loss.worker.state is ACTIVE and await settle(self._ports, loss.worker, "it came back", by=BY):
                self._report.note("lost worker came back", worker=loss.worker.id)
        return [loss for loss in losses if loss.worker.state is not ACTIVE]

    async def _owing(self) -> list[Worker]:
        rules = self._settings.liveness
        return await self._ports.workers.owing(PAGE) if rules.tracking and rules.reschedule else []

    def _begin(self, held: RunHoldings) -> "asyncio.Task[None] | None":
        run, owner = held.run, held.repository or self._repositories.get(held.run, "")
        if not owner:
            return None
        if run in self._tasks:
            self._missed.add(run)
            return None
        task = self._tasks[run] = asyncio.get_running_loop().create_task(self._try(replace(held, repository=owner)))
        return task

    async def _try(self, held: RunHoldings) -> None:
        """Reconcile one run. A failure raises an alarm, and is tried again, later each time."""
        async with self._places:
            try:
                await self._runs.reconcile(held)
            except Exception as exc:
                self._back_off(held.run, exc)
                if isinstance(exc, Outdated) or not isinstance(exc, BullpenError):
                    raise
                self._report.alarm("cannot reconcile run", run=held.run, repository=held.repository, error=exc)
            else:
                self._failed.pop(held.run, None)

    def _back_off(self, run: str, failure: Exception) -> None:
        time = asyncio.get_running_loop().time()
        failures = self._failed.get(run, (0, 0.0))[0] + 1
        self._failed[run] = (failures, time + min(FIRST_BACKOFF ** min(failures, 16), LONGEST_BACKOFF))
        if isinstance(failure, Throttled):
            self._quiet_until = max(self._quiet_until, time + failure.retry_after)

    def _reap(self) -> None:
        """Forget the tasks that have ended. Raise their unexpected errors."""
        ended = {run: task for run, task in self._tasks.items() if task.done()}
        for run in ended:
            del self._tasks[run]
            if run in self._missed:
                self._missed.discard(run)
                self._noted.setdefault(run, self._repositories.get(run, ""))
        for task in ended.values():
            task.result()
