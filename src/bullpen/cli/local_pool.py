"""The pool of a home, or of a table: the commands work on its store themselves."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bullpen import jobs
from bullpen.cli.output import complain
from bullpen.config import Settings
from bullpen.errors import BullpenError
from bullpen.jobs.log_tail import JobLogTail
from bullpen.jobs.request import JobRequest
from bullpen.model.job import FINISHED
from bullpen.model.progress import Tell
from bullpen.ports import Ports
from bullpen.ports.health import Limit
from bullpen.provision.outcome import Request
from bullpen.run import RunOptions, RunOutcome, Write
from bullpen.schema.job import JobAnswer, JobList, job_of, jobs_of
from bullpen.sources.work_tree import WorkTree

if TYPE_CHECKING:  # each command loads only the views and answers that it needs
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

PIECE = 1024 * 1024  # bytes of artifacts read at a time
BY = "job"
FOLLOW_EVERY = 0.25  # seconds
CANCELLED = "requested by an operator"


class LocalPool:
    """An open pool."""

    def __init__(self, ports: Ports, settings: Settings, home: Path) -> None:
        self._ports = ports
        self._settings = settings
        self._home = home
        self._limits: Sequence[Limit] | None = None

    async def status(self) -> "PoolStatus":
        from bullpen.inventory import status
        from bullpen.schema.status import pool_status_of

        if self._limits is None:
            self._limits = await self._rate_limits()
        found = await status(self._ports, self._settings)
        return pool_status_of(found, self._limits, location_of(self._home, self._settings))

    async def _rate_limits(self) -> Sequence[Limit]:
        if not self._settings.on_github:
            return ()
        from bullpen.one_off_calls import rate_limits

        try:
            return await rate_limits(self._settings)
        except BullpenError as exc:  # the pool is shown without them
            complain(f"GitHub's rate limits are not known: {exc}", exc.remedy)
            return ()

    async def wait_for_change(self, seconds: float) -> None:
        await self._ports.signals.wait(seconds)

    async def require_run(self, run_id: str) -> None:
        from bullpen.inventory.run_list import require_run

        await require_run(self._ports, run_id)

    async def provision(self, request: Request, *, stop: asyncio.Event, tell: Tell) -> "ProvisionAnswer":
        from bullpen.provision import provision
        from bullpen.schema.provision import provision_of

        return provision_of(await provision(self._ports, self._settings, request, stop=stop, tell=tell))

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
        from bullpen.cli.sync import sending
        from bullpen.run import run

        files = sending(self._ports, self._settings, self._home, tree, stop, tell)
        return await run(
            self._ports,
            self._settings,
            request,
            wanted,
            stop=stop,
            options=options,
            tell=tell,
            write=write,
            files=files,
        )

    async def artifacts(self, job_id: str, fence: int, offset: int) -> bytes:
        return await self._ports.artifacts.read(job_id, fence, offset, PIECE)

    async def release(self, run_id: str, *, stop: asyncio.Event, tell: Tell) -> "ReleaseAnswer":
        from bullpen.release import release
        from bullpen.schema.release import release_of

        return release_of(await release(self._ports, self._settings, run_id, stop=stop, tell=tell))

    async def submit(self, wanted: Sequence[JobRequest]) -> list[JobAnswer]:
        for run_id in dict.fromkeys(one.run_id for one in wanted):
            await self.require_run(run_id)
        return [job_of(job) for job in await jobs.submit(self._ports, wanted, by=BY)]

    async def jobs(self, run_id: str) -> JobList:
        return jobs_of(run_id, await jobs.of_run(self._ports, run_id))

    async def job(self, job_id: str) -> JobAnswer:
        job = await jobs.find(self._ports, job_id)
        return job_of(job, (await self._ports.records.stories([job_id])).get(job_id, ()))

    async def cancel_job(self, job_id: str) -> JobAnswer:
        return job_of(await jobs.cancel(self._ports, self._settings, job_id, by=BY, why=CANCELLED))

    async def job_lines(self, job_id: str, *, follow: bool) -> AsyncIterator[str]:
        tail = JobLogTail(self._ports.logs.read, job_id)
        while True:
            job = await jobs.find(self._ports, job_id)
            while lines := await tail.new_lines(job):
                for line in lines:
                    yield line
            if job.state is FINISHED or not follow:
                return
            await self._ports.signals.wait(FOLLOW_EVERY)

    async def evidence(self, id: str) -> AsyncIterator[bytes]:
        import os

        from bullpen.evidence import gather
        from bullpen.evidence.archive import zipped
        from bullpen.evidence.scrub import Scrubber, known_secrets

        scrubber = Scrubber(known_secrets(self._settings, os.environ))
        files = await gather(self._ports, self._settings, id, scrubber)
        async for piece in zipped(files, self._ports.clock.now()):
            yield piece

    async def workers(self, limit: int, after: str, state: str) -> "WorkerList":
        from bullpen.inventory import roster
        from bullpen.schema.worker import workers_of

        return workers_of(await roster(self._ports, limit, after, state))

    async def pause(self, resource_class: str, note: str, *, dry_run: bool) -> "OperateAnswer":
        from bullpen import operate
        from bullpen.schema.pause import operate_of

        return operate_of(
            await operate.pause(
                self._ports, self._settings, resource_class, note, operator=operator_name(), dry_run=dry_run
            )
        )

    async def resume(self, resource_class: str, *, dry_run: bool) -> "OperateAnswer":
        from bullpen import operate
        from bullpen.schema.pause import operate_of

        return operate_of(
            await operate.resume(self._ports, self._settings, resource_class, operator=operator_name(), dry_run=dry_run)
        )

    async def drain(
        self, instances: Sequence[str], resource_class: str, note: str, *, dry_run: bool
    ) -> "OperateAnswer":
        from bullpen import operate
        from bullpen.schema.pause import operate_of

        return operate_of(
            await operate.drain(
                self._ports,
                self._settings,
                instances,
                resource_class,
                note,
                operator=operator_name(),
                dry_run=dry_run,
            )
        )

    async def rotate(self, resource_class: str, *, dry_run: bool) -> "OperateAnswer":
        from bullpen import operate
        from bullpen.schema.pause import operate_of

        return operate_of(
            await operate.rotate(self._ports, self._settings, resource_class, operator=operator_name(), dry_run=dry_run)
        )

    async def stories(self, id: str) -> "StoryList":
        from bullpen.inventory import stories
        from bullpen.schema.story import StoryList, story_of

        return StoryList(id, [story_of(one) for one in await stories(self._ports, self._settings, id)])

    async def cost(self, since: str, until: str, by: str) -> "CostAnswer":
        from bullpen.history.cost import CostKey, cost
        from bullpen.history.ranges import range_between
        from bullpen.schema.cost import cost_answer_of

        first, last = range_between(since, until, self._ports.clock.now(), "--")
        return cost_answer_of(await cost(self._ports, self._settings, first, last, CostKey(by)))

    async def why(self, id: str) -> "WhyAnswer":
        from bullpen.explain import why
        from bullpen.schema.why import why_of

        return why_of(await why(self._ports, self._settings, id))

    async def queue(self) -> "QueueAnswer":
        from bullpen.explain.queue import queue
        from bullpen.schema.queue import queue_of

        return queue_of(await queue(self._ports, self._settings))

    async def plan(self, request: Request) -> "PlanAnswer":
        from bullpen.explain.plan import plan
        from bullpen.schema.plan import plan_of

        return plan_of(await plan(self._ports, self._settings, request))


def operator_name() -> str:
    """Who is at this terminal, for those who meet what they ordered."""
    from getpass import getuser

    try:
        return getuser()
    except (KeyError, OSError):  # a user id without a name, and no variable that has one
        return f"user {os.getuid()}"


def location_of(home: Path, settings: Settings) -> str:
    """The pool as users name it."""
    if settings.engines.pool == "aws":
        return f"table {settings.aws.pool} in {settings.aws.region or 'the default region'}"
    return str(home.absolute())
