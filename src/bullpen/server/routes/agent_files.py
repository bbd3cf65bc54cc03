"""The files of jobs, as agents fetch and send them. Every route requires the token of the instance that its path names,
and serves only the job that is assigned to that instance."""

from collections.abc import AsyncIterator
from typing import Annotated

from litestar import Router
from litestar.params import QueryParameter
from litestar.response import Stream

from bullpen import jobs
from bullpen.errors import NotFound, Refused
from bullpen.model import limits
from bullpen.model.job import RUNNING, Job
from bullpen.schema.agent import LogWritten
from bullpen.server.context import Asking, Context, Ctx
from bullpen.server.parameters import InstancePath, JobPath
from bullpen.server.routes.responses import get, post
from bullpen.server.routes.sources import OCTETS, Offset, Size, piece_of

Fence = Annotated[int, QueryParameter(ge=1, le=limits.NUMBER, description="Which assignment of the job.")]


@get(
    "/v1/agents/{instance_id:str}/jobs/{job_id:str}/source",
    summary="Fetch the files that a job works on",
    media_type=OCTETS,
    opt={"answer": OCTETS},
)
async def fetch_source(
    request: Asking, context: Ctx, instance_id: InstancePath, job_id: JobPath, fence: Fence
) -> Stream:
    """The manifest and all its blocks, for the instance that has the job."""
    context.check_agent(request, instance_id)
    with context.admission.watch():
        job = await _assigned(context, instance_id, job_id, fence)
        if not job.source:
            raise NotFound(f"{job.id} works on no files")
        size, pieces = await context.ports.sources.bundle(job.source)
    headers = {"content-length": str(size)}
    return Stream(_counted(context, pieces), media_type=OCTETS, headers=headers)


async def _counted(context: Context, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    with context.admission.watch():
        async for piece in pieces:
            yield piece


@post(
    "/v1/agents/{instance_id:str}/jobs/{job_id:str}/artifacts",
    summary="Send a piece of a job's artifacts",
    opt={"body": OCTETS},
)
async def send_artifacts(
    request: Asking,
    context: Ctx,
    instance_id: InstancePath,
    job_id: JobPath,
    fence: Fence,
    offset: Offset,
    size: Size,
) -> LogWritten:
    """At most 512 KiB. What is there already is left alone. A gap is a 409, and so are artifacts that the store has no
    room for (`sync.store-size`)."""
    context.check_agent(request, instance_id)
    content = await piece_of(request)
    with context.admission.work():
        job = await _assigned(context, instance_id, job_id, fence)
        if not job.artifacts:
            raise Refused(f"{job.id} keeps no artifacts")
        room = context.settings.sync.store_bytes
        return LogWritten(await context.ports.artifacts.append(job_id, fence, offset, size, content, room=room))


async def _assigned(context: Context, instance_id: str, job_id: str, fence: int) -> Job:
    job = await jobs.find(context.ports, job_id)
    if job.state is not RUNNING or job.fence != fence or job.instance_id != instance_id:
        raise Refused(f"{job.id} is not assigned to {instance_id} under fence {fence}")
    return job


ROUTER = Router("/", route_handlers=[fetch_source, send_artifacts], tags=["agents"])
