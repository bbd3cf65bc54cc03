"""What a provision would do now, without doing it."""

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from bullpen.model.ticket import UsageClass
from bullpen.model.wait import WaitCause
from bullpen.schema.base import AnswerBody, Time, filled, time_of
from bullpen.schema.requests import ProvisionRun, RunId
from bullpen.schema.why import CandidateAnswer, RefusalCount, candidate_of, refusals_of

if TYPE_CHECKING:
    from bullpen.explain.plan import ProvisionPlan
    from bullpen.model.instance import Instance


class PlanRun(ProvisionRun, frozen=True, kw_only=True):
    """The request of a provision, and the run that it is for."""

    run_id: RunId


class PlannedClaim(AnswerBody, frozen=True):
    """An instance of the pool that would be claimed."""

    instance_id: Annotated[str, Meta(description="Id of the instance.")]
    resource_class: Annotated[str, Meta(description="Resource class.")]
    instance_type: Annotated[str, Meta(description="Type of the machine.")]
    usage_class: Annotated[UsageClass, Meta(description="How the machine is paid for.")]


class PlannedLaunch(AnswerBody, frozen=True):
    """The machines that would be launched."""

    count: Annotated[int, Meta(description="How many machines would be launched.")]
    resource_class: Annotated[str, Meta(description="Resource class.")]
    usage_class: Annotated[UsageClass, Meta(description="How the machines are paid for.")]
    types: Annotated[list[str], Meta(description="Types that would be asked for; `*` stands for any characters.")]
    cpu: Annotated[int, Meta(description="Processors that each has at least.")]
    mem: Annotated[int, Meta(description="MiB of memory that each has at least.")]
    image_generation: Annotated[int, Meta(description="Image generation of the machines.")]


class PlannedCap(AnswerBody, frozen=True):
    """A cap of the class, and how full it would be."""

    setting: Annotated[str, Meta(description="Setting of the cap.")]
    limit: Annotated[int, Meta(description="Most instances that it allows.")]
    now: Annotated[int, Meta(description="Instances that count for it now, with those that are being launched.")]
    after: Annotated[int, Meta(description="Instances that would count for it afterwards.")]


class PlannedTarget(AnswerBody, frozen=True):
    """The idle target of the class."""

    setting: Annotated[str, Meta(description="Setting that gives the target now.")]
    target: Annotated[int, Meta(description="Instances that are to be on offer now.")]
    now: Annotated[int, Meta(description="Instances on offer now.")]
    after: Annotated[int, Meta(description="Instances on offer afterwards.")]
    entry: Annotated[str, Meta(description="Entry of the schedule that sets the target now; empty if none does.")] = ""
    next_target: Annotated[
        int | None, Meta(description="The target after its next change; null if the schedule does not change it.")
    ] = None
    next_target_at: Annotated[Time | None, Meta(description="When the target changes next; null if it does not.")] = (
        None
    )


class PlanObstacle(AnswerBody, frozen=True):
    """Why the provision would fail, wait, or get fewer runners."""

    cause: Annotated[WaitCause, Meta(description="Why, for programs.")]
    because: Annotated[str, Meta(description="Why, as a sentence.")]
    next: Annotated[str, Meta(description="What would happen, or what to do.")]


class PlanAnswer(AnswerBody, frozen=True):
    """What a provision would do now. Nothing was changed or reserved: a moment later the answer may be another."""

    run_id: Annotated[str, Meta(description="Run that the plan is for.")]
    requested: Annotated[int, Meta(description="Runners that were asked for.")]
    serving: Annotated[list[str], Meta(description="Ids of instances that serve the run already, and count.")]
    would_claim: Annotated[list[PlannedClaim], Meta(description="Instances of the pool that would be claimed.")]
    would_end: Annotated[
        list[str], Meta(description="Ids of idle instances that would be ended to make room under a cap.")
    ]
    would_launch: Annotated[
        PlannedLaunch | None, Meta(description="Machines that would be launched; null if none would.")
    ]
    refusals: Annotated[
        list[RefusalCount], Meta(description="How many instances of the class each rule refuses, the most first.")
    ]
    refused: Annotated[
        list[CandidateAnswer], Meta(description="Instances that would not be claimed, and why; at most 200.")
    ]
    price_per_hour: Annotated[
        float | None,
        Meta(description="US dollars per hour of all runners of the plan; null if a price is missing."),
    ]
    missing_prices: Annotated[list[str], Meta(description="Types without a price.")]
    caps: Annotated[list[PlannedCap], Meta(description="Caps of the class, and how full they would be.")]
    idle_target: Annotated[PlannedTarget, Meta(description="Idle target of the class, and how it would be met.")]
    blocked_by: Annotated[
        PlanObstacle | None,
        Meta(description="Why the provision would fail, wait or get fewer runners; null if it would be met."),
    ] = None


def plan_of(plan: "ProvisionPlan") -> PlanAnswer:
    obstacle = plan.obstacle
    return PlanAnswer(
        run_id=plan.request.run_id,
        requested=plan.request.count,
        serving=[one.id for one in plan.serving],
        would_claim=[_claim_of(one) for one in plan.claims],
        would_end=[one.id for one in plan.ended],
        would_launch=filled(PlannedLaunch, plan.launch, types=list(plan.launch.types)) if plan.launch else None,
        refusals=refusals_of(plan.candidates.refusals),
        refused=[candidate_of(one) for one in plan.candidates.listed],
        price_per_hour=plan.price.per_hour,
        missing_prices=list(plan.price.missing),
        caps=[PlannedCap(one.cap.setting, one.cap.limit, one.now, one.after) for one in plan.caps],
        idle_target=_target_of(plan),
        blocked_by=PlanObstacle(obstacle.cause, obstacle.because, obstacle.next) if obstacle else None,
    )


def _target_of(plan: "ProvisionPlan") -> PlannedTarget:
    use = plan.target
    key = "schedule" if use.target.entry else "idle-target"
    setting = f"classes.{plan.request.needs.resource_class}.{key}"
    return PlannedTarget(
        setting,
        use.target.target,
        use.now,
        use.after,
        use.target.entry,
        next_target=None if use.target.until is None else use.target.then,
        next_target_at=time_of(use.target.until),
    )


def _claim_of(one: "Instance") -> PlannedClaim:
    return PlannedClaim(one.id, one.resource_class, one.instance_type, one.usage_class)
