"""What became of a provision."""

from bullpen.errors import FailureCause
from bullpen.model.instance import State as InstanceState
from bullpen.model.progress import WorkPhase
from bullpen.model.ticket import UsageClass
from bullpen.pool.lifecycle import InstanceFate
from bullpen.provision.outcome import Member, Origin, Outcome
from bullpen.schema.base import AnswerBody, WorkState, filled


class MemberAnswer(AnswerBody, frozen=True):
    """An instance that serves the run."""

    instance_id: str
    origin: Origin
    state: InstanceState
    resource_class: str
    instance_type: str
    usage_class: UsageClass


class DiscardedAnswer(AnswerBody, frozen=True):
    """An instance that the provision held for a while and did not keep, and what became of it."""

    instance_id: str
    origin: Origin
    reason: str
    outcome: InstanceFate


class ProvisionAnswer(AnswerBody, frozen=True):
    """`runId` is also the label of the runners. `provisionId` is empty if the run already had all it asked for.

    `instances` is empty if it failed. `kept` serve the run besides, because a CI job of the run began on each before it
    could be given back. `held` are ids of instances that served the run before: members if it was met, and if it failed
    they still serve.
    """

    run_id: str
    provision_id: str
    state: WorkState
    requested: int
    selected: int
    created: int
    duration_seconds: float
    timings: dict[WorkPhase, float]
    cause: FailureCause
    reason: str
    remedy: str
    instances: list[MemberAnswer]
    kept: list[MemberAnswer]
    held: list[str]
    discarded: list[DiscardedAnswer]
    collisions: int


def provision_of(outcome: Outcome) -> ProvisionAnswer:
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


def _member_of(member: Member) -> MemberAnswer:
    one = member.instance
    return MemberAnswer(one.id, member.origin, one.state, one.resource_class, one.instance_type, one.usage_class)
