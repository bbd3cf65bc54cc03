"""Lasting jobs: members of scale sets that have reported the same job for minutes.

The runners of a run are reconciled because the run holds them. A member of a scale set belongs to no run, and most of
its jobs end without any question to GitHub. But an agent may miss the end of a job, because its runner hangs. GitHub's
message about that end may be lost, or come while the job still runs. So the run of a job that lasts is asked for like
any run that holds instances: if it has completed, and the agent still reports the job, the member is ended
(release_ended.py).
"""

import asyncio
from collections.abc import Sequence
from dataclasses import field

from bullpen.config import Settings
from bullpen.lazy_dataclass import dataclass
from bullpen.model.activity import Activity
from bullpen.model.instance import RUNNING, Instance
from bullpen.model.set_member import set_of
from bullpen.pool import busy
from bullpen.ports import Ports

LASTS = 300.0  # seconds: most jobs end sooner, and cost no request


@dataclass(slots=True)
class LastingJobs:
    """Remembers since when each runner has had its job, on the event loop's clock."""

    _ports: Ports
    _settings: Settings
    _since: dict[str, float] = field(default_factory=dict)
    """By runner: its name is new for each job."""
    _found: dict[str, Activity] = field(default_factory=dict)
    _look_at: float = 0.0

    async def find(self, live: Sequence[Instance]) -> dict[str, Activity]:
        """The jobs by instance. Heartbeats are read once in `github.poll` seconds: in between, the answer is the same
        but for members that left their set."""
        members = [one.id for one in live if one.state is RUNNING and set_of(one) is not None]
        time = asyncio.get_running_loop().time()
        if time >= self._look_at:
            self._look_at = time + self._settings.github.poll
            named = await busy.at_work(self._ports, self._settings, members, hurry=True)
            self._since = {job.runner: self._since.get(job.runner, time) for job in named.values()}
            self._found = {id: job for id, job in named.items() if time - self._since[job.runner] >= LASTS}
        return {id: job for id, job in self._found.items() if id in members}
