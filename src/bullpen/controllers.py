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
    history         books the time of machines by the hour, and forgets what is older than history.keep
    activity        stores what the other loops did, and why

Any number of services may run on one store: every write is conditional, so two that do the same work waste a little of
it and do nothing twice. A service that is killed leaves debts, which the next one pays.

A loop that keeps failing is named in `/readyz`, in `status` and in an error log. It does not make the service unready:
while GitHub is away, `runs` fails, and heartbeats must still be received.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial

from bullpen.background_loop import Loop, Unpaid, Work
from bullpen.concurrency import gather_or_cancel
from bullpen.config import Settings
from bullpen.errors import BullpenError
from bullpen.history.activity import ActivityLog
from bullpen.history.bookkeeper import Bookkeeper, quietly
from bullpen.inventory.offers import OfferSamples
from bullpen.lazy_dataclass import dataclass
from bullpen.liveness import LivenessController, LivenessPass
from bullpen.pool import debts
from bullpen.pool.clock_skew import ClockCheck
from bullpen.pool.live_instances import every_live
from bullpen.pool.setbacks import Setbacks
from bullpen.ports import Ports
from bullpen.ports.health import NOTED_FOR, FailingLoop
from bullpen.refresh import desired, reap, reconcile, warm
from bullpen.refresh.action import Action, Hindered, Plan, PlanRunner, mend
from bullpen.scale_sets.controller import ScaleSetController
from bullpen.settings.reloading import Reloader
from bullpen.sources.upkeep import tidy
from bullpen.structured_log import TOLD_LAST, LogEvent, get_logger
from bullpen.workflows.controller import WorkflowController

BY = "serve"
DEBTS_AT_ONCE = 100
PURGE_PAGE = 1000
CLOCKLESS = ("infrastructure", "sweep", "health", "settings", "sets", "activity")
"""Loops that end nothing by the wall clock: a worker is lost only after a window on the monotonic one (liveness/lease),
and so is the holder of a scale set."""

log = get_logger("bullpen.controllers")


@dataclass(slots=True)
class ControllerCounts:
    """What the loops of this process have done since it began, for metrics. `suspects` and `braked` are of the last
    sweep: workers past their lease, and those of them that only the brake has kept from being declared lost."""

    leases_lost: int = 0
    workers_cleaned_up: int = 0
    jobs_rescheduled: int = 0
    jobs_given_up: int = 0
    debts_paid: int = 0
    suspects: int = 0
    braked: int = 0

    def note(self, done: LivenessPass) -> None:
        self.leases_lost += done.sweep.unexpected
        self.workers_cleaned_up += done.sweep.cleaned
        self.jobs_rescheduled += len(done.rescheduling.requeued)
        self.jobs_given_up += len(done.rescheduling.given_up)
        self.suspects, self.braked = done.sweep.suspects, done.sweep.braked


