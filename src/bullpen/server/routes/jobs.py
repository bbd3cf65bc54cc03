"""Jobs, as operators submit, watch and cancel them."""

from typing import Annotated

from litestar import Response, Router
from litestar.params import JSONBody, QueryParameter

from bullpen import jobs
from bullpen.auth.tokens import Scope
from bullpen.inventory import job_page, require_run
from bullpen.model import limits
from bullpen.model.job import State as JobState
from bullpen.schema.job import JobAnswer, JobList, job_of, jobs_of
from bullpen.schema.requests import PostponeJob, SubmitJob
from bullpen.server.context import Asking, Ctx
from bullpen.server.parameters import After, JobPath, Key, Limit, check_query, stored_state
from bullpen.server.problems import key_mismatch
from bullpen.server.routes.responses import get, post

LOG_PAGE = 64 * 1024
NEXT_OFFSET = {
    "bullpen-next-offset": {
        "description": "`offset` of the next request.",
        "schema": {"type": "integer", "minimum": 0},
    }
}

State = Annotated[JobState | None, QueryParameter(name="state", description="Only jobs in this state.")]


@post("/v1/jobs", status_code=201, summary="Queue a job of a run")
async def submit_job(request: Asking, context: Ctx, data: JSONBody[SubmitJob], key: Key = "") -> JobAnswer:
    """The next free runner of the run takes it. A run that was never provisioned is a 404. With the same key again, the
    answer is the job that was queued the first time, as it is now."""
    asked = jobs.JobRequest(
        run_id=data.run_id,
        command=data.command,
        name=data.name,
        index=data.index,
        timeout=data.timeout_seconds,
        capability=data.capability,
        side_effects=data.side_effects,
        source=data.source,
        artifacts=data.artifacts,
    )
    with context.serving(request, Scope.OPERATE) as operator:
        jobs.check_served(context.settings)
        if not context.operations.serves(jobs.checked(asked).run_id):  # its provision may be about to open its record
            await require_run(context.ports, asked.run_id)
        by = f"operator {operator.id}"
        id = jobs.id_of_key(asked.run_id, key, by) if key else ""
        (job,) = await jobs.submit(context.ports, [asked], by=by, avoid=data.avoid, id=id)
        if key and jobs.request_of(job) != asked:
            raise key_mismatch(job.id, key, "queued")
        return job_of(job)


@get("/v1/jobs", summary="List the jobs of a run")
async def list_jobs(
    request: Asking,
    context: Ctx,
    run_id: Annotated[
        str,
        QueryParameter(
            name="runId", min_length=1, max_length=limits.RUN_ID_LENGTH, description="The run whose jobs are listed."
        ),
    ],
    limit: Limit = 100,
    after: After = "",
    only: State = None,
) -> JobList:
    """A page is in the order in which its jobs were submitted; the pages follow the ids."""
    stored_state(only)
    with context.serving(request, Scope.READ):
        found = await job_page(context.ports, run_id, limit, after, state=only)
        return jobs_of(run_id, found.records, found.next)


@get("/v1/jobs/{job_id:str}", summary="Show a job and its story")
async def show_job(request: Asking, context: Ctx, job_id: JobPath) -> JobAnswer:
    """With the last steps of the job, oldest first."""
    with context.serving(request, Scope.READ):
        job = await jobs.find(context.ports, job_id)
        return job_of(job, (await context.ports.records.stories([job_id])).get(job_id, ()))


@get(
    "/v1/jobs/{job_id:str}/logs",
    summary="Read what a job printed",
    media_type="text/plain",
    opt={"headers": NEXT_OFFSET},
)
async def read_job_logs(
    request: Asking,
    context: Ctx,
    job_id: JobPath,
    fence: Annotated[int, QueryParameter(ge=0, le=limits.NUMBER, description="Which assignment; 0: the last one.")] = 0,
    offset: Annotated[int, QueryParameter(ge=0, le=limits.NUMBER, description="Bytes to pass over.")] = 0,
) -> Response[bytes]:
    """At most 64 KiB from `offset` on, and nothing at the end. The header `bullpen-next-offset` says where to go on."""
    with context.serving(request, Scope.READ):
        job = await jobs.find(context.ports, job_id)
        content = await context.ports.logs.read(job_id, fence or job.fence, offset, LOG_PAGE)
        # Never shown as a page: a job can print anything.
        headers = {"x-content-type-options": "nosniff", "bullpen-next-offset": str(offset + len(content))}
        return Response(content, media_type="text/plain", headers=headers)


@post(
    "/v1/jobs/{job_id:str}/cancel",
    status_code=202,
    summary="End a job that waits; ask the worker of a running one to stop it",
)
async def cancel_job(request: Asking, context: Ctx, job_id: JobPath) -> JobAnswer:
    """A job that waits has ended with this answer. The worker of a running job is asked to end it."""
    with context.serving(request, Scope.OPERATE) as operator:
        by = f"operator {operator.id}"
        return job_of(await jobs.cancel(context.ports, context.settings, job_id, by=by, why="cancelled"))


@post("/v1/jobs/{job_id:str}/postpone", status_code=200, summary="Keep a job that waits for a runner on its way")
async def postpone_job(request: Asking, context: Ctx, job_id: JobPath, data: JSONBody[PostponeJob]) -> JobAnswer:
    """For so many seconds no runner gets it; ask again to keep it longer. A job that does not wait stays as it is."""
    with context.serving(request, Scope.OPERATE) as operator:
        return job_of(await jobs.postpone(context.ports, job_id, data.seconds, by=f"operator {operator.id}"))


ROUTER = Router(
    "/",
    route_handlers=[submit_job, list_jobs, show_job, read_job_logs, cancel_job, postpone_job],
    tags=["jobs"],
    before_request=check_query,
)
