"""The controllers of `bullpen serve`: loops that run side by side, so that a failure of one does not stop another.

    infrastructure  closes gaps in the infrastructure, if something was removed
    debts           pays debts that are due
    sweep           finds leases that ran out, gives the jobs of lost workers to others, fails jobs without any runner
    reap            ends instances past their threshold, decides overdue provisions, purges old records
    reconcile       brings machines, records, registrations and tickets into agreement
    sources         removes the files of projects that no job needs any more
    warm            keeps each class at its idle target
    runs            where the CI is GitHub: releases the runners of runs that completed, runs lost jobs again
    sets            where the CI is GitHub: listens to scale sets, and keeps runners for their jobs
    settings        reads the settings file again when it has changed
    health          notes loops that keep failing in the store, for `bullpen status`

Any number of services may run on one store: every write is conditional, so two that do the same work waste a little of
it and do nothing twice. A service that is killed leaves debts, which the next one pays.

A loop that keeps failing is named in `/readyz`, in `status` and in an error log. It does not make the service unready:
while GitHub is away, `runs` fails, and heartbeats must still be received.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial

from bullpen.concurrency import gather_or_cancel, on_event
from bullpen.config import Settings
from bullpen.errors import BullpenError, Outdated
from bullpen.liveness import LivenessController
from bullpen.pool import debts
from bullpen.pool.clock_skew import ClockCheck
from bullpen.pool.live_instances import every_live
from bullpen.pool.setbacks import Setbacks, reason_of
from bullpen.ports import Chance, Ports
from bullpen.ports.health import NOTED_FOR, FailingLoop
from bullpen.refresh import desired, reap, reconcile, warm
from bullpen.refresh.action import Action, Hindered, Plan, PlanRunner, mend
from bullpen.scale_sets.controller import ScaleSetController
from bullpen.settings.reloading import Reloader
from bullpen.sources.upkeep import tidy
from bullpen.structured_log import get_logger
from bullpen.workflows.controller import WorkflowController

BY = "serve"
DEBTS_AT_ONCE = 100
PURGE_PAGE = 1000
JITTER = 0.2  # of each pause, either way: replicas that started together do not stay together
LONGEST_PAUSE = 60.0  # seconds between attempts of a duty that keeps failing
CLOCKLESS = ("infrastructure", "sweep", "health", "settings", "sets")
"""Loops that end nothing by the wall clock: a worker is lost only after a window on the monotonic one (liveness/lease),
and so is the holder of a scale set."""
LONGEST_RUN = 300.0  # seconds for one run of a duty: longer than any engine's own time-outs together
FAILS_FOR = 30.0  # seconds without a success after which a loop counts as failing
SAID_AGAIN_AFTER = 600.0  # seconds between two error logs of a loop that keeps failing

Work = Callable[[], Awaitable[object]]

log = get_logger("bullpen.controllers")


class Unpaid(BullpenError):
    """Some debts could not be paid. Each has its own pause, and all others were paid: the loop keeps its pace."""


class Loop:
    """One loop and its pace. A failure is logged and makes the next pause longer. Only Outdated ends the loop: a newer
    program has taken over the store."""

    def __init__(self, name: str, every: float, work: Work, chance: Chance) -> None:
        self.name = name
        self.every = every
        self._work = work
        self._chance = chance
        self._failures = 0  # in a row, as far as they lengthen the pause
        self._times = 0  # in a row, since `_since` on the loop's clock
        self._since = 0.0
        self._error = ""
        self._said_at: float | None = None  # when the error was last logged
        self._alive_at: float | None = None
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Work again soon: there is something to do."""
        self._woken.set()

    async def run_once(self) -> bool:
        """Do the work once; returns whether it succeeded. Raises nothing but Outdated."""
        self._alive_at = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(LONGEST_RUN):
                await self._work()
        except Outdated:
            raise
        except TimeoutError:
            self._note_failure(TimeoutError(f"did not end within {LONGEST_RUN:g} s and was cancelled"))
        except Exception as exc:
            self._note_failure(exc)
        else:
            self._note_success()
        self._alive_at = asyncio.get_running_loop().time()
        return self._times == 0

    async def run(self, stop: asyncio.Event) -> None:
        """Do the work until `stop`; a run that has begun is finished first."""
        call_off = on_event(stop, self.wake)
        try:
            while not stop.is_set():
                self._woken.clear()
                await self.run_once()
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._pause()):
                        await self._woken.wait()
        finally:
            call_off()

    def is_alive(self) -> bool:
        """True if it ran recently; False before its first run."""
        allowed = LONGEST_RUN + 2 * max(self.every, LONGEST_PAUSE)
        return self._alive_at is not None and asyncio.get_running_loop().time() - self._alive_at < allowed

    def failing(self, now: datetime) -> FailingLoop | None:
        """Since when, and why, if it keeps failing; `now` is the wall clock's time."""
        if not self._is_failing():
            return None
        return FailingLoop(self.name, now - timedelta(seconds=self._lasts()), self._error)

    def _lasts(self) -> float:
        return asyncio.get_running_loop().time() - self._since

    def _is_failing(self) -> bool:
        return self._times > 1 and self._lasts() >= FAILS_FOR

    def _note_failure(self, failure: Exception) -> None:
        now, error = asyncio.get_running_loop().time(), reason_of(failure)
        self._log(failure, is_known=self._times > 0 and error == self._error)
        self._since = self._since if self._times else now
        self._times, self._error = self._times + 1, error
        if self._is_failing() and (self._said_at is None or now - self._said_at >= SAID_AGAIN_AFTER):
            self._said_at = now
            lasts = round(self._lasts())
            log.error("controller keeps failing", controller=self.name, times=self._times, seconds=lasts, error=error)
        # Each debt that could not be paid has a pause of its own.
        self._failures = 0 if isinstance(failure, Unpaid) else self._failures + 1

    def _log(self, failure: Exception, *, is_known: bool) -> None:
        """Once for the same error: a loop that fails again for the same reason says nothing new."""
        if not isinstance(failure, BullpenError | TimeoutError):
            log.error("controller failed unexpectedly", exc_info=failure, controller=self.name)
        elif not isinstance(failure, Unpaid):  # the payer of debts has logged it
            level = logging.DEBUG if is_known else logging.WARNING
            log.log(level, "controller failed", controller=self.name, error=failure)

    def _note_success(self) -> None:
        if self._said_at is not None:
            log.info("controller works again", controller=self.name, seconds=round(self._lasts()))
        self._times, self._failures, self._said_at = 0, 0, None

    def _pause(self) -> float:
        pause = min(self.every * 2.0 ** min(self._failures, 16), max(self.every, LONGEST_PAUSE))
        return pause * self._chance.uniform(1 - JITTER, 1 + JITTER)