class Service:
    """All loops of one process, which `bullpen status` names. `runs` is woken by webhooks."""

    def __init__(self, ports: Ports, settings: Settings, reloader: Reloader | None = None, process: str = BY) -> None:
        self._ports = ports
        self._settings = settings
        self._reloader = reloader
        self._reloaded = (reloader.settings, reloader.refused) if reloader is not None else None
        self._process = process
        self._setbacks = Setbacks()
        self._liveness = LivenessController(ports, settings, receives=True)
        self.activity = ActivityLog(ports, process)
        self.sets = ScaleSetController(
            ports, settings, process, on_missing=self._wake_warm, note=partial(self.activity.note, "sets")
        )
        self.runs = WorkflowController(ports, settings, on_queued=self.sets.note_queued)
        self._cannot: list[Action] = []  # what warming could not do the last time: logged once, not every 5 s
        self._clock = ClockCheck(ports, settings)
        self.counts = ControllerCounts()
        self._bookkeeper = Bookkeeper(ports, settings)
        self.offers = OfferSamples()
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
            ("history", 30.0, self._bookkeeper.run_once),  # machines that have ended, and hours that are over
            ("activity", 5.0, self.activity.flush),  # people read it while they wonder what happens
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
        await quietly(self.activity.flush())
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
            self._report("infrastructure", [Action(gap.what, gap.subject, gap.reason)])
            if (failure := await mend(self._ports.infrastructure, gap)) is not None:
                failures.append(failure)
        if failures:
            raise Hindered(failures)

    async def _pay_debts(self) -> None:
        setbacks = self._setbacks
        for paid in await debts.pay_due(self._ports, self._settings, DEBTS_AT_ONCE, by=BY, setbacks=setbacks):
            self.counts.debts_paid += 1
            paid.log(log, logging.INFO, controller="debts")
            self.activity.note("debts", [_action_of(paid)])
        if failed := setbacks.reasons():
            (id, why), *others = failed.items()
            raise Unpaid(f"{id}: {why}" + (f" (and {len(others)} more)" if others else ""))

    async def _sweep(self) -> None:
        done = await self._liveness.run_once()
        self.counts.note(done)
        self.activity.note("sweep", _swept(done))
        for id in done.left:
            log.warning("instance ended before its machine is reclaimed", instance=id)
        if done.sweep.lost:
            self.runs.wake()
        for alarm in done.sweep.alarms:
            log.error("leases are not judged", reason=alarm)

    async def _reap(self) -> None:
        ports, settings = self._ports, self._settings
        runner = PlanRunner()
        await self._perform("reap", desired.plans(ports, settings), runner)
        await self._perform("reap", reap.decisions(ports, settings), runner)
        await self._perform("reap", reap.plans(ports, settings, await every_live(ports)), runner)
        await ports.records.purge(ports.clock.now(), PURGE_PAGE)
        runner.check()

    async def _reconcile(self) -> None:
        live, runner = await every_live(self._ports), PlanRunner()
        await self._perform("reconcile", reconcile.plans(self._ports, self._settings, live, dry_run=False), runner)
        runner.check()

    async def _tidy_sources(self) -> None:
        if freed := await tidy(self._ports, self._settings):
            log.info("files of projects removed", bytes=freed)
            self.activity.note("sources", [Action("remove files", "projects", f"no job needs these {freed} bytes")])

    async def _warm(self) -> None:
        live, runner = await every_live(self._ports), PlanRunner()
        self.offers.note(self._ports.clock.now(), self._settings.classes, live)
        self._cannot = await self._perform("warm", warm.plans(self._ports, self._settings, live), runner, self._cannot)
        for holder in self.sets.held.values():
            holder.supplier.note_launches(runner.launches)
        runner.check()

    @property
    def process(self) -> str:
        """What `bullpen status` calls this process."""
        return self._process

    def debts_put_off(self) -> dict[str, str]:
        """The records whose debts this process could not pay the last time, and why."""
        return self._setbacks.reasons()

    def _wake_warm(self) -> None:
        """A scale set lacks machines: launch them now."""
        for loop in self.loops:
            if loop.name == "warm":
                loop.wake()

    async def _hold_sets(self) -> None:
        await self.sets.run_once()

    async def _read_settings(self) -> None:
        assert self._reloader is not None, "a duty only where there is one"
        self._reloader.reload_if_changed()
        found = self._reloader.settings, self._reloader.refused
        (before, refused_before), self._reloaded = self._reloaded or found, found
        file, (settings, refused) = self._reloader.file, found
        if settings is not before:
            self.activity.note("settings", [Action("adopt settings", file, "liveness.* has changed in the file")])
        if refused and refused != refused_before:
            self.activity.note("settings", [Action("adopt settings", file, refused, is_done=False)])

    async def _reconcile_runs(self) -> None:
        report = await self.runs.run_once()
        for event in report.done:
            event.log(log, logging.INFO, controller="runs")
        for alarm in report.alarms:
            alarm.log(log, logging.ERROR, controller="runs")
        self.activity.note("runs", map(_action_of, report.done))
        self.activity.note("runs", (replace(_action_of(one), is_done=False) for one in report.alarms))

    async def _perform(
        self, controller: str, plans: AsyncIterator[Plan], runner: PlanRunner, known: Sequence[Action] = ()
    ) -> list[Action]:
        """Perform each plan; returns what could not be done. Those in `known` are not reported again. A plan that fails
        does not stop the others; `runner` has the failures."""
        cannot: list[Action] = []
        async for plan in plans:
            if plan.is_certain:
                self._report(controller, plan.actions)
            reported = await runner.perform(plan)
            self._report(controller, [one for one in reported if one.is_done])
            cannot += [one for one in reported if not one.is_done]
        self._report(controller, [one for one in cannot if one not in known])
        return cannot

    def _report(self, controller: str, actions: Sequence[Action]) -> None:
        self.activity.note(controller, actions)
        for one in actions:
            level = logging.INFO if one.is_done else logging.WARNING
            log.log(level, one.what, controller=controller, subject=one.subject, reason=one.reason)


def _action_of(event: LogEvent) -> Action:
    """What a line of the log tells: its first field is what it is about."""
    fields = dict(event.fields)
    subject = next((value for name, value in fields.items() if name not in TOLD_LAST), "")
    others = [f"{name} {value}" for name, value in list(fields.items()) if value != subject]
    return Action(event.what, subject, ", ".join(others))


def _swept(done: LivenessPass) -> Iterator[Action]:
    for worker in done.sweep.lost:
        yield Action("lose worker", worker, "its lease ran out")
    for job in done.rescheduling.requeued:
        yield Action("reschedule job", job, "its worker was lost")
    for job in done.rescheduling.given_up:
        yield Action("give up job", job, "it lost too many workers, or no runner is left", is_done=False)
    for instance in done.left:
        yield Action("end instance", instance, "its machine is about to be reclaimed")
