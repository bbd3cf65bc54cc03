"""Runs, provisions, operations and jobs."""

import msgspec

from bullpen.errors import FailureCause
from bullpen.model.instance import State as InstanceState
from bullpen.model.progress import WorkPhase
from bullpen.model.provision import Origin, RunState
from bullpen.model.ticket import UsageClass
from bullpen.schema import (
    base,
    job,
    operation,
    provision,
    release,
    requests,
    run,
)
from bullpen.server.openapi.examples.subjects import (
    BEGAN,
    ENDED,
    INSTANCE,
    LATER,
    LINE,
    PROVISION,
    RUN,
    RUNNER,
    SUBMITTED,
    Example,
)
from bullpen.server.routes.tokens import RunToken

PROVISIONED = provision.ProvisionAnswer(
    run_id=RUN,
    provision_id=PROVISION,
    state=base.WorkState.SUCCEEDED,
    requested=1,
    selected=0,
    created=1,
    duration_seconds=1.433,
    timings={WorkPhase.CREATE: 0.075, WorkPhase.REGISTER: 1.324},
    cause=FailureCause.NONE,
    reason="",
    remedy="",
    instances=[
        provision.MemberAnswer(
            INSTANCE, Origin.CREATED, InstanceState.RUNNING, "small", "local.small", UsageClass.ON_DEMAND
        )
    ],
    kept=[],
    held=[],
    discarded=[],
    collisions=0,
)
PROGRESS = operation.ProgressAnswer(WorkPhase.ACQUIRE, "0 of 1 ready", 0, 1, {WorkPhase.CREATE: 1}, "")
OPERATION = "op-78b724abe6ea00fc"
PROVISIONING = operation.ProvisionOperation(
    id=OPERATION,
    run_id=RUN,
    state=operation.OperationState.RUNNING,
    started_at=BEGAN,
    ends_by=LATER,
    progress=PROGRESS,
)
ENDED_PROVISION = operation.ProvisionOperation(
    id=OPERATION,
    run_id=RUN,
    state=operation.OperationState.SUCCEEDED,
    started_at=BEGAN,
    ends_by=LATER,
    finished_at=ENDED,
    result=PROVISIONED,
)
RELEASING = operation.ReleaseOperation(
    id="op-265b25e401905dc4",
    run_id=RUN,
    state=operation.OperationState.SUCCEEDED,
    started_at=BEGAN,
    ends_by=LATER,
    finished_at=ENDED,
    result=release.ReleaseAnswer(RUN, base.WorkState.SUCCEEDED, (INSTANCE,), (), (), (), 0.8),
)

EXAMPLES = {
    "listRuns": Example(
        run.RunPage([run.RunSummary(RUN, RunState.RUNNING, ["small"], 1, 1, 1, 0, BEGAN, "acme/widgets", "")], "")
    ),
    "showRun": Example(run.RunAnswer(RUN, [RUNNER], [SUBMITTED])),
    "provisionRun": Example(PROVISIONING, requests.ProvisionRun(count=1)),
    "releaseRun": Example(RELEASING),
    "exchangeToken": Example(
        RunToken("bpr_EXAMPLE", 900, RUN, "acme/widgets", "acme/widgets"),
        requests.ExchangeToken("eyJFWEFNUExFIn0"),
    ),
    "listOperations": Example(operation.OperationList([ENDED_PROVISION, RELEASING], "")),
    "showOperation": Example(ENDED_PROVISION),
    "stopOperation": Example(PROVISIONING),
    "submitJob": Example(SUBMITTED, requests.SubmitJob(RUN, ("make", "test"), name="unit")),
    "listJobs": Example(job.JobList(RUN, [SUBMITTED])),
    "showJob": Example(msgspec.structs.replace(SUBMITTED, story=[LINE])),
    "readJobLogs": Example("12 passed in 0.34s\n"),
    "cancelJob": Example(SUBMITTED),
    "postponeJob": Example(SUBMITTED, requests.PostponeJob(30.0)),
}
