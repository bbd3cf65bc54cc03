"""The endpoints of agents. Every route requires the token of the instance that its path names."""

from typing import Annotated

from litestar import Router
from litestar.params import JSONBody, QueryParameter

from bullpen import jobs
from bullpen.errors import NotFound, Refused
from bullpen.jobs import StaleResult
from bullpen.model import job as steps
from bullpen.model import limits
from bullpen.model.job import Job
from bullpen.model.job_policy import Assignment
from bullpen.model.signal import Signal
from bullpen.schema.agent import (
    AgentRecord,
    AssignmentAnswer,
    AssignmentStanding,
    FinishedJob,
    LogWritten,
    SignalStored,
    TakenJob,
)
from bullpen.schema.base import filled
from bullpen.schema.job import JobAnswer, job_of
from bullpen.schema.requests import BindJob, FinishJob, GiveBackJob, ReportSignal, TakeJob
from bullpen.server.context import Asking, Context, Ctx
from bullpen.server.parameters import InstancePath, JobPath
from bullpen.server.problems import bad_input
from bullpen.server.routes.responses import get, post

HELD = 10  # jobs looked at: an agent runs one at a time

Seen = Annotated[str, QueryParameter(max_length=64, description="`seen` of the last answer; empty: answer at once.")]
Wait = Annotated[float, QueryParameter(ge=0, le=limits.POLL_SECONDS, description="Seconds to wait for news.")]


@get("/v1/agents/{instance_id:str}/record", summary="Show the instance's record; waits for a change")
async def show_agent_record(
    request: Asking, context: Ctx, instance_id: InstancePath, seen: Seen = "", wait: Wait = 0.0
) -> AgentRecord:
    """Answers at once, or when something changed since `seen`."""
    context.check_agent(request, instance_id)
    waits = bool(seen) and wait > 0
    with context.admission.poll(instance_id) if waits else context.admission.work():
        sight = await context.long_poll.news(instance_id, seen, wait if waits else 0.0)
        one = sight.instance
        if one is None:
            return AgentRecord(found=False, seen=sight.mark)
        signal = (await context.ports.signals.read([instance_id]))[instance_id].signal
    return filled(
        AgentRecord,
        one,
        found=True,
        seen=sight.mark,
        threshold=one.threshold.timestamp(),
        has_job=sight.has_job,
        signal_seq=signal.seq if signal else 0,
    )


@post("/v1/agents/{instance_id:str}/signals", summary="Report a signal of the agent")
async def report_signal(
    request: Asking, context: Ctx, instance_id: InstancePath, data: JSONBody[ReportSignal]
) -> SignalStored:
    """A signal counts once and in order."""
    signal = Signal(instance_id, data.kind, data.run_id, data.round, data.seq, data.text[: limits.REASON_LENGTH])
    with context.serving_agent(request, instance_id):
        if instance_id not in await context.ports.records.known([instance_id]):
            raise NotFound(f"{instance_id} has no record")
        return SignalStored(await context.ports.signals.report(signal))


@post("/v1/agents/{instance_id:str}/jobs/take", summary="Take the run's next job")
async def take_job(request: Asking, context: Ctx, instance_id: InstancePath, data: JSONBody[TakeJob]) -> TakenJob:
    """The next job of the run that suits the worker. A job whose answer was lost is given to the same worker again."""
    with context.serving_agent(request, instance_id, data.worker_instance_key):
        one = (await context.ports.records.instances([instance_id])).get(instance_id)
        if one is None or one.round != data.round:
            return TakenJob(None)
        job = await _assigned(context, data.worker_instance_key)
        job = job or await jobs.take(context.ports, context.settings, data.worker_instance_key)
        return TakenJob(job_of(job) if job else None)


async def _assigned(context: Context, key: str) -> Job | None:
    """A job that the worker was given, and never took up: the answer that said so was lost, so it is said again."""
    worker = (await context.ports.workers.workers([key])).get(key)
    held = await context.ports.jobs.held(key, worker.epoch, HELD) if worker else []
    return next((job for job in held if worker and job.epoch == worker.epoch and not job.bound), None)


