"""What the commands ask of a pool. There are two: the pool of a home (`local_pool`), and one behind `bullpen serve`
(`remote_pool`). Each command has one implementation for both, which shows the structs that `--json` prints.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Protocol

from bullpen.jobs.request import JobRequest
from bullpen.model.progress import Tell
from bullpen.provision.outcome import Request
from bullpen.run import RunOptions, RunOutcome, Write
from bullpen.schema.job import JobAnswer, JobList
from bullpen.sources.work_tree import WorkTree

if TYPE_CHECKING:  # each command loads only the answers that it shows
    from bullpen.schema.cost import CostAnswer
    from bullpen.schema.pause import OperateAnswer
    from bullpen.schema.plan import PlanAnswer
    from bullpen.schema.provision import ProvisionAnswer
    from bullpen.schema.queue import QueueAnswer
    from bullpen.schema.release import ReleaseAnswer
    from bullpen.schema.status import PoolStatus
    from bullpen.schema.story import StoryList
    from bullpen.schema.why import WhyAnswer
    from bullpen.schema.worker import WorkerList


class Backend(Protocol):
    """A pool. Where `stop` is given, it ends the work early, and everything acquired is given back."""

    async def status(self) -> "PoolStatus":
        """Everything, of which commands show a part."""
        ...

    async def wait_for_change(self, seconds: float) -> None:
        """Return when something may have changed, or after so many seconds."""
        ...

    async def require_run(self, run_id: str) -> None:
        """Raise NotFound unless the run exists."""
        ...

    async def provision(self, request: Request, *, stop: asyncio.Event, tell: Tell) -> "ProvisionAnswer": ...

    async def run(
        self,
        request: Request,
        wanted: Sequence[JobRequest],
        *,
        tree: WorkTree | None,
        stop: asyncio.Event,
        options: RunOptions,
        tell: Tell,
        write: Write,
    ) -> RunOutcome:
        """Get runners, run jobs on them with the files of `tree`, and release the runners."""
        ...

    async def artifacts(self, job_id: str, fence: int, offset: int) -> bytes:
        """A piece of the files that a job left, as a bundle; empty at the end, and if there are none."""
        ...

    async def release(self, run_id: str, *, stop: asyncio.Event, tell: Tell) -> "ReleaseAnswer": ...

    async def submit(self, wanted: Sequence[JobRequest]) -> list[JobAnswer]:
        """Queue jobs, in order. Raise NotFound for a run that was never provisioned."""
        ...

    async def jobs(self, run_id: str) -> JobList:
        """All jobs of a run, in the order in which they were submitted."""
        ...

    async def job(self, job_id: str) -> JobAnswer:
        """With its story. Raise NotFound."""
        ...

    async def cancel_job(self, job_id: str) -> JobAnswer:
        """Raise NotFound."""
        ...

    def job_lines(self, job_id: str, *, follow: bool) -> AsyncIterator[str]:
        """What it prints, attempt by attempt; with `follow` until it has ended. Raise NotFound."""
        ...

    def evidence(self, id: str) -> AsyncIterator[bytes]:
        """A zip with everything that is known about a record, in pieces. Raise NotFound."""
        ...

    async def workers(self, limit: int, after: str, state: str) -> "WorkerList": ...

    async def pause(self, resource_class: str, note: str, *, dry_run: bool) -> "OperateAnswer":
        """An empty class is the whole pool. Raise ConfigError."""
        ...

    async def resume(self, resource_class: str, *, dry_run: bool) -> "OperateAnswer": ...

    async def drain(
        self, instances: Sequence[str], resource_class: str, note: str, *, dry_run: bool
    ) -> "OperateAnswer":
        """Raise ConfigError, and NotFound for an unknown instance."""
        ...

    async def rotate(self, resource_class: str, *, dry_run: bool) -> "OperateAnswer": ...

    async def stories(self, id: str) -> "StoryList":
        """The last steps alone. Raise NotFound."""
        ...

    async def why(self, id: str) -> "WhyAnswer":
        """Raise NotFound."""
        ...

    async def queue(self) -> "QueueAnswer":
        """Everything that waits, and why."""
        ...

    async def cost(self, since: str, until: str, by: str) -> "CostAnswer":
        """What machines cost in a range. Raise ConfigError for one that is none."""
        ...

    async def plan(self, request: Request) -> "PlanAnswer":
        """What a provision would do. It changes nothing."""
        ...
