"""Refresh: desired against actual. Idempotent, every action with its reason, and a dry run for all of it.

    infrastructure → queues → debts → overdue → machines, records and registrations → tickets → leases → workflow runs
    → scale sets → warm → stranded jobs → time of machines → purge

Each phase reads, plans and performs before the next one reads, so that one refresh completes work that takes several
phases.
"""

from collections.abc import AsyncIterator, Collection, Sequence

from bullpen import jobs
from bullpen.config import Settings
from bullpen.errors import BullpenError
from bullpen.history import activity
from bullpen.history.bookkeeper import book_ended, book_moved_on, forget, quietly
from bullpen.model.progress import ProgressReport, Tell, WorkPhase
from bullpen.pool import clock_skew
from bullpen.pool.live_instances import every_live
from bullpen.ports import Ports
from bullpen.refresh import desired, leases, reap, reconcile, scale_sets, warm
from bullpen.refresh.action import BY, Action, Hindered, Plan, PlanRunner, alarm, mend
from bullpen.sources.upkeep import tidy
from bullpen.workflows.controller import WorkflowController

__all__ = ["Action", "Hindered", "refresh"]

PURGE_PAGE = 1000


async def refresh(
    ports: Ports,
    settings: Settings,
    *,
    dry_run: bool = False,
    adopt: Collection[str] = (),
    tell: Tell = lambda report: None,
) -> list[Action]:
    """Bring the pool to the state that the settings describe; returns what was done, or with `dry_run` what would be.

    `adopt` names scale sets of the settings that exist at the CI, and that are to be this pool's from now on.
    `tell` is called before each action. A dry run performs none, so it does not call `tell`: the list is its answer.

    Raise Hindered for what failed, once everything else is done: a class that cannot be launched, a machine that does
    not end, or a CI that is away does not stop the other work. Raise WrongClock, with nothing ended, if the clock of
    this machine is wrong.
    """
    actions: list[Action] = []
    failures: list[BullpenError] = []

    def note(some: Sequence[Action]) -> None:
        actions.extend(some)
        for action in () if dry_run else some:
            text = f"{action.what} {action.subject}: {action.reason}"
            tell(ProgressReport(WorkPhase.REFRESH, text, about=action.about))

    gaps = await ports.infrastructure.gaps()
    for gap in gaps:
        note([Action(gap.what, gap.subject, gap.reason, kind=gap.subject)])
        if not dry_run and (failure := await mend(ports.infrastructure, gap)) is not None:
            failures.append(failure)
    if dry_run and any(gap.blocks for gap in gaps):
        return actions  # there is nothing to read yet
    runner = PlanRunner(failures)
    try:
        await clock_skew.require_right(ports, settings)
        async for plan in _plans(ports, settings, dry_run, adopt):
            if dry_run or plan.is_certain:
                note(plan.actions)
            if not dry_run:
                note(await runner.perform(plan))
        for id in await jobs.give_up_stranded(ports, settings, by=BY, dry_run=dry_run):
            note([Action("give up", id, "its run has no runner")])
    except BullpenError:
        if not dry_run:  # what was done before stays done
            await activity.note(ports, BY, actions)
        raise
    if not dry_run:
        await quietly(book_ended(ports))
        await ports.records.purge(ports.clock.now(), PURGE_PAGE)
        await quietly(forget(ports, settings))
        await activity.note(ports, BY, actions)
        await tidy(ports, settings)
    runner.check(actions)
    return actions


async def _plans(ports: Ports, settings: Settings, dry_run: bool, adopt: Collection[str]) -> AsyncIterator[Plan]:
    async for plan in desired.plans(ports, settings):
        yield plan
    async for plan in reap.decisions(ports, settings):
        yield plan
    live = await every_live(ports)
    if not dry_run:
        await quietly(book_moved_on(ports, live))
    has_acted = False  # the pool is read again only if a plan changed something
    async for plan in reap.plans(ports, settings, live):
        yield plan
        has_acted = True
    live = await every_live(ports) if has_acted else live
    has_acted = False
    async for plan in reconcile.plans(ports, settings, live, dry_run=dry_run):
        yield plan
        has_acted = True
    # Before the pool is filled: an instance that is about to be interrupted is replaced at once.
    async for plan in leases.plans(ports, settings):
        yield plan
        has_acted = True
    if settings.on_github and (actions := await _workflow_runs(ports, settings, dry_run)):
        yield alarm(*actions)
        has_acted = True
    async for plan in scale_sets.plans(ports, settings, adopt=adopt, dry_run=dry_run):
        yield plan
    live = await every_live(ports) if has_acted else live
    async for plan in warm.plans(ports, settings, live, dry_run=dry_run):
        yield plan


async def _workflow_runs(ports: Ports, settings: Settings, dry_run: bool) -> list[Action]:
    """Reconcile the workflow runs of GitHub in one whole pass, as no `bullpen serve` may run; returns what was done.

    Runs that completed give back their runners, lost jobs are run again, labels that lost all runners get others. What
    must be observed twice is observed again by the next refresh. A dry run asks GitHub nothing: it names the runs that
    it would ask about.
    """
    controller = WorkflowController(ports, settings)
    if dry_run:
        reason = "it has runners, or has lost some; refresh would ask GitHub"
        return [Action("check run", run, reason) for run in await controller.held_runs()]
    report, scope = await controller.reconcile_all(), settings.github.scope
    done = [Action("follow", scope, str(event), kind=event.what) for event in report.done]
    return done + [Action("alarm", scope, str(event)) for event in report.alarms]
