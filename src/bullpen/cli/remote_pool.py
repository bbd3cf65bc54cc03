"""The pool behind a `bullpen serve`, over HTTP. The server goes by its own settings, and checks what it is asked."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from msgspec import convert, to_builtins

from bullpen.cli.progress import PATIENCE
from bullpen.client import AsyncClient
from bullpen.client.runs import failure_of
from bullpen.errors import BullpenError, ConfigError, NotFound
from bullpen.inventory.run_list import unknown_run
from bullpen.jobs.request import JobRequest
from bullpen.model import limits
from bullpen.model.progress import ProgressReport, Tell, WorkPhase
from bullpen.provision.outcome import Request
from bullpen.run import RunOptions, RunOutcome, Write
from bullpen.schema.cost import CostAnswer
from bullpen.schema.job import JobAnswer, JobList
from bullpen.schema.operation import Operation, ProgressAnswer, ProvisionOperation, ReleaseOperation
from bullpen.schema.pause import OperateAnswer
from bullpen.schema.plan import PlanAnswer, PlanRun
from bullpen.schema.provision import ProvisionAnswer
from bullpen.schema.queue import QueueAnswer
from bullpen.schema.release import ReleaseAnswer
from bullpen.schema.requests import ProvisionRun, SubmitJob
from bullpen.schema.status import PoolStatus, StatusAnswer
from bullpen.schema.story import StoryList
from bullpen.schema.why import WhyAnswer
from bullpen.schema.worker import WorkerAnswer, WorkerList
from bullpen.sources.work_tree import WorkTree

OPTIONS = {"timeoutSeconds": "--timeout", "command": "COMMAND", "token": "BULLPEN_TOKEN"}
"""Fields of requests, and of the client's arguments, whose option has another name."""
FIRST_CONTACT = 8.0  # seconds until a server answers at all, on a busy machine too: its own work may take longer


class RemotePool:
    """A server to which a client is connected."""

    def __init__(self, client: AsyncClient, secrets: Sequence[Path] = ()) -> None:
        """`secrets` are files of the user that no job may have."""
        self._client, self._secrets = client, secrets
        self._changed = asyncio.Event()
        self._following: asyncio.Task[None] | None = None

    async def status(self) -> PoolStatus:
        """In three requests and more, so what moves between them may be counted twice, or not at all."""
        with named_options():
            found = await self._client.status()
            runs = [one async for one in self._client.runs()]
            instances = [one async for one in self._client.instances()]
        shared = {name: getattr(found, name) for name in StatusAnswer.__struct_fields__}
        return PoolStatus(**shared | {"location": self._client.url}, runs=runs, instances=instances, limits=[])

    async def wait_for_change(self, seconds: float) -> None:
        """Opens the event stream, and opens it again if it has ended: the server was away for long. Without one, where
        a proxy holds it up, the time alone counts."""
        if self._following is None or self._following.done():
            self._following = asyncio.get_running_loop().create_task(self._follow())
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        self._changed.clear()

    async def _follow(self) -> None:
        with suppress(BullpenError):
            async for _ in self._client.events():
                self._changed.set()

    async def close(self) -> None:
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)

    async def require_run(self, run_id: str) -> None:
        try:
            await self._client.run(run_id)
        except NotFound as exc:
            raise unknown_run(run_id) from exc

    async def provision(self, request: Request, *, stop: asyncio.Event, tell: Tell) -> ProvisionAnswer:
        with named_options():
            begun = await self._client.begin_provision(request.run_id, provision_body(request))
            ended = await self._see_through(begun, stop, tell)
        if not isinstance(ended, ProvisionOperation) or ended.result is None:
            raise failure_of(ended)
        return ended.result

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
        from bullpen.cli.remote_run import run_remotely

        if tree is not None:
            from bullpen.cli.remote_sync import send_through

            sent = await send_through(self._client, tree, self._secrets, stop=stop, tell=tell)
            wanted = [replace(one, source=sent.source) for one in wanted]
        return await run_remotely(
            self, self._client, request, wanted, stop=stop, options=options, tell=tell, write=write
        )

    async def artifacts(self, job_id: str, fence: int, offset: int) -> bytes:
        """Those of the job's last assignment, whatever `fence` is: a server keeps no others."""
        return await self._client.read_artifacts(job_id, offset)

    async def release(self, run_id: str, *, stop: asyncio.Event, tell: Tell) -> ReleaseAnswer:
        with named_options():
            ended = await self._see_through(await self._client.begin_release(run_id), stop, tell)
        if not isinstance(ended, ReleaseOperation) or ended.result is None:
            raise failure_of(ended)
        return ended.result

    async def submit(self, wanted: Sequence[JobRequest], avoid: str = "") -> list[JobAnswer]:
        """No job goes to the worker `avoid` while another one of the run lives."""
        with named_options():
            return [await self._client.submit(job_body(one, avoid)) for one in wanted]

    async def jobs(self, run_id: str) -> JobList:
        with named_options():
            found = [one async for one in self._client.jobs(run_id)]
        return JobList(run_id, sorted(found, key=lambda job: (job.queued_at is None, job.queued_at, job.index, job.id)))

    async def job(self, job_id: str) -> JobAnswer:
        with named_options():
            return await self._client.job(job_id)

    async def cancel_job(self, job_id: str) -> JobAnswer:
        with named_options():
            return await self._client.cancel_job(job_id)

    async def job_lines(self, job_id: str, *, follow: bool) -> AsyncIterator[str]:
        with named_options():
            async for line in self._client.job_lines(job_id, follow=follow):
                yield line

    async def evidence(self, id: str) -> AsyncIterator[bytes]:
        with named_options():
            async for piece in self._client.evidence(id):
                yield piece

    async def workers(self, limit: int, after: str, state: str) -> WorkerList:
        """Pages of a server are smaller than those of the command line."""
        found: list[WorkerAnswer] = []
        with named_options():
            while True:
                size = min(limit - len(found), limits.PAGE)
                page = await self._client.worker_page(state=state, limit=size, after=after)
                found, after = [*found, *page.workers], page.next
                if not after or len(found) >= limit:
                    return WorkerList(found, after)

    async def stories(self, id: str) -> StoryList:
        with named_options():
            return await self._client.stories(id)

    async def cost(self, since: str, until: str, by: str) -> CostAnswer:
        with named_options():
            return await self._client.cost(since=since, until=until, by=by)

    async def pause(self, resource_class: str, note: str, *, dry_run: bool) -> OperateAnswer:
        with named_options():
            return await self._client.pause(note, resource_class, dry_run=dry_run)

    async def resume(self, resource_class: str, *, dry_run: bool) -> OperateAnswer:
        with named_options():
            return await self._client.resume(resource_class, dry_run=dry_run)

    async def drain(self, instances: Sequence[str], resource_class: str, note: str, *, dry_run: bool) -> OperateAnswer:
        with named_options():
            return await self._client.drain(instances, resource_class, note, dry_run=dry_run)

    async def rotate(self, resource_class: str, *, dry_run: bool) -> OperateAnswer:
        with named_options():
            return await self._client.rotate(resource_class, dry_run=dry_run)

    async def why(self, id: str) -> WhyAnswer:
        with named_options():
            return await self._client.why(id)

    async def queue(self) -> QueueAnswer:
        with named_options():
            return await self._client.queue()

    async def plan(self, request: Request) -> PlanAnswer:
        body = to_builtins(provision_body(request), str_keys=True)
        with named_options():
            return await self._client.plan(convert(body | {"runId": request.run_id}, PlanRun))

    async def _see_through(self, begun: Operation, stop: asyncio.Event, tell: Tell) -> Operation:
        """Await an operation, and pass a stop on to the server, which gives everything back before it ends."""
        stopping = asyncio.get_running_loop().create_task(self._pass_on(begun.id, stop, tell))
        try:
            return await self._client.wait(begun, progress=lambda report: tell(report_of(report)))
        finally:
            stopping.cancel()
            await asyncio.gather(stopping, return_exceptions=True)

    async def _pass_on(self, operation_id: str, stop: asyncio.Event, tell: Tell) -> None:
        await stop.wait()
        try:
            await self._client.stop_operation(operation_id)
        except BullpenError as exc:
            tell(ProgressReport(WorkPhase.STOP, f"the server was not stopped: {exc}", about=operation_id))


