"""A request and an answer for each operation, made of the structs themselves: a test decodes each by its schema."""

from typing import Any

import msgspec

from bullpen.auth.tokens import Scope
from bullpen.errors import FailureCause
from bullpen.lazy_dataclass import dataclass
from bullpen.liveness.schema import Binding, HeartbeatAnswer, HeartbeatRequest
from bullpen.model.instance import State as InstanceState
from bullpen.model.job import Result as JobResult
from bullpen.model.job import State as JobState
from bullpen.model.progress import WorkPhase
from bullpen.model.provision import Origin, RunState
from bullpen.model.signal import Kind as SignalKind
from bullpen.model.ticket import RefusalRule, UsageClass
from bullpen.model.usage import Owner
from bullpen.model.wait import SubjectKind, TimelineOutcome, WaitCause, WaitKind
from bullpen.model.worker import State as WorkerState
from bullpen.schema import (
    activity,
    agent,
    base,
    control,
    cost,
    hold,
    instance,
    job,
    operation,
    plan,
    provision,
    queue,
    release,
    requests,
    run,
    series,
    session,
    sources,
    status,
    story,
    why,
    worker,
)
from bullpen.schema.error import ErrorCode
from bullpen.server.routes.github import Delivered
from bullpen.server.routes.heartbeats import BeatResult, BeatResults, HeartbeatBatch
from bullpen.server.routes.tokens import RunToken


@dataclass(frozen=True, slots=True)
class Example:
    answer: Any = None
    request: Any = None
    refusal: Any = None


BEGAN, ENDED, LATER = "2026-11-16T16:01:34Z", "2026-11-16T16:01:35Z", "2026-11-16T16:12:34Z"
RUN, INSTANCE, JOB, PROVISION = "4711", "i-6a545d338e2efa60", "j-7cb708c3f456da5a", "p-ffde469822cdb88a"
SHA256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
WORKER = f"{INSTANCE}/0a0b0c0d"
LINE = story.StoryLineAnswer(1, "submit", "queued", BEGAN, "operator dashboard", "")

SUBMITTED = job.JobAnswer(
    id=JOB,
    run_id=RUN,
    name="unit",
    index=0,
    command=("make", "test"),
    state=JobState.QUEUED,
    result=JobResult.NONE,
    exit_code=None,
    reason="",
    fence=0,
    worker="",
    epoch=0,
    instance_id="",
    losses=0,
    cancelling=False,
    timeout_seconds=0.0,
    capability="",
    side_effects=False,
    source="",
    artifacts=(),
    queued_at=BEGAN,
    finished_at=None,
)
RUNNER = instance.InstanceAnswer(
    id=INSTANCE,
    state=InstanceState.RUNNING,
    run_id=RUN,
    round="0f1e2d3c4b5a6978",
    version=3,
    threshold=LATER,
    attested=False,
    trust_domain="default",
    image_generation=1,
    resource_class="small",
    instance_type="local.small",
    usage_class=UsageClass.ON_DEMAND,
    cpu=2,
    mem=2048,
    provision_id=PROVISION,
    repository="",
    offered_at=None,
    owes=None,
    purge_at=None,
    signal=SignalKind.REG_OK,
    heartbeat_at=ENDED,
)
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
BUILDER = worker.WorkerAnswer(
    key="builder-7",
    state=WorkerState.ACTIVE,
    instance_id="",
    domain="vm",
    epoch=1,
    token=2,
    lease_seconds=60.0,
    deadline=LATER,
    cleanup_at=None,
    heartbeat_at=ENDED,
    owes_reschedule=False,
    host="builder-7.example.org",
)
HOLD = hold.HoldAnswer("large", "the new image does not boot", BEGAN, "ada")
LOOPS = {"debts": True, "sweep": True, "reconcile": True}
BEAT = HeartbeatRequest(key="builder-7", token=1, lease=60, running=(Binding(JOB, 1),))
GRANTED = HeartbeatAnswer(2, 1, 60.0, 18.5, (), WorkerState.ACTIVE, False)
HOLDER: dict[str, Any] = {"worker_instance_key": WORKER, "epoch": 1, "fence": 1}
STREAM = f'id: 1\nevent: gone\ndata: {{"kind":"instance","id":"{INSTANCE}"}}\n\n'

