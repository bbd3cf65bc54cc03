"""Why something waits, and how long the stages of what does not wait any more took."""

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, field

from bullpen.model.instance import InstanceFate
from bullpen.model.instance import State as InstanceState
from bullpen.model.progress import WorkPhase
from bullpen.model.provision import Origin
from bullpen.model.ticket import RefusalRule
from bullpen.model.wait import Candidate, ExplainedWait, WaitCause, WaitKind
from bullpen.model.wait import SubjectKind as SubjectKind
from bullpen.model.wait import TimelineOutcome as TimelineOutcome
from bullpen.schema.base import AnswerBody, Time, filled, time_of
from bullpen.schema.story import StoryAnswer, story_of

if TYPE_CHECKING:
    from bullpen.explain import Explanation
    from bullpen.explain.timeline import Timeline, TimelineLane

CANDIDATES_SHOWN = 200
"""Of a wait; `refusals` counts all that were looked at."""


class RefusalCount(AnswerBody, frozen=True):
    """How many instances a rule refuses."""

    rule: Annotated[RefusalRule, Meta(description="The rule; `fits` if none refuses them.")]
    count: Annotated[int, Meta(description="How many instances it refuses.")]


class CandidateAnswer(AnswerBody, frozen=True):
    """An instance that could serve what waits, and the rule that refuses it."""

    instance_id: Annotated[str, Meta(description="Id of the instance.")]
    state: Annotated[InstanceState, Meta(description="State of the instance.")]
    rule: Annotated[RefusalRule, Meta(description="The rule that refuses it; `fits` if none does.")]
    detail: Annotated[str, Meta(description="What it has and what is asked for; empty if the rule says it all.")] = ""


class WaitAnswer(AnswerBody, frozen=True):
    """One wait, with one cause of a closed list."""

    subject: Annotated[str, Meta(description="Id of what waits.")]
    kind: Annotated[WaitKind, Meta(description="What waits.")]
    run_id: Annotated[str, Meta(description="Its run; empty if it has none.")]
    repository: Annotated[str, Meta(description="Repository of its run; empty if that is not known.")]
    resource_class: Annotated[str, Meta(description="Resource class that it needs; empty if that is not known.")]
    since: Annotated[Time | None, Meta(description="Since when it waits; null if that is not known.")]
    cause: Annotated[WaitCause, Meta(description="Why it waits, for programs.")]
    because: Annotated[str, Meta(description="Why it waits, as a sentence.")]
    next: Annotated[str, Meta(description="What happens next, or what to do.")]
    seconds_left: Annotated[
        float | None,
        Meta(description="Seconds until it goes on, by how long that took before; null if that is not known."),
    ]
    refusals: Annotated[
        list[RefusalCount], Meta(description="How many instances of its class each rule refuses, the most first.")
    ] = field(default_factory=list)
    candidates: Annotated[
        list[CandidateAnswer],
        Meta(description=f"Instances of its class and what refuses each; at most {CANDIDATES_SHOWN}."),
    ] = field(default_factory=list)


class LaneAnswer(AnswerBody, frozen=True):
    """One instance that a provision held, with the seconds from the request until each stage; null for a stage that it
    did not reach."""

    instance_id: Annotated[str, Meta(description="Id of the instance.")]
    origin: Annotated[Origin, Meta(description="Whether it was reused from the pool or created for the run.")]
    picked: Annotated[float | None, Meta(description="Until its offer was picked up.")]
    claimed: Annotated[float | None, Meta(description="Until it was claimed.")]
    seen: Annotated[float | None, Meta(description="Until its agent acknowledged the claim.")]
    launched: Annotated[float | None, Meta(description="Until its machine was launched.")]
    booted: Annotated[float | None, Meta(description="Until its machine had booted.")]
    registered: Annotated[float | None, Meta(description="Until its runner was registered.")]
    first_job: Annotated[float | None, Meta(description="Until its first job began.")]
    kept: Annotated[bool, Meta(description="Whether it served the run in the end.")]
    reason: Annotated[str, Meta(description="Why it was not kept; empty if it was.")]
    fate: Annotated[InstanceFate | None, Meta(description="What became of it; null if it was kept.")]


class TimelineAnswer(AnswerBody, frozen=True):
    """Where the time of a provision went."""

    provision_id: Annotated[str, Meta(description="Id of the provision.")]
    asked_at: Annotated[Time, Meta(description="When it was asked for.")]
    ended_at: Annotated[Time | None, Meta(description="When it was decided; null while it is not.")]
    outcome: Annotated[TimelineOutcome, Meta(description="What became of it.")]
    reason: Annotated[str, Meta(description="Why it failed; empty if it did not.")]
    stages: Annotated[
        dict[str, float],
        Meta(description="Seconds from the request until every instance that was kept had reached a stage, in order."),
    ]
    lanes: Annotated[list[LaneAnswer], Meta(description="The instances that it held, kept or not.")]
    seconds: Annotated[
        float | None, Meta(description="How long it took until it was decided; null while it is not.")
    ] = None
    phases: Annotated[dict[WorkPhase, float], Meta(description="For how many seconds the call waited for what.")] = (
        field(default_factory=dict)
    )


class WhyAnswer(AnswerBody, frozen=True):
    """Why something waits; and where its time went, once it does not wait any more."""

    id: Annotated[str, Meta(description="What was asked for.")]
    kind: Annotated[SubjectKind, Meta(description="What the id names.")]
    summary: Annotated[str, Meta(description="What it does or why it waits, in one sentence.")]
    waits: Annotated[list[WaitAnswer], Meta(description="What waits; empty if it does not wait.")]
    timeline: Annotated[
        TimelineAnswer | None, Meta(description="Where the time of its last provision went; null if that is not known.")
    ]
    stories: Annotated[list[StoryAnswer], Meta(description="The last steps of each of its records.")]


def wait_of(wait: ExplainedWait, *, with_candidates: bool = True) -> WaitAnswer:
    return filled(
        WaitAnswer,
        wait,
        since=time_of(wait.since),
        seconds_left=None if wait.seconds_left is None else round(wait.seconds_left, 1),
        refusals=refusals_of(wait.refusals),
        candidates=[candidate_of(one) for one in wait.candidates[:CANDIDATES_SHOWN]] if with_candidates else [],
    )


def refusals_of(counts: tuple[tuple[RefusalRule, int], ...]) -> list[RefusalCount]:
    return [RefusalCount(rule, count) for rule, count in counts]


def candidate_of(one: Candidate) -> CandidateAnswer:
    return filled(CandidateAnswer, one)


def why_of(found: "Explanation") -> WhyAnswer:
    return filled(
        WhyAnswer,
        found,
        waits=[wait_of(one) for one in found.waits],
        timeline=timeline_of(found.timeline) if found.timeline is not None else None,
        stories=[story_of(one) for one in found.stories],
    )


def timeline_of(timeline: "Timeline") -> TimelineAnswer:
    return filled(
        TimelineAnswer,
        timeline,
        ended_at=time_of(timeline.ended_at),
        seconds=None if timeline.seconds is None else round(timeline.seconds, 3),
        stages={stage: round(seconds, 3) for stage, seconds in timeline.stages.items()},
        phases={phase: round(seconds, 3) for phase, seconds in timeline.phases.items()},
        lanes=[_lane_of(one) for one in timeline.lanes],
    )


def _lane_of(one: "TimelineLane") -> LaneAnswer:
    fate = InstanceFate(one.lane.fate) if one.lane.fate else None
    return filled(LaneAnswer, one.lane, first_job=one.first_job, fate=fate)
