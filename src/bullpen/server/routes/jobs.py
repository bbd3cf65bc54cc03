"""Jobs, as operators submit, watch and cancel them."""

from typing import Annotated

from litestar import Response, Router
from litestar.params import FromPath, JSONBody, QueryParameter

from bullpen import jobs
from bullpen.auth.tokens import Scope
from bullpen.inventory import require_run
from bullpen.model import limits
from bullpen.schema.job import JobAnswer, JobList, job_of, jobs_of
from bullpen.schema.requests import SubmitJob
from bullpen.server.context import Asking, Ctx
from bullpen.server.routes.responses import get, post

LOG_PAGE = 64 * 1024


@post("/v1/jobs", status_code=201, summary="Queue a job of a run")
async def submit_job(request: Asking, context: Ctx, data: JSONBody[SubmitJob]) -> JobAnswer:
    asked = jobs.JobRequest(
        run_id=data.run_id,
        command=data.command,
        name=data.name,
        index=data.index,
        timeout=data.timeout_seconds,
        capability=data.capability,
        side_effects=data.side_effects,
    )
    with context.serving(request, Scope.OPERATE) as operator:
        jobs.check_served(context.settings)
        await require_run(context.ports, jobs.checked(asked).run_id)
        (job,) = await jobs.submit(context.ports, [asked], by=f"operator {operator.id}")
        return job_of(job)


@get("/v1/jobs", summary="The jobs of a run, in the order in which they were submitted")
async def list_jobs(
    request: Asking,
    context: Ctx,
    run_id: Annotated[str, QueryParameter(name="runId", min_length=1, max_length=limits.RUN_ID_LENGTH)],
) -> JobList:
    with context.serving(request, Scope.READ):
        return jobs_of(run_id, await jobs.of_run(context.ports, run_id))


@get("/v1/jobs/{job_id:str}", summary="A job and its story")
async def show_job(request: Asking, context: Ctx, job_id: FromPath[str]) -> JobAnswer:
    with context.serving(request, Scope.READ):
        job = await jobs.find(context.ports, job_id)
        return job_of(job, (await context.ports.records.stories([job_id])).get(job_id, ()))


@get("/v1/jobs/{job_id:str}/logs", summary="What a job printed, from an offset on", media_type="text/plain")
async def job_logs(
    request: Asking,
    context: Ctx,
    job_id: FromPath[str],
    fence: Annotated[int, QueryParameter(ge=0, le=limits.NUMBER, description="Which assignment; 0: the last one.")] = 0,
    offset: Annotated[int, QueryParameter(ge=0, le=limits.NUMBER)] = 0,
) -> Response[bytes]:
    with context.serving(request, Scope.READ):
        job = await jobs.find(context.ports, job_id)
        content = await context.ports.logs.read(job_id, fence or job.fence, offset, LOG_PAGE)
        # Never shown as a page: a job can print anything.
        headers = {"x-content-type-options": "nosniff", "bullpen-next-offset": str(offset + len(content))}
        return Response(content, media_type="text/plain; charset=utf-8", headers=headers)


@post("/v1/jobs/{job_id:str}/cancel", status_code=201, summary="End a job that waits; ask the worker of a running one")
async def cancel_job(request: Asking, context: Ctx, job_id: FromPath[str]) -> JobAnswer:
    with context.serving(request, Scope.OPERATE) as operator:
        by = f"operator {operator.id}"
        return job_of(await jobs.cancel(context.ports, context.settings, job_id, by=by, why="cancelled"))


ROUTER = Router("/", route_handlers=[submit_job, list_jobs, show_job, job_logs, cancel_job], tags=["jobs"])