FULL = "limits.max-instances is 2; the total would be 3; in use: 2 small running (run 4710 holds 2)"
REFUSED = why.CandidateAnswer("i-0f3c7a1b5d9e2468", InstanceState.RUNNING, RefusalRule.TAKEN, "serves run 4710")
WAIT = why.WaitAnswer(
    subject=RUN,
    kind=WaitKind.RUN,
    run_id=RUN,
    repository="acme/widgets",
    resource_class="small",
    since=BEGAN,
    cause=WaitCause.CAP,
    because=FULL,
    next="It goes on as soon as 1 runner can be had, and gives up at 16:12:34Z at the latest.",
    seconds_left=None,
    refusals=[why.RefusalCount(RefusalRule.TAKEN, 1)],
    candidates=[REFUSED],
)
TIMELINE = why.TimelineAnswer(
    provision_id=PROVISION,
    asked_at=BEGAN,
    ended_at=ENDED,
    seconds=0.742,
    outcome=TimelineOutcome.MET,
    reason="",
    stages={"picked": 0.011, "claimed": 0.02, "seen": 0.1, "registered": 0.731},
    phases={WorkPhase.SELECT: 0.731},
    lanes=[
        why.LaneAnswer(
            instance_id=INSTANCE,
            origin=Origin.SELECTED,
            picked=0.011,
            claimed=0.02,
            seen=0.1,
            launched=None,
            booted=None,
            registered=0.731,
            first_job=None,
            kept=True,
            reason="",
            fate=None,
        )
    ],
)
STORIES = [story.StoryAnswer(JOB, "queued", None, None, None, [LINE])]