@post("/v1/agents/{instance_id:str}/jobs/{job_id:str}/bind", summary="Bind a job")
async def bind_job(
    request: Asking, context: Ctx, instance_id: InstancePath, job_id: JobPath, data: JSONBody[BindJob]
) -> JobAnswer:
    """The worker has begun the job."""
    with context.serving_agent(request, instance_id, data.worker_instance_key):
        job = await jobs.find(context.ports, job_id)
        now, key = context.ports.clock.now(), data.worker_instance_key
        holder = steps.Holder(at=now, by=key, worker=key, epoch=data.epoch, fence=data.fence)
        (bound,) = await context.ports.records.apply(steps.bind(job, holder))
        return job_of(bound)


@get(
    "/v1/agents/{instance_id:str}/jobs/{job_id:str}/standing",
    summary="Check whether the worker still has the job",
)
async def check_assignment(
    request: Asking,
    context: Ctx,
    instance_id: InstancePath,
    job_id: JobPath,
    worker: Annotated[
        str, QueryParameter(min_length=1, max_length=limits.KEY_LENGTH, description="Key of the worker.")
    ],
    epoch: Annotated[int, QueryParameter(ge=0, le=limits.NUMBER, description="Epoch of the worker.")],
    fence: Annotated[int, QueryParameter(ge=0, le=limits.NUMBER, description="Assignment of the job.")],
) -> AssignmentAnswer:
    """Whether the worker may go on with the job."""
    with context.serving_agent(request, instance_id, worker):
        job = (await context.ports.jobs.jobs([job_id])).get(job_id)
        if job is None or not Assignment(worker, epoch, fence).is_current(job):
            return AssignmentAnswer(AssignmentStanding.LOST)
        return AssignmentAnswer(AssignmentStanding.CANCELLED if job.cancelling else AssignmentStanding.HOLDS)


@post("/v1/agents/{instance_id:str}/jobs/{job_id:str}/give-back", summary="Give a job back, for another worker")
async def give_back_job(
    request: Asking, context: Ctx, instance_id: InstancePath, job_id: JobPath, data: JSONBody[GiveBackJob]
) -> JobAnswer:
    """Another worker may take the job."""
    with context.serving_agent(request, instance_id, data.worker_instance_key):
        assignment = Assignment(data.worker_instance_key, data.epoch, data.fence)
        return job_of(await jobs.give_back(context.ports, context.settings, job_id, assignment, why=data.why))


@post("/v1/agents/{instance_id:str}/jobs/{job_id:str}/finish", summary="Finish a job")
async def finish_job(
    request: Asking, context: Ctx, instance_id: InstancePath, job_id: JobPath, data: JSONBody[FinishJob]
) -> FinishedJob:
    """The first result of the current assignment counts."""
    with context.serving_agent(request, instance_id, data.worker_instance_key):
        outcome = await jobs.finish(
            context.ports,
            context.settings,
            job_id,
            Assignment(data.worker_instance_key, data.epoch, data.fence),
            exit_code=data.exit_code,
            result=data.result,
            why=data.why,
        )
    if isinstance(outcome, StaleResult):
        return FinishedJob(accepted=False, job=job_of(outcome.job))
    return FinishedJob(accepted=True, job=job_of(outcome))


@post(
    "/v1/agents/{instance_id:str}/jobs/{job_id:str}/log",
    summary="Append to a log",
    opt={"body": "application/octet-stream"},
)
async def append_job_log(
    request: Asking,
    context: Ctx,
    instance_id: InstancePath,
    job_id: JobPath,
    fence: Annotated[int, QueryParameter(ge=1, le=limits.NUMBER, description="Assignment of the job.")],
    offset: Annotated[int, QueryParameter(ge=0, le=limits.NUMBER, description="Where the bytes belong.")],
) -> LogWritten:
    """Writes at an offset. What is there already is left alone; a gap is a 409."""
    context.check_agent(request, instance_id)
    content = await request.body()
    if len(content) > limits.LOG_CHUNK:
        raise bad_input("the chunk is too large", "body", len(content), f"at most {limits.LOG_CHUNK} bytes", status=413)
    with context.admission.work():
        job = await jobs.find(context.ports, job_id)
        # A log belongs to one assignment: no agent writes into that of another instance, or of a future one.
        if job.fence != fence or job.instance_id != instance_id:
            raise Refused(f"{job.id} is not assigned to {instance_id} under fence {fence}")
        return LogWritten(await context.ports.logs.append(job_id, fence, offset, content))


ROUTER = Router(
    "/",
    route_handlers=[
        show_agent_record,
        report_signal,
        take_job,
        bind_job,
        check_assignment,
        give_back_job,
        finish_job,
        append_job_log,
    ],
    tags=["agents"],
)