@asynccontextmanager
async def opened_server(
    server: str, token: str, ca_file: str, tell: Tell, secrets: Sequence[Path] = ()
) -> AsyncIterator[RemotePool]:
    """Raise ConfigError for a URL, a token or a file that cannot be used, and Unavailable if no server answers. One
    that answered once and is away later is waited for: it may be starting again."""

    def on_wait(why: str, left: float) -> None:
        tell(ProgressReport(WorkPhase.CONNECT, f"{why}; asking again, giving up in {left:.0f} s", about=why))

    with named_options():
        client = AsyncClient(server, token=token, ca_file=ca_file, on_wait=on_wait)
    text = f"connecting to {client.url}, giving up after {FIRST_CONTACT:g} s"
    slow = asyncio.get_running_loop().call_later(PATIENCE, tell, ProgressReport(WorkPhase.CONNECT, text))
    async with client:
        try:
            await client.reach(FIRST_CONTACT)
        finally:
            slow.cancel()
        pool = RemotePool(client, secrets)
        try:
            yield pool
        finally:
            await pool.close()


@contextmanager
def named_options() -> Iterator[None]:
    """Errors that name the field of a request name the option instead, as those of a local pool do."""
    try:
        yield
    except ConfigError as exc:
        option = OPTIONS.get(exc.field) or f"--{re.sub('[A-Z]', lambda found: f'-{found[0].lower()}', exc.field)}"
        is_setting = "." in exc.field  # of the server
        if not exc.field or is_setting or not str(exc).startswith(exc.field):
            raise
        raise ConfigError(option + str(exc).removeprefix(exc.field), remedy=exc.remedy, field=option) from exc


def provision_body(request: Request) -> ProvisionRun:
    needs = request.needs
    return ProvisionRun(
        count=request.count,
        resource_class=needs.resource_class,
        usage_class=needs.usage_class,
        allowed_instance_types=needs.allowed_types,
        cpu=needs.cpu,
        mem=needs.mem,
        max_runtime_min=round(request.max_runtime / 60) or None,
        trust_domain=needs.trust_domain,
        allow_partial=request.allow_partial,
        wait=request.wait,
        repository=needs.repository,
        spares_silent=request.spares_silent,
    )


def job_body(wanted: JobRequest, avoid: str = "") -> SubmitJob:
    return SubmitJob(
        run_id=wanted.run_id,
        command=wanted.command,
        name=wanted.name,
        index=wanted.index,
        timeout_seconds=wanted.timeout,
        capability=wanted.capability,
        side_effects=wanted.side_effects,
        source=wanted.source,
        artifacts=wanted.artifacts,
        avoid=avoid,
    )


def report_of(progress: ProgressAnswer) -> ProgressReport:
    return ProgressReport(
        progress.phase, progress.text, progress.done, progress.total, waiting=progress.waiting, about=progress.about
    )
