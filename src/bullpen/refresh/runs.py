"""Runs: where the CI is GitHub and no service runs, its workflow runs are followed here: one whole pass.

Runs that ended give back their runners, lost jobs are run again, labels that lost all runners get others. What has to
be seen twice is seen by the next refresh. A dry run asks GitHub nothing: it names the runs that would be asked after.
"""

from collections.abc import AsyncIterator

from bullpen.config import Settings
from bullpen.ports import Ports
from bullpen.refresh.action import Action, Plan, alarm
from bullpen.workflows.controller import Follower


async def plans(ports: Ports, settings: Settings, *, dry_run: bool) -> AsyncIterator[Plan]:
    """Plans of what has been done: what is to be done shows only as GitHub answers."""
    if not settings.on_github:
        return
    follower = Follower(ports, settings)
    if dry_run:
        held = await follower.held()
        actions = [
            Action("look at run", run, "it has runners, or has lost some; GitHub would be asked") for run in held
        ]
    else:
        said = await follower.see_to_all()
        scope = settings.github.scope
        actions = [Action("follow", scope, line) for line in said.done]
        actions += [Action("alarm", scope, line) for line in said.alarms]
    if actions:
        yield alarm(*actions)