EXAMPLES: dict[str, Example] = {
    "showMetrics": Example("# TYPE bullpen_store_up gauge\nbullpen_store_up 1.0\n"),
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
    "showStatus": Example(
        status.ServerStatus(
            counts={"small": {"running": 1}},
            pools=[status.PoolAnswer("small", 0, False, 0)],
            workers=[status.DomainAnswer("vm", 1, 0)],
            silent_workers=[],
            hold="",
            controls=[],
            waiting=[],
            failing_loops=[],
            loops=LOOPS,
            settings=status.SettingsAnswer(),
        )
    ),
    "listInstances": Example(instance.InstanceList([RUNNER], "")),
    "showInstance": Example(RUNNER),
    "showStories": Example(story.StoryList(JOB, [story.StoryAnswer(JOB, "queued", None, None, None, [LINE])])),
    "listHolds": Example(hold.HoldList([HOLD])),
    "pausePool": Example(
        hold.OperateAnswer(False, [hold.OperatorAction("pause", "class large", "no provision of it starts")], HOLD),
        hold.PausePool(HOLD.note, "large"),
    ),
    "resumePool": Example(
        hold.OperateAnswer(False, [hold.OperatorAction("resume", "class large", "provisions start again")]),
        hold.ResumePool("large"),
    ),
    "drainInstances": Example(
        hold.OperateAnswer(False, [hold.OperatorAction("end", INSTANCE, "it is free")]),
        hold.DrainInstances((INSTANCE,), note="its disk is full"),
    ),
    "rotatePool": Example(
        hold.OperateAnswer(
            True,
            [hold.OperatorAction("rotate", "class small", "8 free: replaced, 2 at a time, as others take their place")],
        ),
        hold.RotatePool("small", dry_run=True),
    ),
    "explainSubject": Example(
        why.WhyAnswer(RUN, SubjectKind.RUN, f"{RUN} waits: {FULL}", [WAIT], TIMELINE, STORIES),
    ),
    "planProvision": Example(
        plan.PlanAnswer(
            run_id=RUN,
            requested=2,
            serving=[],
            would_claim=[plan.PlannedClaim(INSTANCE, "small", "m7g.large", UsageClass.ON_DEMAND)],
            would_end=[],
            would_launch=plan.PlannedLaunch(1, "small", UsageClass.ON_DEMAND, ["m7g.*"], 1, 1024, 1),
            refusals=[why.RefusalCount(RefusalRule.TAKEN, 1)],
            refused=[REFUSED],
            price_per_hour=0.1632,
            missing_prices=[],
            caps=[plan.PlannedCap("limits.max-instances", 100, 2, 3)],
            idle_target=plan.PlannedTarget("classes.small.schedule", 1, 1, 0, "mon-fri 08:00-18:00 Europe/Berlin"),
            blocked_by=None,
        ),
        plan.PlanRun(count=2, run_id=RUN),
    ),
    "showQueue": Example(
        queue.QueueAnswer(
            waits=[msgspec.structs.replace(WAIT, candidates=[])],
            more=0,
            unmatched=[],
            latencies=[queue.LatencyAnswer("small", "acme/widgets", 12, 0.7, 41.2, 48.0, 20.0)],
            data_since=BEGAN,
        )
    ),
    "listWorkers": Example(worker.WorkerList([BUILDER], "")),
    "showWorker": Example(BUILDER),
    "stopWorker": Example(worker.WorkerStopped("builder-7", WorkerState.CLEANED_UP, [])),
    "recordHeartbeat": Example(GRANTED, BEAT),
    "recordHeartbeats": Example(
        BeatResults(
            [
                BeatResult(token=2, epoch=1, granted_lease_seconds=60.0, next_in_seconds=18.5, stop=[]),
                BeatResult(code=ErrorCode.CONFLICT, error="token-mismatch", token=2),
            ]
        ),
        HeartbeatBatch([BEAT, BEAT]),
    ),
    "showControl": Example(
        control.ControlsAnswer(
            loops=[
                control.LoopAnswer(
                    "serve on pool-1 (4711)",
                    "debts",
                    1.0,
                    True,
                    ENDED,
                    0.004,
                    [control.LoopTurnAnswer(ENDED, 0.004, True)],
                    False,
                    "",
                )
            ],
            debts=[control.OwedAnswer(INSTANCE, story.DebtKind.OFFER, LATER, "its agent")],
            more_debts=False,
            hold="",
            protection=[],
            holds=[],
            rate_limits=[],
            runner_version=control.RunnerVersionAnswer("2.329.0", LATER),
            store=control.StoreAnswer(True, control.StoreKind.SQLITE),
            replicas=[control.ReplicaAnswer("serve on pool-1 (4711)", ENDED)],
        )
    ),
    "showSeries": Example(
        series.SeriesAnswer(
            BEGAN,
            ENDED,
            BEGAN,
            [series.ClassSeries("small", 1, 2, 0, 0, [series.MinuteAnswer(BEGAN, 1, 2, 0, 0, 0.14, 0.14, 3)])],
            [series.MarkAnswer(ENDED, "end", INSTANCE, "no heartbeat for 41 s")],
            0.0816,
            0,
        )
    ),
    "showCost": Example(
        cost.CostAnswer(
            since=BEGAN,
            until=ENDED,
            data_since=BEGAN,
            by="repository",
            total=cost.AmountAnswer(5400.0, 0.1224),
            owners=cost.OwnersAnswer(
                cost.AmountAnswer(3600.0, 0.0816),
                cost.AmountAnswer(1500.0, 0.034),
                cost.AmountAnswer(240.0, 0.00544),
                cost.AmountAnswer(60.0, 0.00136),
            ),
            rows=[
                cost.CostRowAnswer("acme/widgets", cost.OwnerSeconds(3600.0, 0.0, 240.0, 60.0), 3900.0, 0.0884),
                cost.CostRowAnswer("(no run)", cost.OwnerSeconds(0.0, 1500.0, 0.0, 0.0), 1500.0, 0.034),
            ],
            more_rows=0,
            machines=cost.AmountAnswer(5400.0, 0.1224),
            types=[cost.MachineCostAnswer("m7g.large", UsageClass.ON_DEMAND, 0.0816, 5400.0, 0.1224)],
            missing_prices=[],
            reused=40,
            avoided_seconds=2400.0,
            saved_seconds=900.0,
            saved_money=0.0204,
        )
    ),
    "listCostHours": Example(cost.HourCostList(BEGAN, ENDED, [cost.HourCostAnswer(BEGAN, Owner.RUN, 3600.0, 0.0816)])),
    "listActivity": Example(
        activity.ActivityList(
            [
                activity.NotedAction(
                    ENDED, "serve on pool-1 (4711)/reap", "terminate", INSTANCE, "idle for 7 min", True, False
                )
            ],
            "",
        )
    ),
    "openSession": Example(session.SessionAnswer("dashboard", Scope.OPERATE, LATER), session.LogIn("bpo_EXAMPLE")),
    "showSession": Example(session.SessionAnswer("dashboard", Scope.OPERATE, LATER)),
    "endSession": Example(session.SessionEnded(True)),
    "streamEvents": Example(STREAM),
    "receiveWebhook": Example(Delivered(True), '{"action": "completed"}'),
    "checkHealth": Example(status.AliveAnswer(True)),
    "checkReadiness": Example(
        status.ReadyAnswer(True, True, LOOPS), refusal=status.ReadyAnswer(False, False, LOOPS, {"reconcile": BEGAN})
    ),
    # ---- sources
    "showSourceLimits": Example(sources.SourceLimits(524288000)),
    "listMissingBlocks": Example(sources.MissingBlocks([SHA256]), sources.AskMissing((SHA256,))),
    "sendPack": Example(sources.PieceStored(524288, False), "BYTES"),
    "sendManifest": Example(sources.PieceStored(1337, True), "BYTES"),
    "listArtifacts": Example(
        sources.ArtifactList(JOB, 1, 4711, [sources.ArtifactFile("dist/report.xml", 4000, False)])
    ),
    "readArtifacts": Example("BYTES"),
    "readEvidence": Example("BYTES"),
    # ---- agents
    "fetchSource": Example("BYTES"),
    "sendArtifacts": Example(agent.LogWritten(4711), "BYTES"),
    "showAgentRecord": Example(agent.AgentRecord(True, "3", InstanceState.RUNNING, RUN, "0f1e2d3c4b5a6978")),
    "reportSignal": Example(
        agent.SignalStored(True), requests.ReportSignal(SignalKind.REG_OK, RUN, "0f1e2d3c4b5a6978", 2)
    ),
    "takeJob": Example(agent.TakenJob(SUBMITTED), requests.TakeJob(WORKER, "0f1e2d3c4b5a6978")),
    "bindJob": Example(SUBMITTED, requests.BindJob(**HOLDER)),
    "checkAssignment": Example(agent.AssignmentAnswer(agent.AssignmentStanding.HOLDS)),
    "giveBackJob": Example(SUBMITTED, requests.GiveBackJob(**HOLDER, why="the machine is about to go")),
    "finishJob": Example(agent.FinishedJob(True, SUBMITTED), requests.FinishJob(**HOLDER, exit_code=0)),
    "appendJobLog": Example(agent.LogWritten(19), "12 passed in 0.34s\n"),
    "registerRunner": Example(agent.RegistrationAnswer(True), requests.RegisterRunner(RUN, "0f1e2d3c4b5a6978")),
    "deregisterRunner": Example(agent.RegistrationAnswer(False)),
    "proveInstance": Example(
        agent.AgentToken("bpa_EXAMPLE"),
        requests.ProveInstance("AWS4-HMAC-SHA256 Credential=EXAMPLE", "20261116T160134Z", "EXAMPLE"),
    ),
}
