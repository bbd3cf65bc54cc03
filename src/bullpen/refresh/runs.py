"""Runs: where the CI is GitHub and no `bullpen serve` runs, refresh reconciles the workflow runs: one whole pass.

Runs that completed give back their runners, lost jobs are run again, labels that lost all runners get others. What must
be observed twice is observed again by the next refresh. A dry run asks GitHub nothing: it names the runs that it would
ask about.
"""

from collections.abc import AsyncIterator

from bullpen.config import Settings
from bullpen.ports import Ports
from bullpen.refresh.action import Action, Plan, alarm
from bullpen.workflows.controller import WorkflowController


async def plans(ports: Ports, settings: Settings, *, dry_run: bool) -> AsyncIterator[Plan]:
    """Plans of what has been done: what there is to do shows only in GitHub's answers."""
    if not settings.on_github:
        return
    controller = WorkflowController(ports, settings)
    if dry_run:
        held = await controller.held_runs()
        actions = [
            Action("check run", run, "it has runners, or has lost some; refresh would ask GitHub") for run in held
        ]
    else:
        report = await controller.reconcile_all()
        scope = settings.github.scope
        actions = [Action("follow", scope, line) for line in report.done]
        actions += [Action("alarm", scope, line) for line in report.alarms]
    if actions:
        yield alarm(*actions)