class Service:
    """All loops of one process, which `bullpen status` names. `runs` is woken by webhooks."""

    def __init__(self, ports: Ports, settings: Settings, reloader: Reloader | None = None, process: str = BY) -> None:
        self._ports = ports
        self._settings = settings
        self._reloader = reloader
        self._process = process
        self._setbacks = Setbacks()
        self._liveness = LivenessController(ports, settings, receives=True)
        self.sets = ScaleSetController(ports, settings, process, on_missing=self._wake_warm)
        self.runs = WorkflowController(ports, settings, on_queued=self.sets.note_queued)
        self._cannot: list[Action] = []  # what warming could not do the last time: logged once, not every 5 s
        self._clock = ClockCheck(ports, settings)
        duties: tuple[tuple[str, float, Work], ...] = (
            ("infrastructure", 300.0, self._mend),  # first at the start; later only accidents open a gap
            ("debts", 1.0, self._pay_debts),  # a debt is due seconds after its maker should have paid it
            ("sweep", 1.0, self._sweep),  # a dead worker is noticed this much later at most
            ("reap", 5.0, self._reap),  # thresholds are minutes
            # Asks the compute engine and the CI for everything they have; of GitHub, many pages of a limited number.
            ("reconcile", 60.0 if settings.on_github else 20.0, self._reconcile),
            ("sources", 300.0, self._tidy_sources),  # what goes was not used for an hour
            ("warm", 5.0, self._warm),
            ("health", 10.0, self._note_health),
            # A webhook waits so long at most; without one, github.poll says when to ask.
            ("runs", 2.0, self._reconcile_runs),
            # A set whose holder died is taken over this much later at most; a set that was removed can wait.
            ("sets", 2.0 if settings.github.scale_sets else 60.0, self._hold_sets),
            ("settings", 2.0, self._read_settings),  # an operator who saves the file waits for the effect
        )
        on_github = settings.on_github
        absent = {name for name, has in (("runs", on_github), ("sets", on_github), ("settings", reloader)) if not has}
        self.loops = tuple(
            Loop(name, every, work if name in CLOCKLESS else partial(self._by_the_right_clock, work), ports.chance)
            for name, every, work in duties
            if name not in absent
        )

    def adopt(self, settings: Settings) -> None:
        """Use other `liveness.*` from now on, in every loop; all other settings stay as they are."""
        self._settings = settings
        self._liveness.adopt(settings)
        self.runs.adopt(settings)
        self.sets.adopt(settings)

    async def run(self, stop: asyncio.Event) -> None:
        """Run every loop until `stop`; returns when all have ended."""
        try:
            await gather_or_cancel([loop.run(stop) for loop in self.loops])
        finally:
            await self.runs.stop()
            await self.sets.stop()
        with suppress(BullpenError):  # it is forgotten in time
            await self._ports.health.note(self._process, [], self._ports.clock.now())

    def is_alive(self) -> bool:
        return all(loop.is_alive() for loop in self.loops)

    def failing(self) -> list[FailingLoop]:
        """The loops of this process that keep failing."""
        now = self._ports.clock.now()
        return [failing for loop in self.loops if (failing := loop.failing(now)) is not None]

    async def _note_health(self) -> None:
        """Also where nothing fails: `down` asks whether a service would warm the pool again."""
        until = self._ports.clock.now() + timedelta(seconds=NOTED_FOR)
        await self._ports.health.note(self._process, self.failing(), until)

    async def _by_the_right_clock(self, work: Work) -> None:
        """For loops that end what is late: they do nothing while the clock of this machine is wrong."""
        await self._clock.require_right()
        await work()

    async def _mend(self) -> None:
        failures: list[BullpenError] = []
        for gap in await self._ports.infrastructure.gaps():
            _report("infrastructure", [Action(gap.what, gap.subject, gap.reason)])
            if (failure := await mend(self._ports.infrastructure, gap)) is not None:
                failures.append(failure)
        if failures:
            raise Hindered(failures)

    async def _pay_debts(self) -> None:
        setbacks = self._setbacks
        for paid in await debts.pay_due(self._ports, self._settings, DEBTS_AT_ONCE, by=BY, setbacks=setbacks):
            paid.log(log, logging.INFO, controller="debts")
        if failed := setbacks.reasons():
            (id, why), *others = failed.items()
            raise Unpaid(f"{id}: {why}" + (f" (and {len(others)} more)" if others else ""))

    async def _sweep(self) -> None:
        done = await self._liveness.run_once()
        for id in done.left:
            log.warning("instance ended before its machine is reclaimed", instance=id)
        if done.sweep.lost:
            self.runs.wake()
        for alarm in done.sweep.alarms:
            log.error("leases are not judged", reason=alarm)

    async def _reap(self) -> None:
        ports, settings = self._ports, self._settings
        runner = PlanRunner()
        await _perform("reap", desired.plans(ports, settings), runner)
        await _perform("reap", reap.decisions(ports, settings), runner)
        await _perform("reap", reap.plans(ports, settings, await every_live(ports)), runner)
        await ports.records.purge(ports.clock.now(), PURGE_PAGE)
        runner.check()

    async def _reconcile(self) -> None:
        live, runner = await every_live(self._ports), PlanRunner()
        await _perform("reconcile", reconcile.plans(self._ports, self._settings, live, dry_run=False), runner)
        runner.check()

    async def _tidy_sources(self) -> None:
        if freed := await tidy(self._ports, self._settings):
            log.info("files of projects removed", bytes=freed)

    async def _warm(self) -> None:
        live, runner = await every_live(self._ports), PlanRunner()
        self._cannot = await _perform("warm", warm.plans(self._ports, self._settings, live), runner, self._cannot)
        for holder in self.sets.held.values():
            holder.supplier.note_launches(runner.launches)
        runner.check()

    def _wake_warm(self) -> None:
        """A scale set lacks machines: launch them now."""
        for loop in self.loops:
            if loop.name == "warm":
                loop.wake()

    async def _hold_sets(self) -> None:
        await self.sets.run_once()

    async def _read_settings(self) -> None:
        assert self._reloader is not None, "a duty only where there is one"
        self._reloader.look()

    async def _reconcile_runs(self) -> None:
        report = await self.runs.run_once()
        for event in report.done:
            event.log(log, logging.INFO, controller="runs")
        for alarm in report.alarms:
            alarm.log(log, logging.ERROR, controller="runs")


async def _perform(
    controller: str, plans: AsyncIterator[Plan], runner: PlanRunner, known: Sequence[Action] = ()
) -> list[Action]:
    """Perform each plan; returns what could not be done. Those in `known` are not logged again. A plan that fails does
    not stop the others; `runner` has the failures."""
    cannot: list[Action] = []
    async for plan in plans:
        if plan.is_certain:
            _report(controller, plan.actions)
        reported = await runner.perform(plan)
        _report(controller, [one for one in reported if one.is_done])
        cannot += [one for one in reported if not one.is_done]
    _report(controller, [one for one in cannot if one not in known])
    return cannot


def _report(controller: str, actions: Iterable[Action]) -> None:
    for one in actions:
        level = logging.INFO if one.is_done else logging.WARNING
        log.log(level, one.what, controller=controller, subject=one.subject, reason=one.reason)
