"""What became of a provision."""

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from bullpen.errors import FailureCause
from bullpen.model.instance import InstanceFate
from bullpen.model.instance import State as InstanceState
from bullpen.model.progress import WorkPhase
from bullpen.model.provision import Origin
from bullpen.model.ticket import UsageClass
from bullpen.schema.base import AnswerBody, WorkState, filled

if TYPE_CHECKING:
    from bullpen.provision.outcome import Member, Outcome


class MemberAnswer(AnswerBody, frozen=True):
    """An instance that serves the run."""

    instance_id: Annotated[str, Meta(description="Id of the instance.")]
    origin: Annotated[Origin, Meta(description="Whether it was reused from the pool or created for the run.")]
    state: Annotated[InstanceState, Meta(description="State of the instance.")]
    resource_class: Annotated[str, Meta(description="Resource class.")]
    instance_type: Annotated[str, Meta(description="Type of the machine.")]
    usage_class: Annotated[UsageClass, Meta(description="How the machine is paid for.")]


class DiscardedAnswer(AnswerBody, frozen=True):
    """An instance that the provision held for a while and did not keep, and what became of it."""

    instance_id: Annotated[str, Meta(description="Id of the instance.")]
    origin: Annotated[Origin, Meta(description="Whether it was reused from the pool or created for the run.")]
    reason: Annotated[str, Meta(description="Why it was not kept.")]
    outcome: Annotated[InstanceFate, Meta(description="What became of it.")]


class ProvisionAnswer(AnswerBody, frozen=True):
    """`runId` is also the label of the runners. `provisionId` is empty if the run already had all runners it requested.

    `instances` is empty if it failed. `kept` serve the run besides, because a CI job of the run began on each before it
    could be given back. `held` are ids of instances that served the run before: members if it was met, and if it failed
    they still serve.
    """

    run_id: Annotated[str, Meta(description="Run that was provisioned. It is also the label of its runners.")]
    provision_id: Annotated[
        str, Meta(description="Id of the provision; empty if the run already had every runner it requested.")
    ]
    state: Annotated[WorkState, Meta(description="Whether it was met.")]
    requested: Annotated[int, Meta(description="Runners that were asked for.")]
    selected: Annotated[int, Meta(description="Runners that were reused from the pool.")]
    created: Annotated[int, Meta(description="Runners that were created.")]
    duration_seconds: Annotated[float, Meta(description="How long it took.")]
    timings: Annotated[dict[WorkPhase, float], Meta(description="Seconds by phase.")]
    cause: Annotated[FailureCause, Meta(description="Why it failed, for programs; empty if it did not.")]
    reason: Annotated[str, Meta(description="Why it failed, for people.")]
    remedy: Annotated[str, Meta(description="What to do about it.")]
    instances: Annotated[list[MemberAnswer], Meta(description="Instances that serve the run; empty if it failed.")]
    kept: Annotated[
        list[MemberAnswer],
        Meta(description="Instances that serve the run besides: a CI job began on each too early."),
    ]
    held: Annotated[
        list[str],
        Meta(description="Ids of instances that served the run before. If the provision failed they still do."),
    ]
    discarded: Annotated[list[DiscardedAnswer], Meta(description="Instances that were held for a while and not kept.")]
    collisions: Annotated[int, Meta(description="How often another run was faster at a claim.")]


def provision_of(outcome: "Outcome") -> ProvisionAnswer:
    return filled(
        ProvisionAnswer,
        outcome,
        state=WorkState.SUCCEEDED if outcome.succeeded else WorkState.FAILED,
        duration_seconds=round(outcome.duration, 3),
        timings={phase: round(seconds, 3) for phase, seconds in outcome.timings.items()},
        instances=[_member_of(one) for one in outcome.members],
        kept=[_member_of(one) for one in outcome.kept],
        held=[one.instance.id for one in outcome.held],
        discarded=[filled(DiscardedAnswer, one) for one in outcome.discarded],
    )


def _member_of(member: "Member") -> MemberAnswer:
    one = member.instance
    return MemberAnswer(one.id, member.origin, one.state, one.resource_class, one.instance_type, one.usage_class)
